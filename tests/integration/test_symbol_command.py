"""The command ``symbol`` answers about the files on disk, and about any commit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.git import git
from tests.integration.conftest import Shell

from codebase_mcp.app import views
from codebase_mcp.app.app import App
from codebase_mcp.app.symbols import SymbolReport
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import IndexingFailed, InvalidInput, NotFound
from codebase_mcp.symbols.answer import SymbolQuestion
from codebase_mcp.symbols.references import UsingPlace
from codebase_mcp.tools.replies.symbols import symbol_text
from codebase_mcp.tools.symbols import symbol_reply

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
        return [(one.use.file.path, one.use.line) for one in found.uses]

    assert await uses("charge", None) == [("shop.py", 5), ("shop.py", 1)]
    assert await uses("charge", "main") == [("shop.py", 5), ("shop.py", 1)]
    assert await uses("debit", "feature") == [("shop.py", 5), ("shop.py", 1), ("shop.py", 8)]
    with pytest.raises(NotFound):
        await uses("charge", "feature")
    with pytest.raises(NotFound):
        await uses("debit", None)
    with pytest.raises(InvalidInput):
        await uses("charge", "main feature")
    for name, ref in (("charge", None), ("charge", "main"), ("debit", "feature")):
        usage = (await app.search(name, project_id, ref=ref)).usage
        assert usage is not None
        assert usage.places == (UsingPlace("shop.py", 5, "sell"),)


@pytest.mark.anyio
async def test_a_state_that_is_being_indexed_is_called_so(
    app: App, project_id: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.index(repository, project_id)
    may_run = asyncio.Event()
    run = app.views._run

    async def run_later(project: Project, meant: Any) -> Any:
        await may_run.wait()
        return await run(project, meant)

    async def ask(name: str) -> SymbolReport:
        question = SymbolQuestion("references", name=name, ref="feature")
        return await app.symbols.ask(question, project_id)

    monkeypatch.setattr(app.views, "_run", run_later)
    with monkeypatch.context() as patch:
        patch.setattr(views, "BUDGET_S", 0.0)
        with pytest.raises(IndexingFailed, match="feature is still being indexed"):
            await ask("debit")
    may_run.set()
    report = await ask("debit")
    assert (len(report.states), report.notice) == (1, "")

    # As a run leaves it that has not come to the end.
    may_run.clear()
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE snapshot SET files_pending = 1 WHERE view <> 'worktree'")
    app.views.forget()
    with monkeypatch.context() as patch:
        patch.setattr(views, "BUDGET_S", 0.0)
        notice = "feature is still being indexed: some files are missing."
        report = await ask("debit")
        assert report.notice == notice
        assert symbol_text(report, 1_000).startswith(f"{notice}\n3 uses of debit")
        assert symbol_reply(report, None).notice == notice
        with pytest.raises(NotFound) as raised:
            await ask("charge")
        assert (raised.value.hint or "").startswith(notice)
    may_run.set()


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
    alone = shell("symbol", "charge", *here)
    assert alone.stdout == shell("symbol", "definition", "charge", *here).stdout
    assert "pay.py:1-2 function: def charge(card):" in alone.stdout
    assert shell("symbol", "callers", "--depth", "2", "charge", *here).returncode == 0
    assert "callers" in shell("symbol", "callers", *here).stderr  # a name, of no definition
    wrong = shell("symbol", "uses", "charge", *here)
    assert wrong.returncode == 1
    assert "No operation of symbol: uses" in wrong.stderr
    assert shell("remove", str(repository), *here).returncode == 0


def test_impact_is_of_a_commit_a_range_or_what_is_not_committed(
    repository: Path, shell: Shell, make_repo: Callable[..., Path]
) -> None:
    here = ["--project", "impact-command"]
    other = make_repo({"other.py": "x = 1\n"}, "other")
    for root in (repository, other):
        assert shell("index", str(root), *here).returncode == 0
    text = shell("impact", "main...feature", *here, cwd=repository).stdout
    assert text.startswith("impact 0.") and "of main...feature; 2 files changed" in text
    assert "M pay.py +1 -1" in text
    assert "2 files changed" in shell("impact", "feature", *here, cwd=repository).stdout
    (repository / "shop.py").write_text(SHOP + "\n\nnew = charge\n")
    reply = json.loads(shell("impact", "--json", *here, cwd=repository).stdout)
    assert [one["path"] for one in reply["differences"]] == ["shop.py"]
    unknown = shell("impact", "nowhere", *here, cwd=repository)
    assert unknown.returncode == 1 and "nowhere" in unknown.stderr
    elsewhere = shell("impact", *here)
    assert elsewhere.returncode == 1 and "2 repositories" in elsewhere.stderr
