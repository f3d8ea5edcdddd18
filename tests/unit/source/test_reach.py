"""Callers who are not the server's user read below the allowed roots, and nothing beside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.access.context_file import FILE_NAME, context_of
from codebase_mcp.errors import CodebaseError, IndexingFailed, InvalidInput, PermissionDenied
from codebase_mcp.source import git_directory
from codebase_mcp.source.commit_log import find_tip
from codebase_mcp.source.git_directory import confine_git, git_repository_at
from codebase_mcp.source.git_objects import find_entries
from codebase_mcp.source.open_file import KERNEL_FOLDERS, open_regular
from codebase_mcp.source.read import Skipped, SourceText, read_source
from codebase_mcp.source.root import Reach, resolve_root
from codebase_mcp.source.source_tree import source_tree_at
from codebase_mcp.source.tree_scan import start_scan
from codebase_mcp.source.walk import list_files

Git = Callable[..., bytes]
SECRET = "unheard_of_greeting = 1\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """An allowed root with a directory in it."""
    (tmp_path / "code" / "app").mkdir(parents=True)
    (tmp_path / "code" / "app" / "main.py").write_text("x = 1\n")
    return tmp_path / "code"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the allowed root, whose name begins like that of the root."""
    (tmp_path / "code-secret" / "app").mkdir(parents=True)
    (tmp_path / "code-secret" / "app" / "main.py").write_text(SECRET)
    return tmp_path / "code-secret"


