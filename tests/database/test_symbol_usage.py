"""How much a definition is used is told in a line; what is not resolved does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.symbols.lookup import Place
from codebase_mcp.symbols.usage import Usage, usage_at

pytestmark = pytest.mark.anyio

FILES = {
    "pay.py": "def charge(card):\n    return card\n\n\ndef unused():\n    pass\n\n\nLIMIT = 1\n",
    "shop.py": (
        "from pay import LIMIT, charge\n\n\ndef sell(card):\n    charge(card)\n    charge(card)\n"
        "\n\ndef guess(it):\n    it.charge(LIMIT)\n"
    ),
    "tests/test_pay.py": "from pay import charge\n\n\ndef test_it():\n    charge(1)\n",
}


async def test_the_uses_of_a_definition_in_a_line(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(FILES), project_id)
    async with app.enter(project_id, readonly=True) as here:
        [row] = await here.tx.fetch_all("SELECT id FROM snapshot WHERE active")

        async def usage(line: int, path: str = "pay.py") -> Usage | None:
            return await usage_at(here.tx, row[0], Place(path, line))

        charged, unused, limit = await usage(2), await usage(5), await usage(9)
        assert charged is not None
        assert (charged.in_code, charged.in_tests) == (2, 1)
        assert charged.line() == "called from sell (shop.py:5) and 1 more; 1 in tests"
        assert unused is not None
        assert unused.line() == ""
        assert limit is not None
        assert limit.line() == "used in guess (shop.py:10)"
        assert await usage(4) is None
        assert await usage(1, "nowhere.py") is None
