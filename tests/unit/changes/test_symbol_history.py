"""What became of a definition is told commit by commit, as git has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.git import git

from codebase_mcp.changes import symbol_history as room
from codebase_mcp.changes.symbol_history import SymbolHistory, symbol_history
from codebase_mcp.source.commit_log import find_tip

Commit = Callable[..., str]

FUNCTION = "def pay(card):\n    return charge(card)\n"
CLASS = "class Shop:\n    def pay(self):\n        return 1\n\n    def close(self):\n        pass\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def commit(root: Path, message: str, **files: str | None) -> str:
    """Commit Python files by their names, deleting those that are None."""
    for name, content in files.items():
        path = root / f"{name}.py"
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").strip()


def history(root: Path, name: str, depth: int = 100) -> SymbolHistory:
    tip = find_tip(root)
    assert tip is not None
    return symbol_history(tip, name, depth)


def told(root: Path, name: str, depth: int = 100) -> list[tuple[str, str, str]]:
    return [(e.subject, e.change, e.path) for e in history(root, name, depth).events]


def test_a_definition_appears_changes_moves_and_vanishes(root: Path) -> None:
    commit(root, "other", b="x = 1\n")
    first = commit(root, "appears", a=FUNCTION)
    commit(root, "only lower", a="import charge\n\n\n" + FUNCTION)
    commit(root, "changes", a=FUNCTION.replace("charge", "bill"))
    commit(root, "moves", a="", b=FUNCTION.replace("charge", "bill"))
    commit(root, "used elsewhere", c="pay(1)\n")
    commit(root, "vanishes", b="x = 1\n")
    found = history(root, "pay")
    assert [(e.subject, e.change, e.path, e.former) for e in found.events] == [
        ("vanishes", "removed", "b.py", None),
        ("moves", "moved", "b.py", "a.py"),
        ("changes", "changed", "a.py", None),
        ("appears", "added", "a.py", None),
    ]
    appears = found.events[-1]
    assert (appears.commit, appears.author, appears.first_line, appears.last_line) == (
        first, "Ann", 1, 2,
    )  # fmt: skip
    assert (found.commits, found.is_complete) == (7, True)


def test_a_qualified_name_means_that_definition_alone(root: Path) -> None:
    commit(root, "both", a=CLASS, b=FUNCTION)
    commit(root, "method", a=CLASS.replace("return 1", "return 2"))
    commit(root, "function", b=FUNCTION + "\n\nx = 1\n")
    assert told(root, "Shop.pay") == [("method", "changed", "a.py"), ("both", "added", "a.py")]
    assert [e.symbol for e in history(root, "pay").events] == ["Shop.pay", "Shop.pay", "pay"]
    assert told(root, "op.pay") == told(root, "nothing") == []


def test_a_definition_inside_a_renamed_file_or_class_was_moved(root: Path) -> None:
    commit(root, "appears", a=CLASS)
    commit(root, "class", a=CLASS.replace("Shop", "Store"))
    commit(root, "file", a=None, c=CLASS.replace("Shop", "Store"))
    events = history(root, "close").events
    assert [(e.subject, e.change, e.former) for e in events] == [
        ("file", "moved", "a.py"),
        ("class", "moved", "Shop.close"),
        ("appears", "added", None),
    ]


def test_no_more_commits_than_asked_for_are_looked_at(root: Path) -> None:
    commit(root, "appears", a=FUNCTION)
    commit(root, "changes", a=FUNCTION.replace("charge", "bill"))
    commit(root, "later", b="x = 1\n")
    assert told(root, "pay", 2) == [("changes", "changed", "a.py")]
    assert not history(root, "pay", 2).is_complete


def test_a_merge_is_left_out_and_what_it_merged_is_not(root: Path) -> None:
    commit(root, "one", b="x = 1\n")
    git(root, "switch", "-q", "-c", "side")
    commit(root, "side", a=FUNCTION)
    git(root, "switch", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merged", "side")
    assert told(root, "pay") == [("side", "added", "a.py")]


def test_a_shallow_clone_does_not_tell_what_it_cannot_know(root: Path, tmp_path: Path) -> None:
    commit(root, "appears", a=FUNCTION)
    commit(root, "changes", a=FUNCTION.replace("charge", "bill"))
    commit(root, "again", a=FUNCTION)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{root}", str(clone))
    assert told(clone, "pay") == [("again", "changed", "a.py")]
    assert not history(clone, "pay").is_complete


def test_versions_that_are_not_read_make_no_events(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(root, "appears", a=FUNCTION)
    commit(root, "large", a=FUNCTION.replace("charge", "bill") + "\n\n" + "x = 1\n" * 100)
    commit(root, "small", a=FUNCTION)
    monkeypatch.setattr(room, "MAX_BYTES", 200)
    assert told(root, "pay") == [("appears", "added", "a.py")]
    assert not history(root, "pay").is_complete


def test_hostile_names_contents_and_settings_do_no_harm(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho sang >> '{tmp_path / 'trace'}'\n")
    program.chmod(0o755)
    commit(root, "one", **{"-S": FUNCTION, "a\nb": FUNCTION, "c": "pay \0 \udcff"[:4]})
    (root / ".gitattributes").write_text("* diff=evil filter=evil\n")
    for name in ("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "diff.external"):
        git(root, "config", name, str(program))
    assert [path for _, _, path in told(root, "pay")] == ["-S.py", "a\nb.py"]
    for name in ("--output=x", "-pay", "a.*", "\n", "pay\0"[:3]):
        history(root, name)
    assert not (tmp_path / "trace").exists()
