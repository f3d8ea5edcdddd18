"""A comparison says what a branch would bring to another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.source.conftest import Git

from codebase_mcp.changes import compare as comparing
from codebase_mcp.changes.compare import Comparison, compare
from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.git_directory import git_repository_at

BODY = "def {}(number):\n    return [number * factor for factor in range(100)]\n"


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


def commit(git: Git, root: Path, files: dict[str, str | bytes]) -> None:
    write(root, files)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "change")


@pytest.fixture
def branches(repository: Path, git: Git) -> Path:
    """``feature`` with two commits that ``main`` lacks, ``main`` with one of its own."""
    commit(
        git,
        repository,
        {"app.py": BODY.format("old") + "\n\ndef kept(): pass\n", "main.py": "x = 1\n"},
    )
    git(repository, "checkout", "-q", "-b", "feature")
    commit(git, repository, {"app.py": "def kept(): return 1\n", "lib.py": BODY.format("old")})
    commit(git, repository, {"logo.png": b"\x89PNG\0", "new.py": "def added(): pass\n"})
    git(repository, "checkout", "-q", "main")
    commit(git, repository, {"main.py": "x = 2\n"})
    return repository


def compared(root: Path, a: str, b: str, **options: bool) -> Comparison:
    repository = git_repository_at(root)
    assert repository is not None
    return compare(repository, a, b, **options)


def shown(comparison: Comparison) -> dict[str, list[str]]:
    """The definitions of each file that differ."""
    found = {}
    for one in comparison.differences.files:
        changes = one.symbols
        found[one.file.path] = ["?"] if changes is None else [
            *(f"+{s.name}" for s in changes.added),
            *(f"~{s.name}" for s in changes.changed),
            *(f"-{s.name}" for s in changes.removed),
            *(f">{s.old_path}:{s.name}" for s in changes.moved),
        ]  # fmt: skip
    return found


def test_differences_are_those_since_the_two_parted(branches: Path) -> None:
    found = compared(branches, "main", "feature")
    assert (found.commits_ahead, found.commits_behind) == (2, 1)
    assert shown(found) == {
        "app.py": ["~kept"],
        "lib.py": [">app.py:old"],
        "logo.png": ["?"],
        "new.py": ["+added"],
    }
    assert found.differences.left_out == {"binary": 1}
    assert (found.differences.lines_added, found.differences.lines_removed) == (4, 5)
    assert (found.base, found.notices) == (compared(branches, "main~1", "main").commit_a, ())


def test_a_direct_comparison_is_of_the_states_themselves(branches: Path) -> None:
    found = compared(branches, "main", "feature", direct=True)
    assert shown(found)["main.py"] == ["~x"]
    assert found.base == found.commit_a
    assert (found.commits_ahead, found.commits_behind) == (2, 1)


def test_without_symbols_no_text_is_parsed(branches: Path) -> None:
    found = compared(branches, "main", "feature", symbols=False)
    assert {symbols for one in found.differences.files if (symbols := one.symbols)} == set()
    assert found.differences.total == 4


def test_uncommitted_work_is_compared_with_the_files_on_disk(branches: Path) -> None:
    write(branches, {"main.py": "x = 3\n", "draft.py": "def draft(): pass\n"})
    found = compared(branches, "HEAD", "worktree")
    assert (found.commits_ahead, found.commits_behind) == (0, 0)
    assert shown(found) == {"draft.py": ["+draft"], "main.py": ["~x"]}
    found = compared(branches, "feature", "worktree")
    assert (found.commits_ahead, found.commits_behind) == (1, 2)
    assert shown(found) == {"draft.py": ["+draft"], "main.py": ["~x"]}


def test_histories_with_nothing_in_common_are_compared_directly(branches: Path, git: Git) -> None:
    git(branches, "checkout", "-q", "--orphan", "island")
    commit(git, branches, {"main.py": "x = 5\n"})
    found = compared(branches, "main", "island")
    assert shown(found) == {"main.py": ["~x"]}
    assert "no common history" in found.notices[0]


def test_a_shallow_clone_says_so(branches: Path, git: Git, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth=1", "--no-single-branch", branches.as_uri(), "shallow")
    found = compared(tmp_path / "shallow", "main", "origin/feature")
    assert "shallow" in found.notices[-1]


def test_a_bare_repository_has_branches_and_no_files_on_disk(
    branches: Path, git: Git, tmp_path: Path
) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(branches), "bare.git")
    assert shown(compared(tmp_path / "bare.git", "main", "feature")) == shown(
        compared(branches, "main", "feature")
    )
    with pytest.raises(InvalidInput, match="no files on disk"):
        compared(tmp_path / "bare.git", "main", "worktree")


@pytest.mark.parametrize(("a", "b", "field"), [("nope", "main", "a"), ("main", "-x", "b")])
def test_what_is_no_commit_is_refused_by_its_parameter(
    branches: Path, a: str, b: str, field: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        compared(branches, a, b)
    assert raised.value.details["field"] == f"branch_{field}"


def test_very_many_files_are_compared_as_far_as_the_limits_go(
    branches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MAX_FILES", 1)
    found = compared(branches, "main", "feature")
    assert shown(found)["app.py"] == ["~kept", "-old"]
    assert found.differences.left_out == {"beyond_limit": 2, "binary": 1}
    monkeypatch.setattr(comparing, "MAX_TOTAL_BYTES", 10)
    assert compared(branches, "main", "feature").differences.left_out["beyond_limit"] == 3


def test_texts_that_are_not_source_are_left_out_and_counted(repository: Path, git: Git) -> None:
    commit(git, repository, {"kept.py": ""})
    marked = "# Code generated by a tool. DO NOT EDIT.\nx = 1\n"
    commit(
        git,
        repository,
        {
            "made.py": marked,
            "vendor/lib.py": "x = 1\n",
            "noise.py": b"\xff\x01" * 9,
            "large.py": "x = 1\n" * 200_000,
            "nul.py": b"x = '\0'\n",
            "package-lock.json": "{}",
        },
    )
    (repository / "link.py").symlink_to("kept.py")
    commit(git, repository, {})
    found = compared(repository, "HEAD~2", "HEAD")
    assert found.differences.left_out == {
        "generated": 2, "vendored": 1, "undecodable": 1, "too_large": 1, "binary": 1, "special": 1,
    }  # fmt: skip
    assert set(map(str, shown(found).values())) == {"['?']"}
