"""Clones of our own: they follow the other side, and nothing in them runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from codebase_mcp.errors import Conflict, IndexingFailed, InvalidInput
from codebase_mcp.source.clone import (
    Clone,
    CloneOptions,
    clone_path,
    delete_clone,
    fetch,
    is_cloned,
)
from codebase_mcp.source.git import Head, head_of
from codebase_mcp.source.remote import Remote, parse_remote
from codebase_mcp.source.source_tree import source_tree_at
from codebase_mcp.source.transfer import GitFailed, Stopped, Transfer, explained

Git = Callable[..., bytes]


@pytest.fixture
def origin(repository: Path, git: Git) -> Path:
    """A repository with three commits."""
    for number in range(3):
        (repository / "a.py").write_text(f"x = {number}\n")
        git(repository, "add", "-A")
        git(repository, "commit", "-m", str(number))
    return repository


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    return tmp_path / "data" / "repositories"


def remote_of(origin: Path) -> Remote:
    return parse_remote(f"file://{origin}")


USUAL = CloneOptions()


def fetched(origin: Path, clones: Path, options: CloneOptions = USUAL) -> Clone:
    remote = remote_of(origin)
    return fetch(remote, clones, options, Transfer(remote))


def commits_in(clone: Clone, git: Git) -> int:
    return int(git(clone.root, "rev-list", "--count", "HEAD"))


def paths_in(clone: Clone) -> list[str]:
    return [file.path for file in source_tree_at(clone.root).list_files().files]


def text_in(clone: Clone, git: Git) -> str:
    return git(clone.root, "show", "HEAD:a.py").decode()


def refs_in(clone: Clone, git: Git) -> list[str]:
    return git(clone.root, "for-each-ref", "--format=%(refname)").decode().split()


def test_the_newest_commit_of_the_default_branch_is_cloned(
    origin: Path, clones: Path, git: Git
) -> None:
    clone = fetched(origin, clones)
    assert clone.is_new
    assert clone.is_shallow
    assert clone.branch == "main"
    assert head_of(clone.root) == Head("main", clone.commit) == head_of(origin)
    assert commits_in(clone, git) == 1
    assert text_in(clone, git) == "x = 2\n"
    assert not (clone.root / "a.py").exists()
    assert clone.root == clone_path(remote_of(origin), clones)
    assert git(clone.root, "remote", "get-url", "origin").decode().strip() == f"file://{origin}"


def test_a_clone_follows_the_remote(origin: Path, clones: Path, git: Git) -> None:
    first = fetched(origin, clones)
    (first.root / "HEAD.lock").write_text("of a git that was killed\n")
    (origin / "b.py").write_text("new\n")
    git(origin, "add", "-A")
    git(origin, "commit", "-m", "four")
    again = fetched(origin, clones)
    assert not again.is_new
    assert again.root == first.root
    assert again.commit != first.commit
    assert paths_in(again) == ["a.py", "b.py"]
    assert commits_in(again, git) == 1


def test_history_that_was_rewritten_is_followed(origin: Path, clones: Path, git: Git) -> None:
    fetched(origin, clones, CloneOptions(full=True))
    git(origin, "reset", "--hard", "HEAD~2")
    (origin / "a.py").write_text("another way\n")
    git(origin, "commit", "-am", "other")
    clone = fetched(origin, clones)
    assert text_in(clone, git) == "another way\n"
    assert commits_in(clone, git) == 2


def test_how_much_history_is_kept_is_remembered_and_can_be_changed(
    origin: Path, clones: Path, git: Git
) -> None:
    assert commits_in(fetched(origin, clones, CloneOptions(depth=2)), git) == 2
    assert commits_in(fetched(origin, clones), git) == 2
    whole = fetched(origin, clones, CloneOptions(full=True))
    assert (commits_in(whole, git), whole.is_shallow) == (3, False)
    git(origin, "commit", "--allow-empty", "-m", "four")
    assert commits_in(fetched(origin, clones), git) == 4
    assert commits_in(fetched(origin, clones, CloneOptions(full=True)), git) == 4
    assert commits_in(fetched(origin, clones, CloneOptions(depth=1)), git) == 1


def test_a_branch_or_tag_is_cloned_and_remembered(origin: Path, clones: Path, git: Git) -> None:
    git(origin, "tag", "v1", "HEAD~1")
    git(origin, "tag", "-a", "v2", "-m", "annotated", "HEAD~2")
    git(origin, "switch", "-c", "feature/x")
    (origin / "a.py").write_text("feature\n")
    git(origin, "commit", "-am", "feature")
    git(origin, "switch", "main")
    fetched(origin, clones)
    clone = fetched(origin, clones, CloneOptions(branch="feature/x"))
    assert (clone.branch, text_in(clone, git)) == ("feature/x", "feature\n")
    assert fetched(origin, clones).branch == "feature/x"
    clone = fetched(origin, clones, CloneOptions(branch="v1"))
    assert (clone.branch, text_in(clone, git)) == (None, "x = 1\n")
    assert head_of(clone.root) == Head(None, clone.commit)
    assert text_in(fetched(origin, clones, CloneOptions(branch="v2")), git) == "x = 0\n"
    assert fetched(origin, clones, CloneOptions(branch="main")).branch == "main"


def test_the_whole_history_comes_with_all_branches_and_tags(
    origin: Path, clones: Path, git: Git
) -> None:
    git(origin, "tag", "-a", "v1", "-m", "annotated", "HEAD~1")
    git(origin, "branch", "feature")
    assert refs_in(fetched(origin, clones), git) == ["refs/heads/main"]
    whole = fetched(origin, clones, CloneOptions(full=True))
    assert refs_in(whole, git) == ["refs/heads/feature", "refs/heads/main", "refs/tags/v1"]
    git(origin, "branch", "-D", "feature")
    git(origin, "branch", "feature/x")
    whole = fetched(origin, clones)
    assert refs_in(whole, git) == ["refs/heads/feature/x", "refs/heads/main", "refs/tags/v1"]
    assert refs_in(fetched(origin, clones, CloneOptions(depth=1)), git) == ["refs/heads/main"]


def test_a_directory_in_the_place_of_a_clone_is_replaced(
    origin: Path, clones: Path, git: Git
) -> None:
    place = clone_path(remote_of(origin), clones)
    place.parent.mkdir(parents=True)
    git(place.parent, "clone", "--depth=2", f"file://{origin}", place.name)
    assert not is_cloned(remote_of(origin), clones)
    clone = fetched(origin, clones)
    assert (clone.is_new, clone.is_shallow) == (True, True)
    assert sorted(path.name for path in place.parent.iterdir()) == [place.name]
    assert not (place / ".git").exists()
    assert (paths_in(clone), text_in(clone, git)) == (["a.py"], "x = 2\n")


def test_locks_of_a_git_that_was_killed_are_removed(origin: Path, clones: Path, git: Git) -> None:
    place = fetched(origin, clones).root
    for lock in (place / "config.lock", place / "refs" / "heads" / "main.lock"):
        lock.write_text("of a git that was killed\n")
    git(origin, "commit", "--allow-empty", "-m", "four")
    assert commits_in(fetched(origin, clones, CloneOptions(depth=2)), git) == 2


def test_a_default_branch_that_is_renamed_is_followed(origin: Path, clones: Path, git: Git) -> None:
    fetched(origin, clones)
    git(origin, "branch", "-m", "main", "trunk")
    assert fetched(origin, clones).branch == "trunk"


def test_a_detached_head_on_the_other_side_is_cloned(origin: Path, clones: Path, git: Git) -> None:
    git(origin, "switch", "--detach", "HEAD~1")
    clone = fetched(origin, clones)
    assert (clone.branch, text_in(clone, git)) == (None, "x = 1\n")


@pytest.mark.parametrize("branch", ["no-such", "-x", "a..b", "a b", "refs/heads/*", "x.lock", ""])
def test_a_missing_branch_is_reported(origin: Path, clones: Path, branch: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        fetched(origin, clones, CloneOptions(branch=branch))
    assert caught.value.details["field"] == "branch"


def test_a_failed_clone_leaves_nothing(tmp_path: Path, tree: Path, clones: Path, git: Git) -> None:
    with pytest.raises(InvalidInput, match="No git repository at file://"):
        fetched(tree / "missing", clones)
    git(tree, "init")
    with pytest.raises(InvalidInput, match="has no commit on its default branch"):
        fetched(tree, clones)
    assert [path.name for path in clones.iterdir()] == [".locks"]


def test_an_interrupted_clone_leaves_nothing_and_stops_git(
    origin: Path, clones: Path, git: Git
) -> None:
    remote = remote_of(origin)
    stopping: list[Transfer] = []
    transfer = Transfer(remote, lambda _: stopping[0].stop())
    stopping.append(transfer)
    with pytest.raises(Stopped):
        fetch(remote, clones, CloneOptions(), transfer)
    assert [path.name for path in clones.iterdir()] == [".locks"]
    left = clone_path(remote, clones).with_name(f".{remote.folder.name}.part")
    left.mkdir(parents=True)
    (left / "of-a-process-that-was-killed").write_text("x")
    clone = fetched(origin, clones)
    assert [path.name for path in clone.root.parent.iterdir()] == [clone.root.name]


def test_concurrent_clones_of_one_url_share_the_result(origin: Path, clones: Path) -> None:
    found: list[Clone] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetched(origin, clones))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({clone.root for clone in found}) == 1
    assert [clone.is_new for clone in found].count(True) == 1


def test_a_name_that_was_chosen_is_kept(origin: Path, clones: Path) -> None:
    assert fetched(origin, clones).name == remote_of(origin).name
    assert fetched(origin, clones, CloneOptions(name="mine")).name == "mine"
    assert fetched(origin, clones).name == "mine"


def test_a_clone_is_forgotten_with_its_folders(origin: Path, clones: Path) -> None:
    remote = remote_of(origin)
    assert not delete_clone(remote, clones)
    fetched(origin, clones)
    assert is_cloned(remote, clones)
    assert delete_clone(remote, clones)
    assert not is_cloned(remote, clones)
    assert [path.name for path in clones.iterdir()] == [".locks"]


def test_the_clone_of_another_url_is_left_alone(origin: Path, clones: Path, git: Git) -> None:
    clone = fetched(origin, clones)
    git(clone.root, "remote", "set-url", "origin", "https://host/org/other")
    with pytest.raises(Conflict):
        fetched(origin, clones)
    assert not is_cloned(remote_of(origin), clones)


def test_anything_else_in_the_place_of_a_clone_is_replaced(origin: Path, clones: Path) -> None:
    place = clone_path(remote_of(origin), clones)
    place.mkdir(parents=True)
    (place / "half.py").write_text("x")
    assert paths_in(fetched(origin, clones)) == ["a.py"]
    assert not (place / "half.py").exists()


def test_nothing_that_a_repository_brings_is_run_or_followed(
    origin: Path, clones: Path, git: Git, tmp_path: Path, home: Path
) -> None:
    trace = tmp_path / "it-sang"
    canary = tmp_path / "canary"
    canary.write_text(f"#!/bin/sh\necho sang >> '{trace}'\ncat\n")
    canary.chmod(0o755)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (hooks / hook).write_bytes(canary.read_bytes())
        (hooks / hook).chmod(0o755)
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init")
    (inner / "inner.py").write_text("x = 1\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-m", "inner")
    git(origin, "submodule", "add", str(inner), "sub")
    (origin / ".gitattributes").write_text("* filter=theirs\n*.bin filter=lfs\n")
    (origin / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    (origin / "out").symlink_to("/etc")
    git(origin, "add", "-A")
    git(origin, "commit", "-m", "hostile")
    # The person's own configuration, which every git of theirs obeys.
    (home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n\tfsmonitor = {canary}\n"
        f'[filter "theirs"]\n\tsmudge = {canary}\n\tclean = {canary}\n\trequired = true\n'
        f'[filter "lfs"]\n\tsmudge = {canary}\n\tprocess = {canary}\n'
        f"[init]\n\ttemplateDir = {tmp_path}\n[submodule]\n\trecurse = true\n"
    )
    clone = fetched(origin, clones)
    again = fetched(origin, clones, CloneOptions(full=True))
    assert not trace.exists()
    assert clone.commit == again.commit
    assert paths_in(clone) == [".gitattributes", ".gitmodules", "a.py"]
    git(clone.root, "worktree", "add", str(tmp_path / "out"))  # a careless git runs some of it
    assert trace.exists()


def test_a_persons_own_rewriting_of_urls_counts_but_leads_to_no_other_transport(
    origin: Path, clones: Path, home: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    (home / ".gitconfig").write_text(
        f'[url "ext::touch {trace} "]\n\tinsteadOf = https://host/\n[protocol]\n\tallow = always\n'
    )
    remote = parse_remote("https://host/org/repo")
    with pytest.raises(IndexingFailed, match="git could not fetch https://host/org/repo"):
        fetch(remote, clones, CloneOptions(), Transfer(remote))
    assert not trace.exists()


def test_without_git_the_error_has_a_hint(
    origin: Path, clones: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(IndexingFailed) as caught:
        fetched(origin, clones)
    assert caught.value.hint == "Install git, or index a directory."
    assert caught.value.details["field"] == "path"


def test_a_folder_that_cannot_be_written_is_named(origin: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(IndexingFailed, match="Cannot store a clone of file"):
        fetched(origin, tmp_path / "file" / "repositories")


@pytest.mark.parametrize(
    ("complaint", "message"),
    [
        ("fatal: unable to access 'u': Could not resolve host: host", "Host not found: host"),
        ("ssh: Could not resolve hostname host: Name or service not known", "Host not found: host"),
        (
            "fatal: could not read Username for 'u': terminal prompts disabled",
            "Not allowed to read",
        ),
        ("fatal: unable to get password from user", "Not allowed to read"),  # git 2.53
        ("git@host: Permission denied (publickey).", "Not allowed to read"),
        ("fatal: unable to access 'u': The requested URL returned error: 403", "Not allowed"),
        ("Host key verification failed.", "ssh has no trusted key for the host"),
        ("remote: Repository not found.\nfatal: repository 'u' not found", "No git repository at"),
        ("fatal: unable to access 'u': The requested URL returned error: 404", "No git repository"),
        ("fatal: unable to access 'u': Failed to connect to host port 1", "host does not answer"),
        ("fatal: early EOF", "host does not answer, or closed the connection"),
        ("SSL certificate problem: self-signed certificate", "certificate of host is not trusted"),
        ("fatal: write error: No space left on device", "The disk is full"),
        (
            "fatal: dumb http transport does not support shallow capabilities",
            "does not support shallow clones",
        ),
        ("error: cannot run ssh: No such file or directory", "a program that it needs is missing"),
        ("fatal: something else", "git could not fetch https://host/a/b: fatal: something else"),
    ],
)
def test_errors_of_git_are_explained_with_a_hint(complaint: str, message: str) -> None:
    error = explained(GitFailed(complaint), parse_remote("https://host/a/b"))
    assert message in error.message
    assert error.hint
    assert error.details["field"] == "path"


def test_clones_are_private_to_the_user(origin: Path, clones: Path) -> None:
    fetched(origin, clones)
    assert clones.stat().st_mode & 0o077 == 0
