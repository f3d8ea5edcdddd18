"""Listing a tree: what is found, what is left out, and that both are said."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.model import FileFailure, FileKind, Listing
from codebase_mcp.source.listing_builder import NOT_APPLIED
from codebase_mcp.source.open_file import MAX_IGNORE_BYTES
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]
AsOrdinaryUser = Callable[[str], str]

BOTH = pytest.mark.parametrize("inside_git", [False, True], ids=["plain", "git"])


def write(tree: Path, *paths: str, content: str = "x = 1\n") -> None:
    for path in paths:
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)


def paths_of(listing: Listing) -> list[str]:
    return [file.path for file in listing.files]


def paths_in(tree: Path) -> list[str]:
    return paths_of(list_files(tree))


@pytest.fixture
def either(tree: Path, git: Git, request: pytest.FixtureRequest) -> Path:
    """The tree, as a git repository or not, as the test's parameter says."""
    if request.getfixturevalue("inside_git"):
        git(tree, "init")
    return tree


@BOTH
def test_every_file_is_listed_sorted_by_path(either: Path, inside_git: bool) -> None:
    write(either, "b.py", "a/z.py", "a.py", "Z.md", "a/b/c.txt")
    assert paths_in(either) == ["Z.md", "a.py", "a/b/c.txt", "a/z.py", "b.py"]


@BOTH
def test_a_listed_file_carries_what_is_known_without_reading(
    either: Path, inside_git: bool
) -> None:
    write(either, "src/main.py", content="print()\n")
    (file,) = list_files(either).files
    status = (either / "src/main.py").stat()
    assert (file.language, file.kind, file.named_as_source) == ("python", FileKind.CODE, True)
    assert file.location == str(either / "src" / "main.py")
    assert (file.size, file.mtime_ns, file.ctime_ns) == (8, status.st_mtime_ns, status.st_ctime_ns)


@BOTH
def test_ignore_files_apply_at_every_level_with_negation(either: Path, inside_git: bool) -> None:
    write(either, "a.log", "src/b.log", "src/deep/keep.log", "build/x.py", "src/main.py")
    write(either, ".gitignore", content="*.log\nbuild/\n")
    write(either, "src/deep/.gitignore", content="!keep.log\n")
    assert paths_in(either) == [
        ".gitignore",
        "src/deep/.gitignore",
        "src/deep/keep.log",
        "src/main.py",
    ]


@BOTH
def test_the_global_excludes_file_applies(either: Path, home: Path, inside_git: bool) -> None:
    write(home / ".config/git", "ignore", content="*.swap\n")
    write(either, "a.swap", "a.py")
    assert paths_in(either) == ["a.py"]


@BOTH
def test_a_configured_global_excludes_file_applies(
    either: Path, home: Path, inside_git: bool
) -> None:
    write(home, ".gitconfig", content="[core]\n\texcludesFile = ~/my-ignores\n")
    write(home, "my-ignores", content="*.swap\n")
    write(either, "a.swap", "a.py")
    assert paths_in(either) == ["a.py"]


@BOTH
def test_mcpignore_applies_at_every_level_and_is_counted(either: Path, inside_git: bool) -> None:
    write(either, "a.py", "data/b.py", "data/keep.py", "src/gone/c.py", "src/d.py")
    write(either, ".mcpignore", content="data/*\n!keep.py\n.mcpignore\n")
    write(either, "src/.mcpignore", content="gone/\n")
    listing = list_files(either)
    assert paths_of(listing) == ["a.py", "data/keep.py", "src/d.py"]
    assert listing.skipped["ignored"] == 4


def test_mcpignore_applies_to_tracked_files(repository: Path, git: Git) -> None:
    write(repository, "a.py", "secret/b.py")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "both")
    write(repository, ".mcpignore", content="secret\n")
    assert paths_in(repository) == [".mcpignore", "a.py"]


