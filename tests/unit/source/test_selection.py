"""What a selection leaves out of a listing, and what it lets in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codebase_mcp.model import Listing
from codebase_mcp.source.selection import Patterns, Selection
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]

BOTH = pytest.mark.parametrize("inside_git", [False, True], ids=["plain", "git"])


def write(tree: Path, *paths: str, content: str = "x = 1\n") -> None:
    for path in paths:
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


def paths_of(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


@pytest.fixture
def either(tree: Path, git: Git, inside_git: bool) -> Path:
    """The tree, as a git repository or not, as the test's parameter says."""
    if inside_git:
        git(tree, "init")
    return tree


def with_submodule(repository: Path, git: Git, outside: Path) -> Selection:
    """Give the repository a submodule, which has one itself; the selection that enters them."""
    for name in ("inner", "outer"):
        library = outside / name
        library.mkdir()
        git(library, "init")
        write(library, f"{name}.py", "noise.log")
        write(library, ".gitignore", content="*.log\n")
        if name == "outer":
            git(library, "submodule", "add", str(outside / "inner"), "inner")
        git(library, "add", "-A")
        git(library, "commit", "-m", name)
    git(repository, "submodule", "add", str(outside / "outer"), "lib")
    return Selection(include_submodules=True)


def test_submodules_are_entered_if_enabled(repository: Path, git: Git, tmp_path: Path) -> None:
    wanted = with_submodule(repository, git, tmp_path)
    git(repository, "submodule", "update", "--init", "--recursive")
    write(repository, "lib/untracked.py", "lib/noise.log")
    listing = list_files(repository, wanted)
    code = [path for path in paths_of(listing) if path.endswith((".py", ".log"))]
    assert code == ["lib/inner/inner.py", "lib/outer.py", "lib/untracked.py"]
    assert "submodule" not in listing.skipped


def test_a_submodule_that_is_not_checked_out_is_counted(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    wanted = with_submodule(repository, git, tmp_path)
    listing = list_files(repository, wanted)
    assert "lib/outer.py" in paths_of(listing)
    assert listing.skipped == {"submodule_not_fetched": 1}  # the one inside
    assert listing.not_fetched == ("lib/inner",)


def test_a_submodule_can_be_ignored_and_a_link_in_its_place_leads_nowhere(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    wanted = with_submodule(repository, git, tmp_path)
    ignoring = replace(wanted, patterns=(Patterns(repository, ("/lib/",)),))
    listing = list_files(repository, ignoring)
    assert (paths_of(listing), listing.skipped) == ([".gitmodules"], {"ignored": 1})
    shutil.rmtree(repository / "lib")
    (repository / "lib").symlink_to(tmp_path / "outer")
    listing = list_files(repository, wanted)
    assert paths_of(listing) == [".gitmodules"]


@BOTH
def test_patterns_leave_out_what_ignore_files_do_not(either: Path, inside_git: bool) -> None:
    write(either, "a.py", "gen/a.py", "src/gen/b.py", "src/c.log", "src/keep.log", "docs/api/x.md")
    patterns = Patterns(either, ("gen/", "*.log", "!keep.log", "/docs/api", "# a remark"))
    listing = list_files(either, Selection(patterns=(patterns,)))
    assert paths_of(listing) == ["a.py", "src/keep.log"]
    assert listing.skipped["ignored"] >= 4


@BOTH
def test_no_list_of_patterns_takes_back_what_another_leaves_out(
    either: Path, inside_git: bool
) -> None:
    write(either, ".gitignore", content="a.log\n")
    write(either, ".mcpignore", content="b.log\n")
    write(either, "a.log", "b.log", "c.log", "d.log")
    patterns = (Patterns(either, ("c.log",)), Patterns(either, ("!a.log", "!b.log", "!c.log")))
    assert paths_of(list_files(either, Selection(patterns=patterns))) == [
        ".gitignore",
        ".mcpignore",
        "d.log",
    ]


@BOTH
def test_patterns_are_relative_to_the_directory_that_they_were_written_in(
    either: Path, inside_git: bool
) -> None:
    write(either, "pkg/build/a.py", "pkg/src/build/b.py", "pkg/c.py")
    above = Selection(patterns=(Patterns(either, ("/pkg/build", "pkg", "/c.py")),))
    assert paths_of(list_files(either / "pkg", above)) == ["c.py", "src/build/b.py"]
