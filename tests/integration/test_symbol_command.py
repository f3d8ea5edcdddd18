"""The command ``symbol`` answers about the files on disk, and about any commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git
from tests.integration.conftest import Shell

from codebase_mcp.app.app import App
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.symbols.answer import SymbolQuestion

PAY = "def charge(card):\n    return card\n"
SHOP = "from pay import charge\n\n\ndef sell(card):\n    return charge(card)\n"


@pytest.fixture
def repository(make_repo: Callable[..., Path]) -> Path:
    """``main`` sells with ``charge``, ``feature`` with another name."""
    root = make_repo({"pay.py": PAY, "shop.py": SHOP})
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "one")
    git(root, "checkout", "-q", "-b", "feature")
    for path, text in (("pay.py", PAY), ("shop.py", SHOP)):
        (root / path).write_text(text.replace("charge", "debit"))
    (root / "shop.py").write_text(SHOP.replace("charge", "debit") + "\n\nmore = debit\n")
    git(root, "commit", "-q", "-am", "two")
    git(root, "checkout", "-q", "main")
    return root


@pytest.mark.anyio
async def test_each_state_has_its_own_uses(app: App, project_id: str, repository: Path) -> None:
    await app.index(repository, project_id)

    async def uses(name: str, ref: str | None) -> list[tuple[str, int]]:
        question = SymbolQuestion("references", name=name, ref=ref)
        found = (await app.symbols.ask(question, project_id)).facts.references
        assert found is not None
        return [(one.path, one.line) for one in found.uses]

    assert await uses("charge", None) == [("shop.py", 5), ("shop.py", 1)]
    assert await uses("charge", "main") == [("shop.py", 5), ("shop.py", 1)]
    assert await uses("debit", "feature") == [("shop.py", 5), ("shop.py", 1), ("shop.py", 8)]
    with pytest.raises(NotFound):
        await uses("charge", "feature")
    with pytest.raises(NotFound):
        await uses("debit", None)
    with pytest.raises(InvalidInput):
        await uses("charge", "main feature")


@pytest.mark.anyio
async def test_a_change_on_disk_is_seen(app: App, project_id: str, repository: Path) -> None:
    await app.index(repository, project_id)
    (repository / "new.py").write_text(SHOP)
    question = SymbolQuestion("callers", name="charge")
    found = (await app.symbols.ask(question, project_id)).facts.calls
    assert found is not None
    [calls] = found.calls.values()
    assert [one.path for one in calls] == ["new.py", "shop.py"]


def test_the_command_shows_text_or_json(repository: Path, shell: Shell) -> None:
    here = ["--project", "symbol-command"]
    assert shell("index", str(repository), *here).returncode == 0
    text = shell("symbol", "references", "charge", *here).stdout
    assert text.splitlines()[0] == "2 uses of charge: 1 call, 1 import"
    reply = shell("symbol", "callers", "debit", "--ref", "feature", "--json", *here).stdout
    calls = json.loads(reply)["calls"]
    assert [(one["level"], one["symbol"]) for one in calls] == [(0, "debit"), (1, "sell")]
    assert "imported from pay" in shell("symbol", "definition", "shop.py:5", *here).stdout
    text = shell("symbol", "outline", "shop.py", *here).stdout
    assert text.splitlines()[1] == "4-5 def sell(card):"
    assert shell("symbol", "callers", "charge", "--depth", "9", *here).returncode == 1
    unknown = shell("symbol", "callers", "chargs", *here)
    assert unknown.returncode == 1
    assert "Nearest names: charge" in unknown.stderr
    assert shell("remove", str(repository), *here).returncode == 0
