"""Git's own records are no source, and a directory has no records but its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.source.commit_log import find_tip
from codebase_mcp.source.git import head_of
from codebase_mcp.source.git_directory import (
    Checkout,
    GitRepository,
    git_dir_of,
    git_repository_at,
    work_tree_of,
)
from codebase_mcp.source.root import resolve_root
from codebase_mcp.source.tree_scan import TreeScan
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]
SECRET = "https://me:hunter2@example.org/x.git"


def paths_in(tree: Path) -> list[str]:
    return [file.path for file in list_files(tree).files]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


@pytest.fixture
def other(tmp_path: Path, git: Git) -> Path:
    """Somebody else's repository, with a commit and a file."""
    folder = tmp_path / "other"
    folder.mkdir()
    git(folder, "init")
    write(folder, "theirs.py", "shared.log")
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "private")
    git(folder, "remote", "add", "origin", SECRET)
    return folder


def linked(repository: Path, git: Git, place: Path) -> Path:
    git(repository, "commit", "--allow-empty", "-m", "one")
    git(repository, "worktree", "add", str(place))
    return place


@pytest.mark.parametrize("inside", ["hooks", "refs/heads", "inner.git"])
def test_a_path_inside_a_bare_repository_is_refused_with_a_hint(
    tree: Path, git: Git, inside: str
) -> None:
    git(tree, "init", "--bare", "x.git")
    git(tree, "init", "--bare", "x.git/inner.git")
    root = tree / "x.git" / inside
    with pytest.raises(InvalidInput, match="is a part of a bare git repository") as caught:
        resolve_root(str(root))
    assert caught.value.details["field"] == "repo_path"
    assert caught.value.hint == f"Try {tree / 'x.git'}"
    assert paths_in(root) == []


@pytest.mark.parametrize("in_work_tree", [False, True])
def test_a_bare_repository_is_one_wherever_it_lies(
    tree: Path, git: Git, in_work_tree: bool
) -> None:
    git(tree, "init", "--bare", "x.git")
    if in_work_tree:
        git(tree, "init")
    root = tree / "x.git"
    assert resolve_root(str(root)) == root
    assert git_repository_at(root) == GitRepository(root, None)
    assert paths_in(root) == []  # its own files are not source


@pytest.mark.parametrize("inside", ["", "hooks", "modules/lib"])
def test_a_path_inside_a_git_directory_is_refused_with_a_hint(
    repository: Path, git: Git, inside: str
) -> None:
    git(repository, "init", "--bare", ".git/modules/lib")
    root = repository / ".git" / inside
    with pytest.raises(InvalidInput, match=r"lies inside a \.git directory") as caught:
        resolve_root(str(root))
    assert caught.value.hint == f"Try {repository}"
    assert paths_in(root) == []


@pytest.mark.parametrize("inside_git", [False, True], ids=["bare", "git"])
@pytest.mark.parametrize("staged", [False, True], ids=["untracked", "tracked"])
def test_a_directory_that_looks_like_a_git_directory_is_not_listed(
    tree: Path, other: Path, git: Git, inside_git: bool, staged: bool
) -> None:
    write(tree, "a.py", "deep/down/b.py", "HEAD", "deep/objects/c.py")
    places = ["x.git", "deep/down/backup", "fixtures/.gitted", "deep/git"]
    for place in places:
        shutil.copytree(other / ".git", tree / place)
    if inside_git:
        git(tree, "init")
    if inside_git and staged:
        git(tree, "add", "-A")
    listing = list_files(tree)
    assert [file.path for file in listing.files] == [
        "HEAD",
        "a.py",
        "deep/down/b.py",
        "deep/objects/c.py",
    ]
    assert listing.skipped["git_directory"] == len(places)
    assert paths_in(tree / "deep") == ["down/b.py", "objects/c.py"]
    some = list_files(tree, paths=["x.git/config", "deep/down"])
    assert [file.path for file in some.files] == ["deep/down/b.py"]
    assert not any(
        place in directory for directory in TreeScan(tree).directories for place in places
    )