def test_mcpignore_above_the_root_applies_but_never_to_the_root_itself(
    repository: Path,
) -> None:
    write(repository, "pkg/a.py", "pkg/b.log")
    write(repository, ".mcpignore", content="pkg/\n*.log\n")
    assert paths_in(repository / "pkg") == ["a.py"]


def test_info_exclude_applies_with_git_and_without(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "a.py", "b.tmp")
    write(repository, ".git/info/exclude", content="*.tmp\n")
    assert paths_in(repository) == ["a.py"]
    monkeypatch.setenv("PATH", "/nowhere")
    assert paths_in(repository) == ["a.py"]


def test_a_tracked_file_is_listed_although_an_ignore_rule_names_it(
    repository: Path, git: Git
) -> None:
    write(repository, "kept.log", "other.log")
    write(repository, ".gitignore", content="*.log\n")
    git(repository, "add", "--force", "kept.log")
    assert paths_in(repository) == [".gitignore", "kept.log"]


@BOTH
def test_files_that_are_not_text_by_name_are_counted(either: Path, inside_git: bool) -> None:
    write(either, "a.png", "b.tar.gz", "lib.so.1.2", "c.woff2", "d.sqlite", "e.py")
    listing = list_files(either)
    assert paths_of(listing) == ["e.py"]
    assert listing.skipped == {"binary": 5}


@BOTH
def test_links_are_counted_and_never_followed(
    either: Path, tmp_path: Path, inside_git: bool
) -> None:
    write(tmp_path / "outside", "secret.py")
    write(either, "real/a.py")
    (either / "loop").symlink_to(either)
    (either / "real" / "up").symlink_to("..")
    (either / "out").symlink_to(tmp_path / "outside")
    (either / "file.py").symlink_to(either / "real/a.py")
    (either / "dangling.py").symlink_to("nowhere")
    listing = list_files(either)
    assert paths_of(listing) == ["real/a.py"]
    assert listing.skipped == {"symlink": 5}


