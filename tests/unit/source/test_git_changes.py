"""What differs between two commits is what git's trees say, whatever a repository contains."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.source.conftest import Git

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source import git_changes
from codebase_mcp.source.git_changes import (
    FileChange,
    FileChanges,
    ahead_behind,
    changed_files,
    commits_between,
    empty_tree,
    parents_of,
)
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_refs import merge_base

NUMBERS = "".join(f"{number}\n" for number in range(30))


def commit(git: Git, root: Path, message: str = "change") -> str:
    """Commit everything; its hash."""
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD").decode().strip()


def at(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


def compared(root: Path, a: str, b: str) -> dict[str, FileChange]:
    return {one.path: one for one in changed_files(at(root), a, b).files}


def facts(change: FileChange) -> tuple[object, ...]:
    return change.status, change.lines_added, change.lines_removed


def test_each_kind_of_change_is_recognised(repository: Path, git: Git) -> None:
    for name, text in {"kept": "", "edited": "1\n2\n", "gone": "1\n", "old": NUMBERS}.items():
        (repository / name).write_text(text)
    (repository / "binary").write_bytes(b"a\0b")
    (repository / "script").write_text("echo\n")
    (repository / "link").symlink_to("kept")
    a = commit(git, repository)
    (repository / "edited").write_text("1\n3\n4\n")
    (repository / "gone").unlink()
    (repository / "new").write_text("1\n2\n3\n")
    git(repository, "mv", "old", "moved")
    (repository / "moved").write_text(NUMBERS + "30\n")
    (repository / "binary").write_bytes(b"a\0c")
    (repository / "script").chmod(0o755)
    (repository / "link").unlink()
    (repository / "link").write_text("a file\n")
    b = commit(git, repository)
    found = compared(repository, a, b)
    assert {path: facts(change) for path, change in found.items()} == {
        "binary": ("changed", None, None),
        "edited": ("changed", 2, 1),
        "gone": ("removed", 0, 1),
        "link": ("type", 1, 1),
        "moved": ("renamed", 1, 0),
        "new": ("added", 3, 0),
        "script": ("mode", 0, 0),
    }
    assert found["moved"].old_path == "old"
    assert all(change.old_path is None for path, change in found.items() if path != "moved")
    assert list(found) == sorted(found)
    old, new = found["script"].old, found["script"].new
    assert old is not None and new is not None
    assert (old.mode, new.mode, old.object_id) == ("100644", "100755", new.object_id)


def test_a_submodule_is_a_commit_of_another_repository(repository: Path, git: Git) -> None:
    hashes = ["1" * 40, "2" * 40]
    commits = []
    for one in hashes:
        git(repository, "update-index", "--add", "--cacheinfo", f"160000,{one},lib")
        git(repository, "commit", "-q", "-m", one)
        commits.append(git(repository, "rev-parse", "HEAD").decode().strip())
    [change] = compared(repository, *commits).values()
    assert change.is_submodule and facts(change) == ("changed", None, None)
    assert change.old is not None and change.new is not None
    assert [change.old.object_id, change.new.object_id] == hashes
    assert not change.new.is_regular


@pytest.mark.parametrize(
    "name",
    [b"-rf", b"--output=x", b":(glob)*", b"a\nb", b"a\tb", b" ", b'"q"', b"\xff.py", b":100644 x"],
)
def test_names_are_only_names(repository: Path, git: Git, name: bytes) -> None:
    a = commit(git, repository)
    (repository / os.fsdecode(name)).write_text("1\n")
    b = commit(git, repository)
    [(path, change)] = compared(repository, a, b).items()
    assert path == name.decode("utf-8", "backslashreplace")
    assert facts(change) == ("added", 1, 0)
    assert compared(repository, b, a)[path].status == "removed"


def test_two_names_that_are_shown_alike_are_two_files(repository: Path, git: Git) -> None:
    a = commit(git, repository)
    (repository / os.fsdecode(b"\xff")).write_text("1\n")
    (repository / "\\xff").write_text("1\n2\n")
    b = commit(git, repository)
    files = changed_files(at(repository), a, b).files
    assert sorted((one.path, one.lines_added) for one in files) == [("\\xff", 1), ("\\xff", 2)]


def test_below_a_directory_only_its_files_count(repository: Path, git: Git) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "old").write_text(NUMBERS)
    (repository / "outside").write_text(NUMBERS + "x\n")
    a = commit(git, repository)
    git(repository, "mv", "sub/old", "sub/new")
    git(repository, "mv", "outside", "sub/from_outside")
    (repository / "other").write_text("1\n")
    b = commit(git, repository)
    found = compared(repository / "sub", a, b)
    assert {path: change.status for path, change in found.items()} == {
        "new": "renamed",
        "from_outside": "added",
    }


def test_attributes_and_configuration_of_a_repository_run_and_change_nothing(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    (repository / "a.txt").write_text("1\n")
    a = commit(git, repository)
    (repository / "a.txt").write_text("2\n")
    b = commit(git, repository)
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for name in ("diff.evil.command", "diff.evil.textconv", "diff.external", "filter.evil.clean"):
        git(repository, "config", name, str(program))
    git(repository, "config", "core.attributesFile", str(tmp_path / "attributes"))
    (tmp_path / "attributes").write_text("* diff=evil filter=evil\n")
    os.mkfifo(repository / ".gitattributes")  # git would wait for a writer
    assert facts(compared(repository, a, b)["a.txt"]) == ("changed", 1, 1)
    assert not ran.exists()


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_a_bare_repository_is_compared_with_either_hash(
    tree: Path, git: Git, tmp_path: Path, objects: str
) -> None:
    git(tree, "init", f"--object-format={objects}")
    (tree / "a").write_text("1\n")
    a = commit(git, tree)
    bare = tmp_path / "bare.git"
    git(tree, "clone", "-q", "--bare", ".", str(bare))
    git(bare, "config", "core.bare", "false")  # its own word for what it is
    assert facts(compared(bare, empty_tree(a), a)["a"]) == ("added", 1, 0)
    assert parents_of(at(bare), a) == []


def test_commits_are_counted_on_both_sides_of_where_they_parted(repository: Path, git: Git) -> None:
    base = commit(git, repository, "base")
    git(repository, "checkout", "-q", "-b", "other")
    b = [commit(git, repository, f"b{n}") for n in range(3)][-1]
    git(repository, "checkout", "-q", "main")
    a = commit(git, repository, "a")
    here = at(repository)
    assert ahead_behind(here, a, b) == (3, 1)
    assert ahead_behind(here, b, a) == (1, 3)
    assert ahead_behind(here, a, a) == (0, 0)
    assert merge_base(here, a, b) == base
    assert len(commits_between(here, base, b)) == 3
    git(repository, "checkout", "-q", "--orphan", "unrelated")
    alone = commit(git, repository, "alone")
    assert merge_base(here, a, alone) is None
    assert ahead_behind(here, a, alone) == (1, 2)


def test_of_very_many_files_only_the_first_are_listed_and_all_are_counted(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = commit(git, repository)
    for number in range(6):
        (repository / f"{number}.txt").write_text(f"{number}\n")
    b = commit(git, repository)
    here = at(repository)
    monkeypatch.setattr(git_changes, "MAX_FILES_WITH_LINES", 5)
    monkeypatch.setattr(git_changes, "MAX_FILES", 4)
    found = changed_files(here, a, b)
    assert (len(found.files), found.total, found.has_details) == (4, 6, False)
    assert {one.lines_added for one in found.files} == {None}


def test_large_files_are_neither_loaded_nor_counted(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_changes, "MAX_BYTES_FOR_RENAMES", 100)
    (repository / "old").write_text(NUMBERS * 10)
    (repository / "exact").write_text(NUMBERS * 11)
    a = commit(git, repository)
    git(repository, "mv", "exact", "exactly")
    git(repository, "mv", "old", "new")
    (repository / "new").write_text(NUMBERS * 10 + "x\n")
    b = commit(git, repository)
    found = compared(repository, a, b)
    assert {path: one.status for path, one in found.items()} == {
        "exactly": "renamed",
        "new": "added",
        "old": "removed",
    }
    (repository / "huge").write_bytes(b"1\n" * (9 << 20))
    c = commit(git, repository)
    assert facts(compared(repository, b, c)["huge"]) == ("added", None, None)


def test_without_the_contents_the_files_are_still_known(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    (repository / "a").write_text("1\n")
    a = commit(git, repository)
    (repository / "a").write_text("2\n")
    b = commit(git, repository)
    partial = tmp_path / "partial"
    git(repository, "config", "uploadpack.allowFilter", "true")
    url = repository.as_uri()
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", url, str(partial))
    found = changed_files(at(partial), a, b)
    assert isinstance(found, FileChanges) and not found.has_details
    assert [facts(one) for one in found.files] == [("changed", None, None)]


def test_a_commit_that_is_not_there_is_an_error(repository: Path, git: Git) -> None:
    a = commit(git, repository)
    with pytest.raises(IndexingFailed, match="diff-tree"):
        changed_files(at(repository), a, "1" * 40)
