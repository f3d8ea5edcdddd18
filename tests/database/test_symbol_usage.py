"""Where a definition is used is told by few statements; what is not certain does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.symbols.references import MAX_DEFINITIONS, MAX_FILES, Usage, UsingPlace, usage_of

pytestmark = pytest.mark.anyio

CALLER = "from pay import charge\n\n\ndef sell(card):\n    return charge(card)\n"
FILES = {
    "pay.py": (
        "def charge(card):\n    return charge(None)\n\n\ndef unused():\n    pass\n\n\nLIMIT = 1\n"
        "\n\nclass Till:\n    def open(self):\n        pass\n"
    ),
    "shop.py": (
        "from pay import LIMIT, charge\n\n\ndef sell(card):\n    charge(card)\n    charge(card)\n"
        "\n\ndef lend(card):\n    charge(card)\n"
        "\n\ndef guess(it):\n    it.charge(LIMIT)\n    it.open()\n"
    ),
    "b.py": CALLER,
    "tests/test_pay.py": (
        "from pay import charge, unused\n\n\ndef test_it():\n    unused(charge(1))\n"
    ),
}


async def test_the_first_places_that_use_a_definition(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(FILES), project_id)
    async with app.enter(project_id, readonly=True) as here:
        [row] = await here.tx.fetch_all("SELECT id FROM snapshot WHERE active")

        async def usage(name: str, line: int, path: str = "pay.py") -> Usage | None:
            return await usage_of(here.tx, row[0], path, name, (line, line))

        places = (UsingPlace("shop.py", 5, "sell"), UsingPlace("b.py", 5, "sell"))
        assert await usage("charge", 2) == Usage(True, places, 1, 1, True)
        test = UsingPlace("tests/test_pay.py", 5, "test_it")
        assert await usage("unused", 5) == Usage(True, (test,), 0, 0, True)
        assert await usage("LIMIT", 9) == Usage(
            False, (UsingPlace("shop.py", 14, "guess"),), 0, 0, True
        )
        assert await usage("Till.open", 13) is None  # perhaps it.open() is another one
        assert await usage("charge", 5) is None
        assert await usage("charge", 1, "nowhere.py") is None


async def test_of_a_common_name_some_files_are_looked_at_and_of_a_very_common_one_none(
    app: App, project_id: str, make_repo: Callable[..., Path]
) -> None:
    files = {"pay.py": "def charge(card):\n    return card\n"}
    files |= {f"shop{n}.py": CALLER for n in range(MAX_FILES)}
    root = make_repo(files)

    async def usage() -> Usage | None:
        await app.index(root, project_id)
        async with app.enter(project_id, readonly=True) as here:
            [row] = await here.tx.fetch_all("SELECT id FROM snapshot WHERE active")
            return await usage_of(here.tx, row[0], "pay.py", "charge", (1, 2))

    found = await usage()
    assert found is not None
    assert (found.more, found.is_all) == (MAX_FILES - 2, True)
    (root / "other.py").write_text(CALLER + "\n")
    found = await usage()
    assert found is not None
    assert not found.is_all
    (root / "many.py").write_text(
        "".join(f"class A{n}:\n    def charge(self): pass\n" for n in range(MAX_DEFINITIONS))
    )
    assert await usage() is None
