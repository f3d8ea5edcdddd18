"""What is not committed is found by reading the files, without running a filter on them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.source.conftest import Git

from codebase_mcp.source import git_changes
from codebase_mcp.source.git_changes import (
    changed_files,
    changed_on_disk,
    count_lines,
    read_location,
)
from codebase_mcp.source.git_directory import GitRepository, git_repository_at


def commit(git: Git, root: Path) -> str:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "change")
    return git(root, "rev-parse", "HEAD").decode().strip()


def at(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


def found_in(root: Path, head: str) -> dict[str, tuple[object, ...]]:
    files = changed_on_disk(at(root), head).files
    return {one.path: (one.status, one.lines_added, one.lines_removed) for one in files}


def make_changes(root: Path, git: Git) -> str:
    """A commit, and every kind of change after it."""
    (root / "sub").mkdir()
    for name in ("kept", "sub/edited", "gone", "old", "script", "link", "binary"):
        (root / name).write_text(f"{name}\n" * 20)
    (root / ".gitignore").write_text("*.log\n")
    head = commit(git, root)
    (root / "sub" / "edited").write_text("sub/edited\n" * 10 + "x\n" + "sub/edited\n" * 9)
    (root / "gone").unlink()
    (root / "old").rename(root / "moved")
    (root / "script").chmod(0o755)
    (root / "link").unlink()
    (root / "link").symlink_to("kept")
    (root / "binary").write_bytes(b"a\0b")
    (root / "untracked.py").write_text("x = 1\n")
    (root / "ignored.log").write_text("x\n")
    return head


def test_each_kind_of_change_is_recognised(repository: Path, git: Git) -> None:
    head = make_changes(repository, git)
    found = changed_on_disk(at(repository), head)
    assert {one.path: (one.status, one.lines_added, one.lines_removed) for one in found.files} == {
        "binary": ("changed", None, None),
        "gone": ("removed", 0, 20),
        "link": ("type", None, None),
        "moved": ("renamed", 0, 0),
        "script": ("mode", 0, 0),
        "sub/edited": ("changed", 1, 1),
        "untracked.py": ("added", 1, 0),
    }
    assert [one.old_path for one in found.files if one.status == "renamed"] == ["old"]
    [new] = [one.new for one in found.files if one.path == "untracked.py"]
    assert new is not None
    assert read_location(found.locations[new.object_id], 100) == b"x = 1\n"


def test_after_a_commit_the_same_files_differ(repository: Path, git: Git) -> None:
    head = make_changes(repository, git)
    before = changed_on_disk(at(repository), head).files
    after = changed_files(at(repository), head, commit(git, repository)).files
    assert [(o.path, o.old_path, o.status, o.old, o.new) for o in before] == [
        (o.path, o.old_path, o.status, o.old, o.new) for o in after
    ]


def test_no_filter_runs(repository: Path, git: Git, tmp_path: Path) -> None:
    (repository / "a").write_text("1\n")
    head = commit(git, repository)
    ran = tmp_path / "ran"
    git(repository, "config", "filter.evil.clean", f"touch {ran}")
    git(repository, "config", "filter.evil.process", f"touch {ran}")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / "a").write_text("2\n")
    assert found_in(repository, head) == {
        "a": ("changed", 1, 1),
        ".gitattributes": ("added", 1, 0),
    }
    assert not ran.exists()


def test_what_only_a_checkout_converts_is_equal(repository: Path, git: Git) -> None:
    large = b"a large file\n" * 100
    pointer = (
        "version https://git-lfs.github.com/spec/v1\n"
        f"oid sha256:{hashlib.sha256(large).hexdigest()}\nsize {len(large)}\n"
    )
    (repository / "text").write_bytes(b"1\n2\n")
    (repository / "large").write_text(pointer)
    (repository / "other").write_text(pointer)
    head = commit(git, repository)
    (repository / "text").write_bytes(b"1\r\n2\r\n")
    (repository / "large").write_bytes(large)
    (repository / "other").write_bytes(large + b"x")
    assert found_in(repository, head) == {"other": ("changed", 101, 3)}


def test_links_and_pipes_are_not_followed(repository: Path, git: Git, tmp_path: Path) -> None:
    (repository / "folder").mkdir()
    (repository / "folder" / "a").write_text("1\n")
    (repository / "b").write_text("1\n")
    head = commit(git, repository)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret\n")
    (repository / "folder" / "a").unlink()
    (repository / "folder").rmdir()
    (repository / "folder").symlink_to(outside)
    (repository / "b").unlink()
    os.mkfifo(repository / "b")
    assert found_in(repository, head) == {
        "b": ("removed", 0, 1),
        "folder": ("added", None, None),
        "folder/a": ("removed", 0, 1),
    }


def test_files_that_a_sparse_checkout_leaves_out_are_not_removed(
    repository: Path, git: Git
) -> None:
    for name in ("here", "there"):
        (repository / name).mkdir()
        (repository / name / "a").write_text(name)
    head = commit(git, repository)
    git(repository, "sparse-checkout", "set", "here")
    assert not (repository / "there" / "a").exists()
    assert found_in(repository, head) == {}


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_below_a_directory_only_its_files_count(tree: Path, git: Git, objects: str) -> None:
    git(tree, "init", f"--object-format={objects}")
    (tree / "sub").mkdir()
    (tree / "sub" / "a").write_text("1\n")
    (tree / "b").write_text("1\n")
    head = commit(git, tree)
    (tree / "sub" / "a").write_text("2\n")
    (tree / "b").write_text("2\n")
    assert found_in(tree / "sub", head) == {"a": ("changed", 1, 1)}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"", b"", (0, 0)),
        (b"", b"1\n2", (2, 0)),
        (b"1\n2\n", b"", (0, 2)),
        (b"1\n2\n3\n", b"1\nx\ny\n3\n", (2, 1)),
        (b"1\n", b"1", (1, 1)),
        (b"a\na\na\n", b"a\na\n", (0, 1)),
    ],
)
def test_lines_are_counted(old: bytes, new: bytes, expected: tuple[int, int]) -> None:
    assert count_lines(old, new) == expected


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_both_ways_of_counting_agree_on_the_difference(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in one).encode() for one in (old, new))
    added, removed = count_lines(before, after)
    assert added - removed == len(new) - len(old)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(git_changes, "_MAX_LINE_PAIRS", -1)
        at_least = count_lines(before, after)
    assert at_least[0] <= added and at_least[1] <= removed
    assert at_least[0] - at_least[1] == len(new) - len(old)