@pytest.fixture
def confined(code: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The allowed root of this process."""
    monkeypatch.setattr(git_directory, "_roots", set())
    confine_git([code])
    return code


def commit(repository: Path, git: Git) -> str:
    git(repository, "init")
    git(repository, "add", "-A")
    git(repository, "commit", "-m", "unheard-of greeting")
    return git(repository, "rev-parse", "HEAD").decode().strip()


def refusal(path: str | Path, within: Reach) -> CodebaseError:
    with pytest.raises(PermissionDenied) as caught:
        resolve_root(str(path), within)
    assert caught.value.details == {"field": "repo_path", "value": str(path)}
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "way",
    [
        "{code}/../code-secret",
        "{code}/app/../../code-secret/app",
        "{outside}",
        "{outside}/app/main.py",
        "{outside}/absent",
        "{code}/..",
        "{code}/absolute",
        "{code}/relative/app",
        "{code}/app/chain",
        "/",
        "/etc",
        "/proc/self/cwd",
        "/proc/self/root/etc",
        "/proc/1/root/etc",
        "/proc/1/root/absent",
        "{code}/init",
    ],
)
def test_a_path_that_ends_outside_the_roots_is_refused(
    code: Path, outside: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(outside)
    (code / "absolute").symlink_to(outside)
    (code / "relative").symlink_to("../code-secret")
    (code / "app" / "chain").symlink_to(code / "relative")
    (code / "init").symlink_to("/proc/1/root/etc")  # only its own user may follow that
    path = way.format(code=code, outside=outside)
    error = refusal(path, Reach((code,)))
    # What is there makes no difference.
    assert error.message == f"Repository path is not below an allowed root: {path}"
    assert error.hint is not None
    assert error.hint.startswith(f"Allowed: {code}. ")


def test_a_path_below_a_root_is_read_also_by_a_link_inside(code: Path) -> None:
    (code / "link").symlink_to("app")
    within = Reach((code,))
    assert resolve_root(str(code), within) == code
    assert resolve_root(str(code / "link"), within) == code / "app"
    with pytest.raises(InvalidInput, match="does not exist"):
        resolve_root(str(code / "absent"), within)


def test_without_roots_the_error_says_how_to_allow_one(code: Path) -> None:
    error = refusal(code, Reach(()))
    assert "no root is allowed" in error.message
    assert error.hint is not None
    assert "--root DIRECTORY" in error.hint
    assert "CODEBASE_MCP_ROOTS" in error.hint


@pytest.mark.parametrize(
    "way", ["/proc", "/proc/self", "/sys/kernel", "/dev", "{data}", "{data}/postgres", "{link}"]
)
def test_some_folders_are_never_read_whoever_asks(tmp_path: Path, way: str) -> None:
    data, link = tmp_path / "data", tmp_path / "link"
    (data / "repositories" / "clone").mkdir(parents=True)
    link.symlink_to(data / "repositories" / "..")
    closed = (*KERNEL_FOLDERS, data)
    everything = Reach(None, closed, data / "repositories")
    for within in (everything, Reach((Path("/"),), closed)):
        error = refusal(way.format(data=data, link=link), within)
        assert "never read" in error.message
    clone = data / "repositories" / "clone"
    assert resolve_root(str(clone), everything) == clone
    refusal(clone, Reach((tmp_path,), closed))


def test_folders_that_are_never_read_are_left_out_of_a_walk(tmp_path: Path) -> None:
    data = tmp_path / "my [data] #1!"
    for place in (data, tmp_path / "inner" / data.name):
        place.mkdir(parents=True)
        (place / "main.py").write_text(SECRET)
    selection = source_tree_at(tmp_path).selection  # type: ignore[attr-defined]
    left_out = Reach(None, (*KERNEL_FOLDERS, data)).patterns_at(tmp_path)
    listing = list_files(tmp_path, selection.ignoring(tmp_path, left_out.lines))
    assert [file.path for file in listing.files] == [f"inner/{data.name}/main.py"]
    assert Reach().patterns_at(Path("/")).lines == ("/proc", "/sys", "/dev")


@pytest.mark.parametrize("swapped", ["repo", "repo/pkg", "repo/pkg/main.py"])
def test_a_link_put_in_after_the_listing_is_not_followed(tmp_path: Path, swapped: str) -> None:
    for folder in ("repo", "secret"):
        (tmp_path / folder / "pkg").mkdir(parents=True)
        (tmp_path / folder / "pkg" / "main.py").write_text(SECRET)
    [file] = list_files(tmp_path / "repo").files
    assert isinstance(read_source(file), SourceText)
    place = tmp_path / swapped
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / swapped.replace("repo", "secret", 1))
    assert isinstance(read_source(file), Skipped)


def test_two_dots_do_not_lead_out_when_a_file_is_opened(code: Path, outside: Path) -> None:
    place = os.fsencode(code) + b"/../code-secret/app/main.py"
    with pytest.raises(OSError, match="symbolic"):
        open_regular(place)
    assert open_regular(os.fsencode(outside)) is None


def test_a_link_in_the_place_of_a_root_is_another_repository(
    code: Path, outside: Path, git: Git
) -> None:
    root, theirs = code / "app", outside / "app"
    commit(root, git)
    commit(theirs, git)
    scan = start_scan(root, source_tree_at(root).selection)  # type: ignore[attr-defined]
    root.rename(code / "moved")
    root.symlink_to(theirs)
    assert git_repository_at(root) is None
    assert find_tip(root) is None
    with pytest.raises(IndexingFailed, match="a link leads there now"):
        source_tree_at(root)
    with pytest.raises(FileNotFoundError):
        scan.changes()


@pytest.mark.parametrize("way", ["work tree", ".git file", "root in a work tree"])
def test_gits_records_outside_the_roots_do_not_count(
    confined: Path, outside: Path, git: Git, way: str
) -> None:
    root = confined / "tree"
    commit(outside, git)
    if way == "work tree":
        git(outside, "worktree", "add", str(root))
    elif way == ".git file":
        root.mkdir()
        (root / "main.py").write_text("x = 1\n")
        (root / ".git").write_text(f"gitdir: {outside / '.git'}\n")
        git(outside, "config", "core.worktree", str(root))
    else:
        root.mkdir()
        git(confined.parent, "init")
        git(confined.parent, "commit", "--allow-empty", "-m", "above")
    assert git_repository_at(root) is None
    assert find_tip(root) is None
    assert [file.path for file in list_files(root).files] == [
        *(["app/main.py"] if way == "work tree" else []),
        *(["main.py"] if way == ".git file" else []),
    ]


@pytest.mark.parametrize(
    "way",
    [
        "objects",
        "objects as hooks",
        "objects/info",
        "refs/heads/main",
        "alternates",
        "alternates of alternates",
        "a link that another user alone may follow",
    ],
)
def test_links_and_alternates_in_the_records_do_not_lead_out(
    confined: Path, outside: Path, git: Git, way: str
) -> None:
    secret = commit(outside, git)
    root = confined / "app"
    git(root, "init")
    records, theirs = root / ".git", outside / ".git"
    if way.startswith("alternates"):
        named = theirs / "objects"
        if way != "alternates":
            between = confined / "between"
            (between / "info").mkdir(parents=True)
            (between / "info" / "alternates").write_text(f"{named}\n")
            named = between
        (records / "objects" / "info" / "alternates").write_text(f"# theirs\n{named}\n")
    elif way == "objects/info":
        info = outside / "info"
        info.mkdir()
        (info / "alternates").write_text(f"{theirs / 'objects'}\n")
        (records / way).rmdir()
        (records / way).symlink_to(info)
    elif way == "objects as hooks":  # what git keeps there is not looked at under that name alone
        (records / "objects").rename(root / "unused")
        shutil.rmtree(records / "hooks", ignore_errors=True)
        shutil.copytree(theirs / "objects", records / "hooks")
        shutil.rmtree(records / "hooks" / "pack")
        (records / "hooks" / "pack").symlink_to(theirs / "objects" / "pack")
        (records / "objects").symlink_to("hooks")
    elif way == "objects":
        (records / way).rename(root / "unused")
        (records / way).symlink_to(theirs / way)
    elif way.startswith("a link"):
        (records / "init").symlink_to("/proc/1/root")
    if way == "refs/heads/main":
        (records / way).symlink_to(theirs / way)
    else:
        (records / "refs" / "heads" / "main").write_text(secret + "\n")
    repository = git_repository_at(root)
    assert repository is not None
    assert repository.has_way_out
    assert find_tip(root) is None
    with pytest.raises(IndexingFailed, match="lead out of the allowed roots"):
        find_entries(repository, secret, [b"app/main.py"])
    assert "main.py" in [file.path for file in list_files(root).files]


def test_records_that_stay_below_the_roots_count(confined: Path, git: Git) -> None:
    main, linked = confined / "app", confined / "linked"
    commit(main, git)
    git(main, "worktree", "add", str(linked))
    shared = confined / "shared"
    git(confined, "clone", "--shared", str(main), str(shared))
    (shared / ".git" / "hooks").mkdir(exist_ok=True)
    (shared / ".git" / "hooks" / "pre-commit").symlink_to("/bin/false")  # git runs no hook here
    (shared / ".git" / "round").symlink_to(shared / ".git")
    for root in (main, linked, shared):
        assert find_tip(root) is not None
        assert [file.path for file in list_files(root).files] == ["main.py"]


def test_settings_of_a_repository_are_not_read_through_a_link_out(
    confined: Path, outside: Path
) -> None:
    (outside / FILE_NAME).write_text("max_file_bytes = 1")
    (confined / "app" / FILE_NAME).symlink_to(outside / FILE_NAME)
    assert context_of(confined / "app") is None
    (outside / "app" / FILE_NAME).symlink_to(outside / FILE_NAME)
    assert context_of(outside / "app") is not None


def test_elsewhere_records_count_as_before(confined: Path, tmp_path: Path, git: Git) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    git(main, "init")
    git(main, "commit", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", str(linked))
    assert find_tip(linked) is not None
