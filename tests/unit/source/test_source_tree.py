"""The files of a directory, and those of a bare repository's commit, are got in the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.read import SourceText
from codebase_mcp.source.source_tree import read_at_head, read_each, source_tree_at
from codebase_mcp.source.tree_scan import start_scan

Git = Callable[..., bytes]
FILES = {"a.py": "x = 1\n", "pkg/b.py": "y = 2\n", "pkg/deep/c.py": "z = 3\n", "pkgs.py": "w\n"}


@pytest.fixture
def work(repository: Path, git: Git) -> Path:
    """A work tree with a commit."""
    for name, text in FILES.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "one")
    return repository


@pytest.fixture(params=["sha1", "sha256"])
def bare(request: pytest.FixtureRequest, work: Path, tmp_path: Path, git: Git) -> Path:
    """A bare repository with the same commit, of either kind of hash."""
    if request.param == "sha256":
        (work / ".git").rename(tmp_path / "old")
        git(work, "init", "--object-format=sha256")
        git(work, "add", "-A")
        git(work, "commit", "-m", "one")
    git(tmp_path, "clone", "--bare", str(work), "bare.git")
    return tmp_path / "bare.git"


@pytest.mark.parametrize("paths", [None, ["pkg"], ["a.py", "pkg/deep/c.py", "gone.py"], []])
def test_a_commit_is_listed_and_read_like_its_checkout(
    work: Path, bare: Path, paths: list[str] | None
) -> None:
    trees = [source_tree_at(root) for root in (work, bare)]
    ours, theirs = [read_each(tree, tree.list_files(paths).files) for tree in trees]
    expected = [(f.path, f.size, f.kind, content) for f, content in ours]
    assert [(f.path, f.size, f.kind, content) for f, content in theirs] == expected
    assert len(expected) == {None: 4, 1: 2, 3: 2, 0: 0}[None if paths is None else len(paths)]
    assert all(isinstance(content, SourceText) for *_, content in expected)


def test_only_files_with_other_content_have_another_place_and_time(
    work: Path, bare: Path, git: Git
) -> None:
    before = {f.path: f for f in source_tree_at(bare).list_files().files}
    (work / "pkg/b.py").write_text("y = 5\n")
    git(work, "commit", "-am", "two")
    git(work, "push", str(bare), "main")
    after = {f.path: f for f in source_tree_at(bare).list_files().files}
    assert [path for path in FILES if before[path] != after[path]] == ["pkg/b.py"]
    assert all(file.ctime_ns < 0 for file in after.values())


def test_a_scan_notices_that_head_has_moved(work: Path, bare: Path, git: Git) -> None:
    scan = start_scan(bare, source_tree_at(bare).selection)
    assert scan.changes().is_empty
    git(work, "push", str(bare), "main:other")
    assert scan.changes().is_empty
    git(work, "commit", "--allow-empty", "-m", "two")
    git(work, "push", str(bare), "main")
    assert scan.changes().needs_full_run
    bare.rename(bare.with_name("elsewhere"))
    with pytest.raises(FileNotFoundError):
        scan.changes()


def test_one_file_is_read_at_head_and_no_link_is_followed(
    work: Path, tmp_path: Path, git: Git
) -> None:
    git(tmp_path, "init", "--bare", "bare.git")
    repository = GitRepository(tmp_path / "bare.git", None)
    assert read_at_head(repository, "a.py", 100) is None
    with pytest.raises(IndexingFailed, match="is a branch without a commit"):
        source_tree_at(repository.root)
    (work / "link").symlink_to("a.py")
    git(work, "add", "-A")
    git(work, "commit", "-m", "two")
    git(work, "push", str(repository.root), "main")
    assert read_at_head(repository, "a.py", 100) == b"x = 1\n"
    assert read_at_head(repository, "a.py", 3) is None
    for path in ("link", "pkg", "gone"):
        assert read_at_head(repository, path, 100) is None
