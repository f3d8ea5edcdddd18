"""A repository whose objects, refs and files are anything at all is listed or refused."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.profile import fuzzed
from tests.fuzz.strategies import bytes_like, damaged, text_like

from codebase_mcp.errors import CodebaseError
from codebase_mcp.source.commit_log import Lines, blame, find_tip, list_commits, read_commits
from codebase_mcp.source.git_changes import changed_files, commits_between
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_refs import list_refs, resolve_commit
from codebase_mcp.source.source_tree import list_files_at
from codebase_mcp.source.walk import list_files

BLOB = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")  # the empty one
TREE = b"100644 .gitignore\0" + BLOB + b"100644 a.py\0" + BLOB + b"120000 b\0" + BLOB
PERSON = b"A \xc3\xa9 <a@b> 1600000000 +0000"
COMMIT = b"tree %s\nauthor " + PERSON + b"\ncommitter " + PERSON + b"\n\nfix: a\n\nb\n"
CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty one, with the empty blob."""
    root = tmp_path_factory.mktemp("fuzzed")
    git(root, b"", "init", "--quiet", "--initial-branch=main")
    git(root, b"", "hash-object", "-w", "--stdin")
    (root / "a.py").write_text("a = 1\n")
    return root


def git(root: Path, content: bytes, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        input=content,
        env=environment,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


def stored(root: Path, kind: str, content: bytes) -> str:
    """An object as it is, without git's checks."""
    return git(root, content, "hash-object", "-w", "--literally", "-t", kind, "--stdin")


def opened(root: Path) -> GitRepository:
    found = git_repository_at(root)
    assert found is not None
    return found


@fuzzed
@given(tree=damaged(TREE) | st.just(TREE), commit=bytes_like(COMMIT))
def test_trees_and_commits(repository: Path, tree: bytes, commit: bytes) -> None:
    first = stored(repository, "commit", COMMIT % stored(repository, "tree", TREE).encode())
    tree_id = stored(repository, "tree", tree).encode()
    second = stored(repository, "commit", commit.replace(b"%s", tree_id))
    (repository / ".git/refs/heads/main").write_text(second + "\n")
    there = opened(repository)
    for read in (
        lambda: list_files_at(there, second),
        lambda: changed_files(there, first, second),
        lambda: commits_between(there, first, second),
        lambda: list_refs(there),
        lambda: blame(there, [Lines("a.py", 1, ("a = 1",))], revision=second),
        lambda: list_files(repository),
    ):
        with suppress(CodebaseError):
            read()
    with suppress(CodebaseError):
        if (tip := find_tip(repository)) is not None:
            read_commits(tip, list_commits(tip, 5))


@fuzzed
@given(
    packed=bytes_like(b"# pack-refs with: peeled\n" + b"1" * 40 + b" refs/heads/a\n^" + b"2" * 40),
    head=bytes_like(b"ref: refs/heads/main\n", b"1" * 40),
    config=bytes_like(CONFIG),
    ref=text_like("main~2^0", "refs/tags/v1", "0123abc", "a..b"),
)
def test_refs_and_records_of_git(
    repository: Path, packed: bytes, head: bytes, config: bytes, ref: str
) -> None:
    git_dir = repository / ".git"
    files = {"packed-refs": packed, "HEAD": head, "config": config}
    before = {name: (git_dir / name).read_bytes() for name in ("HEAD", "config")}
    for name, content in files.items():
        (git_dir / name).write_bytes(content)
    try:
        with suppress(CodebaseError):
            list_files(repository)
        there = git_repository_at(repository)
        if there is not None:
            with suppress(CodebaseError):
                list_refs(there)
            with suppress(CodebaseError):
                resolve_commit(there, ref)
    finally:
        (git_dir / "packed-refs").unlink()
        for name, content in before.items():
            (git_dir / name).write_bytes(content)


@fuzzed
@given(content=bytes_like(b"gitdir: ../.git/worktrees/x\n"))
def test_a_git_file(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    root = tmp_path_factory.mktemp("linked")
    (root / ".git").write_bytes(content)
    with suppress(CodebaseError):
        list_files(root)