def test_a_tracked_directory_replaced_by_a_link_is_not_followed(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    write(repository, "pkg/a.py", "b.py")
    git(repository, "add", "-A")
    write(tmp_path / "outside", "a.py")
    shutil.rmtree(repository / "pkg")
    (repository / "pkg").symlink_to(tmp_path / "outside")
    assert paths_in(repository) == ["b.py"]


@BOTH
def test_a_root_reached_through_a_link_is_listed(
    either: Path, tmp_path: Path, inside_git: bool
) -> None:
    write(either, "a/b.py")
    (tmp_path / "link").symlink_to(either)
    assert paths_in(tmp_path / "link") == ["a/b.py"]


def test_pipes_and_sockets_are_counted(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "a.py")
    os.mkfifo(tree / "pipe.py")
    monkeypatch.chdir(tree)  # the address of a socket may have a hundred bytes or so
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        listing = list_files(tree)
    assert paths_of(listing) == ["a.py"]
    assert listing.skipped == {"special": 2}


def test_a_tracked_file_replaced_by_a_pipe_is_counted(repository: Path, git: Git) -> None:
    write(repository, "a.py", "b.py")
    git(repository, "add", "-A")
    (repository / "a.py").unlink()
    os.mkfifo(repository / "a.py")
    listing = list_files(repository)
    assert paths_of(listing) == ["b.py"]
    assert listing.skipped == {"special": 1}


@BOTH
def test_a_large_file_fails_if_its_name_promises_source_and_is_counted_otherwise(
    either: Path, inside_git: bool
) -> None:
    large = "x" * 101
    write(either, "large.json", "notes", "package-lock.json", "vendor/a.js", content=large)
    write(either, "fits.json", content="x" * 100)
    listing = list_files(either, Selection(max_file_bytes=100))
    assert paths_of(listing) == ["fits.json"]
    assert listing.failures == (FileFailure("large.json", "File exceeds size limit"),)
    assert str(listing.failures[0]) == "Failed to process large.json: File exceeds size limit"
    assert listing.skipped == {"too_large": 3}


@BOTH
def test_odd_names_are_listed_as_they_are(either: Path, inside_git: bool) -> None:
    names = ["a b.py", "new\nline.py", 'quo"te.py', "tab\t.py", "héllo/ünï.py", "back\\slash.py"]
    write(either, *names)
    assert paths_in(either) == sorted(names)


@pytest.mark.skipif(sys.platform == "darwin", reason="names there are always UTF-8")
@BOTH
def test_bytes_that_are_not_utf8_are_shown_in_the_path_and_the_file_can_be_opened(
    either: Path, inside_git: bool
) -> None:
    (either / os.fsdecode(b"caf\xe9")).mkdir()
    (either / os.fsdecode(b"caf\xe9/\xff.py")).write_text("x")
    (file,) = list_files(either).files
    assert file.path == "caf\\xe9/\\xff.py"
    assert Path(file.location).read_text() == "x"


@pytest.mark.skipif(sys.platform == "darwin", reason="names there are always UTF-8")
@BOTH
def test_two_files_are_never_listed_under_one_path(either: Path, inside_git: bool) -> None:
    for name in (b"\xff.py", b"\\xff.py"):
        (either / os.fsdecode(name)).write_text("x")
    listing = list_files(either)
    assert paths_of(listing) == ["\\xff.py"]
    assert listing.skipped == {"name_clash": 1}


@BOTH
def test_what_package_managers_put_there_is_not_listed_unless_committed(
    either: Path, git: Git, inside_git: bool
) -> None:
    write(either, "node_modules/a/index.js", "env/lib/site-packages/b.py", "c.py")
    write(either, "inner/node_modules/d/index.js")
    git(either / "inner/node_modules/d", "init")
    git(either / "inner/node_modules/d", "add", "-A")
    assert paths_in(either) == ["c.py"]
    assert list_files(either).skipped == {"installed": 3}
    shutil.rmtree(either / "inner")
    if inside_git:
        git(either, "add", "-A")
        assert len(paths_in(either)) == 3


@BOTH
def test_metadata_of_other_version_control_systems_is_not_listed(
    either: Path, inside_git: bool
) -> None:
    write(either, ".hg/store/a.py", "a/.svn/b.py", ".jj/c.py", "d.py")
    assert paths_in(either) == ["d.py"]


def test_files_deleted_but_still_in_the_index_are_left_out(repository: Path, git: Git) -> None:
    write(repository, "a.py", "b/c.py", "b/d.py")
    git(repository, "add", "-A")
    (repository / "a.py").unlink()
    shutil.rmtree(repository / "b")
    write(repository, "b", content="now a file")
    listing = list_files(repository)
    assert paths_of(listing) == ["b"]
    assert (listing.skipped, listing.failures) == ({}, ())


def test_a_sparse_checkout_lists_what_is_on_disk(repository: Path, git: Git) -> None:
    write(repository, "a/x.py", "b/y.py", "top.py")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "all")
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    assert paths_in(repository) == ["a/x.py", "top.py"]