def test_another_user_cannot_make_a_shared_folder_look_like_a_git_directory(tree: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    write(tree, "HEAD", "objects/x", "refs/x", "ours/a.py")
    os.chown(tree / "HEAD", 12345, 12345)
    assert paths_in(resolve_root(str(tree / "ours"))) == ["a.py"]


def test_a_work_tree_that_lies_in_a_bare_repository_is_listed(
    tree: Path, other: Path, git: Git
) -> None:
    git(tree, "clone", "--bare", str(other), "x.git")
    git(tree / "x.git", "worktree", "add", "main-copy", "-b", "copy")
    root = resolve_root(str(tree / "x.git" / "main-copy"))
    assert paths_in(root) == ["shared.log", "theirs.py"]
    assert head_of(root) is not None


def test_linked_work_trees_and_submodules_use_their_own_git_directory(
    repository: Path, other: Path, git: Git, tmp_path: Path
) -> None:
    tree = linked(repository, git, tmp_path / "linked")
    git(repository, "submodule", "add", str(other), "odd; name/lib")
    submodule = repository / "odd; name" / "lib"
    for place in (tree, submodule):
        assert work_tree_of(place) == place
        assert find_tip(place) is not None
    git(submodule, "sparse-checkout", "set", "--no-cone", "*.py")
    assert b"worktree =" not in (repository / ".git/modules/odd; name/lib/config").read_bytes()
    assert work_tree_of(submodule) == submodule
    # Newer versions of git can write relative ways.
    records = repository / ".git" / "worktrees" / "linked"
    (records / "gitdir").write_text(os.path.relpath(tree / ".git", records) + "\n")
    (tree / ".git").write_text(f"gitdir: {os.path.relpath(records, tree)}\n")
    assert work_tree_of(tree) == tree


def points_at(tree: Path, other: Path) -> None:
    (tree / ".git").write_text(f"gitdir: {other / '.git'}\n")


def is_a_link_to(tree: Path, other: Path) -> None:
    (tree / ".git").symlink_to(other / ".git")


def shares_the_records_of(tree: Path, other: Path) -> None:
    write(tree, ".git/HEAD")
    (tree / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / ".git" / "commondir").write_text(f"{other / '.git'}\n")


def pretends_to_be_linked_to(tree: Path, other: Path) -> None:
    shares_the_records_of(tree, other)
    (tree / ".git").rename(tree / "worktrees")
    (tree / "worktrees" / "gitdir").write_text(f"{tree / '.git'}\n")
    (tree / ".git").write_text("gitdir: worktrees\n")


def pretends_to_be_a_submodule_of(tree: Path, other: Path) -> None:
    shares_the_records_of(tree, other)
    (tree / ".git").rename(tree / "records")
    (tree / "records" / "config").write_text("[core]\n\tworktree = ..\n")
    (tree / ".git").write_text("gitdir: records\n")


def points_at_the_records_of_anothers_work_tree(tree: Path, other: Path) -> None:
    records = other / ".git" / "worktrees" / "theirs"
    records.mkdir(parents=True)
    (records / "HEAD").write_text("ref: refs/heads/main\n")
    (records / "commondir").write_text("../..\n")
    (records / "gitdir").write_text(f"{other / '.git'}\n")
    (tree / ".git").write_text(f"gitdir: {records}\n")


IMPOSTORS = [
    points_at,
    is_a_link_to,
    shares_the_records_of,
    pretends_to_be_linked_to,
    pretends_to_be_a_submodule_of,
    points_at_the_records_of_anothers_work_tree,
]


@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_the_git_directory_of_another_repository_is_not_used(
    tree: Path, other: Path, impostor: Callable[[Path, Path], None]
) -> None:
    write(tree, "ours.py", "theirs.py", "shared.log")
    (tree / ".gitignore").write_text("*.log\n")
    impostor(tree, other)
    assert git_dir_of(tree) is None
    assert (head_of(tree), find_tip(tree)) == (None, None)
    found = paths_in(tree)
    assert [p for p in found if "/" not in p] == [".gitignore", "ours.py", "theirs.py"]


@pytest.mark.parametrize("impostor", IMPOSTORS)
@pytest.mark.parametrize("inside_git", [False, True], ids=["bare", "git"])
def test_such_a_directory_further_down_is_a_part_of_the_tree(
    tree: Path, other: Path, git: Git, inside_git: bool, impostor: Callable[[Path, Path], None]
) -> None:
    if inside_git:
        git(tree, "init")
    write(tree, "a.py", "sub/ours.py", "sub/deep/b.py", "sub/c.log")
    (tree / ".gitignore").write_text("*.log\n")
    impostor(tree / "sub", other)
    ours = ["sub/deep/b.py", "sub/ours.py"]
    assert [p for p in paths_in(tree) if p.endswith(".py")] == ["a.py", *ours]
    assert not any(path.endswith(".log") for path in paths_in(tree))
    some = list_files(tree, paths=["sub/deep"])
    assert [file.path for file in some.files] == ["sub/deep/b.py"]


OPENED = ["HEAD", "index", "config", "packed-refs", "info/exclude", "objects/info/alternates"]


@pytest.mark.parametrize("name", OPENED)
def test_git_is_not_asked_where_a_pipe_lies_among_its_records(
    repository: Path, git: Git, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codebase_mcp.source.git.TIME_LIMIT_S", 1_000.0)
    write(repository, "a.py")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "one")
    (repository / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(repository / ".git" / name)
    assert paths_in(repository) == ["a.py"]
    assert find_tip(repository) is None


def of_a_person(repository: Path, git: Git, pipe: Path) -> None:
    git(repository, "config", "--global", "core.excludesFile", str(pipe))


def of_the_repository(repository: Path, git: Git, pipe: Path) -> None:
    git(repository, "config", "core.excludesFile", str(pipe))


def at_the_top(repository: Path, git: Git, pipe: Path) -> None:
    pipe.rename(repository / ".gitignore")


def further_down(repository: Path, git: Git, pipe: Path) -> None:
    pipe.rename(repository / "sub" / ".gitignore")


@pytest.mark.parametrize("puts", [of_a_person, of_the_repository, at_the_top, further_down])
def test_a_pipe_posing_as_an_ignore_file_is_not_waited_for(
    repository: Path,
    git: Git,
    tmp_path: Path,
    puts: Callable[[Path, Git, Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("codebase_mcp.source.git.TIME_LIMIT_S", 1_000.0)
    monkeypatch.setattr("codebase_mcp.source.git._PIPE_CHECK_AFTER_S", 0.01)
    write(repository, "a.py", "sub/b.py")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    puts(repository, git, pipe)
    assert paths_in(repository) == ["a.py", "sub/b.py"]
    assert paths_in(repository / "sub") == ["b.py"]


def test_a_device_posing_as_an_ignore_file_is_not_read(repository: Path, git: Git) -> None:
    write(repository, "a.py")
    git(repository, "config", "core.excludesFile", "/dev/zero")
    assert paths_in(repository) == ["a.py"]


@pytest.mark.parametrize("kind", ["own", "linked", "bare"])
def test_a_checkout_changes_with_each_commit_and_checkout_and_not_with_a_file(
    other: Path, git: Git, tmp_path: Path, kind: str
) -> None:
    root = linked(other, git, tmp_path / "linked") if kind == "linked" else other
    if kind == "bare":
        git(tmp_path, "clone", "--bare", str(other), "bare.git")
        root = tmp_path / "bare.git"
    checkout = Checkout(root)
    assert checkout.has_changed()
    write(root, "unrelated.py")
    assert not checkout.has_changed()
    steps = [("commit", "--allow-empty", "-m", "x"), ("checkout", "-b", "next")]
    if kind == "bare":
        git(other, "commit", "--allow-empty", "-m", "x")
        branch = git(root, "symbolic-ref", "HEAD").decode().strip()
        steps = [("fetch", str(other), f"HEAD:{branch}"), ("symbolic-ref", "HEAD", "refs/heads/x")]
    for step in steps:
        git(root, *step)
        assert checkout.has_changed(), step
        assert not checkout.has_changed()


def test_a_directory_that_becomes_a_repository_has_a_changed_checkout(
    tmp_path: Path, git: Git
) -> None:
    checkout = Checkout(tmp_path)
    assert checkout.has_changed()
    assert not checkout.has_changed()
    git(tmp_path, "init")
    assert checkout.has_changed()
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    assert checkout.has_changed()
