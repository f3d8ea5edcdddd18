"""Why a change matters: reasons that can be counted, and a score that follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.source.conftest import Git

from codebase_mcp.changes.compare import Difference
from codebase_mcp.changes.impact import (
    Activity,
    change_of_branch,
    change_of_commit,
    find_reasons,
    uncommitted_change,
)
from codebase_mcp.changes.likely import Companion
from codebase_mcp.changes.symbols import ChangedSymbol, SymbolChanges
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import FileKind
from codebase_mcp.source.git_changes import FileChange
from codebase_mcp.source.git_directory import GitRepository, git_repository_at


def difference(path: str, kind: FileKind, *, changed: int = 0, removed: int = 0) -> Difference:
    symbol = ChangedSymbol("f", "function", path, 1, 2)
    symbols = SymbolChanges(changed=[symbol] * changed, removed=[symbol] * removed)
    return Difference(FileChange(path, None, "changed", None, None), kind, symbols)


def reasons(
    *files: Difference,
    companions: Sequence[Companion] = (),
    busiest: Activity = Activity("", 0, 0),  # noqa: B008 - a value
) -> dict[str, float]:
    found = find_reasons(files, companions, busiest)
    assert [one.points for one in found] == sorted((one.points for one in found), reverse=True)
    assert all(0 < one.points < 1 and one.text.endswith(".") for one in found)
    return {one.name: one.value for one in found}


CODE = difference("src/a.py", FileKind.CODE, changed=2, removed=1)
TEST = difference("tests/test_a.py", FileKind.TEST, changed=5, removed=5)
DOCS = difference("README.md", FileKind.DOCS, changed=5, removed=5)


def test_definitions_of_the_product_count_and_those_of_tests_and_documents_do_not() -> None:
    expected = {"definitions_changed": 2, "definitions_removed": 1}
    assert reasons(CODE, TEST, DOCS) == expected
    assert reasons(CODE) == expected | {"no_test_changed": 1}
    assert "no_test_changed" not in reasons(difference("ci.yml", FileKind.CONFIG, changed=1))
    assert reasons(TEST, DOCS) == {}
    assert reasons() == {}


def test_a_change_in_several_directories_is_spread() -> None:
    other = difference("lib/b.py", FileKind.CODE)
    assert reasons(CODE, other, TEST)["directories"] == 2
    assert "directories" not in reasons(CODE, difference("src/b.py", FileKind.CODE), TEST)


def test_companions_count_from_half_of_the_commits_on() -> None:
    often = Companion("b.py", "src/a.py", 5, 10)
    seldom = Companion("c.py", "src/a.py", 4, 10)
    assert reasons(TEST, companions=[often, seldom]) == {"companions_left_alone": 1}
    assert reasons(TEST, companions=[seldom]) == {}


def test_how_often_a_file_changes_counts_if_the_history_is_long_enough() -> None:
    assert reasons(TEST, busiest=Activity("a.py", 10, 100)) == {"busiest_file": 10}
    assert reasons(TEST, busiest=Activity("a.py", 10, 19)) == {}


def at(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


def commit(git: Git, root: Path, path: str) -> str:
    (root / path).write_text(f"x = '{path}'\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", path)
    return git(root, "rev-parse", "HEAD").decode().strip()


def test_a_merge_brought_what_its_first_parent_lacked(repository: Path, git: Git) -> None:
    first = commit(git, repository, "a.py")
    git(repository, "checkout", "-q", "-b", "side")
    side = commit(git, repository, "b.py")
    git(repository, "checkout", "-q", "main")
    commit(git, repository, "c.py")
    git(repository, "merge", "-q", "--no-edit", "side")
    found = change_of_commit(at(repository), "HEAD")
    assert [one.file.path for one in found.differences.files] == ["b.py"]
    assert set(found.commits) == {side, found.label}
    root = change_of_commit(at(repository), first[:8])
    assert [one.file.status for one in root.differences.files] == ["added"]
    assert root.commits == [first]
    branch = change_of_branch(at(repository), first, "side")
    assert (branch.label, list(branch.commits)) == (f"{first}...side", [side])


def test_at_the_end_of_a_shallow_clone_a_change_is_unknown(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit(git, repository, "a.py")
    commit(git, repository, "b.py")
    git(tmp_path, "clone", "-q", "--depth=1", repository.as_uri(), "shallow")
    with pytest.raises(InvalidInput, match="its parent is missing"):
        change_of_commit(at(tmp_path / "shallow"), "HEAD")


def test_before_the_first_commit_nothing_can_be_compared(repository: Path) -> None:
    with pytest.raises(InvalidInput):
        uncommitted_change(at(repository))