def test_a_conflict_lists_each_file_once(repository: Path, git: Git) -> None:
    write(repository, "a.py", content="base\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "base")
    git(repository, "switch", "-c", "other")
    write(repository, "a.py", content="other\n")
    git(repository, "commit", "-am", "other")
    git(repository, "switch", "main")
    write(repository, "a.py", content="main\n")
    git(repository, "commit", "-am", "main")
    with pytest.raises(AssertionError):
        git(repository, "merge", "other")
    assert len(git(repository, "ls-files", "--unmerged").splitlines()) == 3
    listing = list_files(repository)
    assert (paths_of(listing), listing.skipped) == (["a.py"], {})


def test_a_subdirectory_of_a_work_tree_is_listed_under_the_rules_of_its_parents(
    repository: Path, git: Git
) -> None:
    write(repository, "pkg/a.py", "pkg/b.log", "pkg/sub/c.py", "other.py")
    write(repository, ".gitignore", content="*.log\n/pkg/sub/\n")
    git(repository, "add", "-A")
    assert paths_in(repository / "pkg") == ["a.py"]


def test_a_directory_that_an_outer_work_tree_ignores_is_listed_by_itself(
    repository: Path,
) -> None:
    write(repository, ".gitignore", content="*\n")
    write(repository, "project/a.py", "project/b.log")
    write(repository, "project/.gitignore", content="*.log\n")
    assert paths_in(repository / "project") == [".gitignore", "a.py"]


def test_a_linked_worktree_is_listed(repository: Path, git: Git, tmp_path: Path) -> None:
    write(repository, "a.py", "b.log")
    write(repository, ".git/info/exclude", content="*.log\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "one")
    linked = tmp_path / "linked"
    git(repository, "worktree", "add", str(linked))
    write(linked, "c.py", "d.log")
    assert paths_in(linked) == ["a.py", "c.py"]


def test_submodules_are_counted_and_not_entered(repository: Path, git: Git, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init")
    write(library, "lib.py")
    git(library, "add", "-A")
    git(library, "commit", "-m", "lib")
    git(repository, "submodule", "add", str(library), "lib")
    write(repository, "a.py")
    listing = list_files(repository)
    assert paths_of(listing) == [".gitmodules", "a.py"]
    assert listing.skipped == {"submodule": 1}
    assert paths_in(repository / "lib") == ["lib.py"]


@BOTH
def test_a_repository_inside_is_listed_under_its_own_rules(
    either: Path, git: Git, inside_git: bool
) -> None:
    write(either, "a.py", "inner/b.py", "inner/c.log", "inner/d.tmp", "inner/deep/e.py")
    write(either, ".gitignore", content="*.log\n")
    write(either, ".mcpignore", content="deep/\n")
    write(either, "inner/.gitignore", content="*.tmp\n")
    git(either / "inner", "init")
    git(either / "inner", "add", "b.py")
    assert paths_in(either) == [
        ".gitignore",
        ".mcpignore",
        "a.py",
        "inner/.gitignore",
        "inner/b.py",
        "inner/c.log",
    ]


@BOTH
def test_a_repository_inside_can_be_left_out(either: Path, git: Git, inside_git: bool) -> None:
    write(either, "a.py", "inner/b.py", "sub/other/c.py")
    write(either, ".mcpignore", content="inner\nother\n.mcpignore\n")
    for nested in ("inner", "sub/other"):
        git(either / nested, "init")
        git(either / nested, "add", "-A")
        git(either / nested, "commit", "-m", "inner")
    listing = list_files(either)
    assert paths_of(listing) == ["a.py"]
    assert listing.skipped["ignored"] == 3


def test_the_records_of_git_are_never_listed(repository: Path) -> None:
    write(repository, "a.py", ".git/hooks/own.py")
    assert paths_in(repository) == ["a.py"]
    assert paths_in(repository / ".git") == []
    assert paths_in(repository / ".git" / "hooks") == []


def test_without_git_the_disk_is_walked(
    repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "a.py", "sub/b.py", "sub/c.log")
    write(repository, ".gitignore", content="*.log\n")
    monkeypatch.setenv("PATH", "/nowhere")
    assert paths_in(repository) == [".gitignore", "a.py", "sub/b.py"]
    assert paths_in(repository / "sub") == ["b.py"]


def test_a_broken_index_is_reported_and_the_disk_is_walked(
    repository: Path, git: Git, caplog: pytest.LogCaptureFixture
) -> None:
    write(repository, "a.py", "b.log")
    write(repository, ".gitignore", content="*.log\n")
    git(repository, "add", "-A")
    (repository / ".git" / "index").write_bytes(b"DIRC nonsense")
    assert paths_in(repository) == [".gitignore", "a.py"]
    assert "git ls-files failed" in caplog.text


@BOTH
@pytest.mark.parametrize("max_file_bytes", [1_000, 9 << 20])
@pytest.mark.parametrize("name", [".mcpignore", "sub/.mcpignore", ".gitattributes"])
def test_rule_files_that_are_too_long_are_reported(
    either: Path, inside_git: bool, max_file_bytes: int, name: str
) -> None:
    write(either, "a.py", "sub/b.py")
    write(either, name, content="*.py\n" * (MAX_IGNORE_BYTES // 5 + 1))
    selection = Selection(max_file_bytes)
    listing = list_files(either, selection)
    assert {"a.py", "sub/b.py"} <= {*paths_of(listing)}
    assert listing.failures == (FileFailure(name, NOT_APPLIED),)
    # Asked about elsewhere, it is known from the listing of the whole.
    assert list_files(either, selection, ["a.py", "sub/b.py"]).failures == ()
    assert list_files(either, selection, [name]).failures == listing.failures


def test_rule_files_of_git_that_are_too_long_for_a_walk_are_reported(
    tree: Path, home: Path
) -> None:
    excludes = home / ".config" / "git" / "ignore"
    for place in (tree / ".gitignore", excludes):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("*.py\n" * (MAX_IGNORE_BYTES // 5 + 1))
    write(tree, "a.py")
    listing = list_files(tree)
    assert "a.py" in paths_of(listing)
    assert {failure.path for failure in listing.failures} == {".gitignore", str(excludes)}
    assert {failure.reason for failure in listing.failures} == {NOT_APPLIED}


@BOTH
def test_an_empty_directory_has_no_files(either: Path, inside_git: bool) -> None:
    assert list_files(either) == Listing(either, ())


@pytest.mark.parametrize("staged", [False, True], ids=["untracked", "tracked"])
def test_the_listing_is_what_git_lists(repository: Path, git: Git, staged: bool) -> None:
    write(repository, "a.py", "b c.py", "x/y/z.go", "x/.gitignore", "build/out.js", "k.log")
    write(repository, ".gitignore", content="build\n*.log\n!k.log\n")
    if staged:
        git(repository, "add", "-A")
    listed = git(repository, "ls-files", "-z", "-c", "-o", "--exclude-standard")
    assert paths_in(repository) == sorted(listed.decode().rstrip("\0").split("\0"))


@BOTH
def test_a_directory_that_may_not_be_read_is_a_failure(
    public_tree: Path, as_ordinary_user: AsOrdinaryUser, git: Git, inside_git: bool
) -> None:
    write(public_tree, "sub/a.py", "sub/closed/b.py")
    if inside_git:
        git(public_tree, "init")
    (public_tree / "sub" / "closed").chmod(0)
    for root, said in [
        (public_tree, "['sub/a.py'] Failed to process sub/closed: Permission denied\n"),
        (public_tree / "sub", "['a.py'] Failed to process closed: Permission denied\n"),
    ]:
        assert said == as_ordinary_user(
            f"listing = list_files(Path({str(root)!r}))\n"
            "print([file.path for file in listing.files], *map(str, listing.failures))\n"
        )


@BOTH
def test_of_files_that_are_known_only_the_paths_are_listed(either: Path, inside_git: bool) -> None:
    write(either, "same.py", "edited.py", "a/gone.py", "a/left_out.py", ".env", "a/old.png")
    whole = list_files(either)
    known = {file.path: file for file in whole.files}
    assert list_files(either, known=known).unchanged == known.keys()
    write(either, "edited.py", content="x = 'edited'\n")
    write(either, "a/new.py")
    write(either, ".mcpignore", content="left_out.py\n")
    (either / "a/gone.py").unlink()
    again = list_files(either, known=known)
    assert paths_of(again) == [".mcpignore", "a/new.py", "edited.py"]
    assert again.unchanged == known.keys() - {"edited.py", "a/gone.py", "a/left_out.py"}
    now = list_files(either)
    assert {*paths_of(again), *again.unchanged} == set(paths_of(now))
    assert dict(again.skipped) == dict(now.skipped)
