"""Lines are blamed on the commit that last changed them, and nothing is run for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.source.commit_log import UNCOMMITTED, Blamed, Lines, blame, lines_of
from codebase_mcp.source.git_directory import git_repository_at

Git = Callable[..., bytes]


def commit(git: Git, repository: Path, message: str, files: dict[str, str]) -> str:
    for name, content in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    git(repository, "add", "-A")
    git(repository, "commit", "-m", message)
    return git(repository, "rev-parse", "HEAD").decode().strip()


def blamed(root: Path, *places: tuple[str, int, str], limit_s: float = 30.0) -> list[Blamed | None]:
    repository = git_repository_at(root)
    assert repository is not None
    wanted = [Lines(path, first, lines_of(text)) for path, first, text in places]
    return blame(repository, wanted, limit_s=limit_s)


def subjects(found: list[Blamed | None]) -> list[str | None]:
    return [None if one is None else one.subject for one in found]


def test_the_newest_commit_of_some_lines_is_told(repository: Path, git: Git) -> None:
    commit(git, repository, "one", {"a.py": "1\n2\n3\n"})
    second = commit(git, repository, "two\n\nmore", {"a.py": "1\n2!\n3\n"})
    first, both, last = blamed(
        repository, ("a.py", 1, "1\n"), ("a.py", 1, "1\n2!\n"), ("a.py", 3, "3")
    )
    assert subjects([first, both, last]) == ["one", "two", "one"]
    assert both is not None
    assert (both.commit, both.author) == (second, "Test")
    assert both.authored_at > 1_600_000_000


def test_lines_are_found_where_they_stand_in_the_commit(repository: Path, git: Git) -> None:
    commit(git, repository, "one", {"a.py": "x\ny\r\nz\nx\ny\nw\n"})
    commit(git, repository, "two", {"a.py": "x\ny\r\nz\nx\ny!\nw\n"})
    (repository / "a.py").write_text("new\n" * 10 + "x\ny\nz\n")
    assert subjects(blamed(repository, ("a.py", 11, "x\ny\nz\n"))) == ["one"]


@pytest.mark.parametrize(
    ("path", "text"), [("a.py", "1\n2?\n"), ("new.py", "1\n"), ("a.py", "1\n2\n3\n4\n")]
)
def test_lines_that_the_commit_does_not_have_are_uncommitted(
    repository: Path, git: Git, path: str, text: str
) -> None:
    commit(git, repository, "one", {"a.py": "1\n2\n3\n"})
    assert blamed(repository, (path, 1, text)) == [UNCOMMITTED]


def test_odd_paths_are_blamed_as_any_others_or_not_at_all(repository: Path, git: Git) -> None:
    odd = ["-L1", ":(top)a", "a b\t.py", "größe.py", "*"]
    commit(git, repository, "one", dict.fromkeys([*odd, "b\nc"], "x\n"))
    assert subjects(blamed(repository, *((path, 1, "x\n") for path in odd))) == ["one"] * 5
    assert blamed(repository, ("b\nc", 1, "x\n")) == [None]


def test_a_directory_below_the_top_and_a_bare_repository_are_blamed_too(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit(git, repository, "one", {"src/a.py": "x\n", "a.py": "y\n"})
    assert subjects(blamed(repository / "src", ("a.py", 1, "x\n"))) == ["one"]
    git(tmp_path, "clone", "--bare", str(repository), "bare.git")
    assert subjects(blamed(tmp_path / "bare.git", ("src/a.py", 1, "x\n"))) == ["one"]


def test_where_a_shallow_clone_ends_nobody_is_blamed(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit(git, repository, "one", {"a.py": "1\n2\n"})
    commit(git, repository, "two", {"b.py": "1\n"})
    commit(git, repository, "three", {"a.py": "1\n2\n3\n"})
    git(tmp_path, "clone", "--depth", "2", f"file://{repository}", "clone")
    places = (("a.py", 1, "1\n"), ("a.py", 3, "3\n"))
    assert subjects(blamed(tmp_path / "clone", *places)) == [None, "three"]


def test_what_takes_too_long_is_unknown(repository: Path, git: Git) -> None:
    commit(git, repository, "one", {"a.py": "x\n"})
    assert blamed(repository, ("a.py", 1, "x\n"), limit_s=0.0) == [None]


@pytest.fixture
def hostile(repository: Path, git: Git, tmp_path: Path) -> Path:
    """A repository whose settings name a program wherever blame could run one."""
    commit(git, repository, "one", {"a.py": "x\n", ".gitattributes": "* diff=evil filter=evil\n"})
    program = tmp_path / "canary"
    program.write_text(f"#!/bin/sh\necho sang >> '{tmp_path / 'trace'}'\n")
    program.chmod(0o755)
    (repository / ".mailmap").write_text("Liar <liar@example.org> <test@example.org>\n")
    for name in (
        *("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "filter.evil.smudge"),
        *("core.pager", "pager.blame", "core.fsmonitor", "alias.blame"),
        *("diff.external", "core.sshCommand"),
    ):
        git(repository, "config", name, str(program))
    return repository


def test_a_careless_blame_would_run_a_program(hostile: Path, git: Git, tmp_path: Path) -> None:
    git(hostile, "blame", "HEAD", "--", "a.py")
    assert (tmp_path / "trace").exists()


def test_nothing_that_a_repository_configures_is_run(hostile: Path, tmp_path: Path) -> None:
    assert subjects(blamed(hostile, ("a.py", 1, "x\n"))) == ["one"]
    assert not (tmp_path / "trace").exists()


def test_a_list_of_ignored_commits_hides_none_and_a_pipe_in_its_place_is_not_waited_for(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    commit(git, repository, "one", {"a.py": "1\n2\n"})
    second = commit(git, repository, "two", {"a.py": "1\n2 \n"})
    (tmp_path / "ignored").write_text(second)
    git(repository, "config", "blame.ignoreRevsFile", str(tmp_path / "ignored"))
    assert subjects(blamed(repository, ("a.py", 2, "2 \n"))) == ["two"]
    os.mkfifo(tmp_path / "pipe")
    git(repository, "config", "blame.ignoreRevsFile", str(tmp_path / "pipe"))
    assert blamed(repository, ("a.py", 2, "2 \n"), limit_s=0.5) == [None]
