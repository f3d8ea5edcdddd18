"""Keeps clones of remote repositories in our own folder, and updates them.

Local changes in such a clone are discarded: each fetch resets it to the remote state. A new clone
is made under a temporary name until it is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.errors import Conflict, IndexingFailed, InvalidInput
from codebase_mcp.source.remote import Remote, parse_remote
from codebase_mcp.source.transfer import GitFailed, Transfer, explained

# How many commits are fetched by default: only the newest is indexed.
DEPTH = 1
_POLL_S = 0.1

# Options are stored in the clone's git configuration, so that the next call can omit them.
_BRANCH = "codebase-mcp.branch"
_DEPTH = "codebase-mcp.depth"
_NAME = "codebase-mcp.name"
_FULL = "full"

_NO_REF = re.compile(r"[\x00-\x20~^:?*\[\\\x7f]|\.\.|@\{|//|^[-/.]|[/.]$|/\.|\.lock(?:$|/)")


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """What to fetch of a repository; None means the earlier option, or the default."""

    branch: str | None = None
    depth: int | None = None
    full: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Clone:
    """The state of a clone; ``branch`` is None if a tag or a commit is checked out."""

    root: Path
    name: str
    branch: str | None
    commit: str
    is_new: bool
    is_shallow: bool


@dataclass(frozen=True, slots=True)
class _RemoteRef:
    """A branch or tag of the remote; ``ref`` is ``HEAD`` if that is not a branch."""

    ref: str
    commit: str

    @property
    def branch(self) -> str | None:
        head = "refs/heads/"
        return self.ref.removeprefix(head) if self.ref.startswith(head) else None

    @property
    def local_ref(self) -> str:
        """The ref that tracks it in the clone."""
        return f"refs/remotes/origin/{self.branch or self.ref.rpartition('/')[2]}"


def clone_path(remote: Remote, clones: Path) -> Path:
    """The folder for the clone of a repository, whether it exists or not."""
    return clones / remote.folder


def is_cloned(remote: Remote, clones: Path) -> bool:
    """Whether there is a clone of exactly this repository."""
    place = clone_path(remote, clones)
    return (place / ".git" / "HEAD").is_file() and _origin(place) == remote.identity


def fetch(remote: Remote, clones: Path, options: CloneOptions, transfer: Transfer) -> Clone:
    """Clone a repository, or update its clone; one process at a time.

    Raises:
        InvalidInput: the repository or branch does not exist, or may not be read.
        Conflict: the folder contains the clone of another URL.
        IndexingFailed: the network, the disk or git failed.
        Stopped: the transfer was stopped; an unfinished clone is deleted.
    """
    if options.branch is not None and _NO_REF.search(options.branch):
        raise _no_branch(options.branch, remote)
    try:
        clones.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(remote, clones, transfer):
            place = clone_path(remote, clones)
            if (place / ".git" / "HEAD").is_file():
                return _update(remote, place, options, transfer)
            return _clone(remote, place, options, transfer)
    except GitFailed as error:
        raise explained(error, remote) from error
    except OSError as error:
        raise IndexingFailed(
            f"Cannot store a clone of {remote.url}: {error.strerror}: {error.filename}",
            hint="Choose a data folder that this user can write to.",
            details={"field": "path", "value": remote.url},
        ) from error
    finally:
        _remove_empty_parents(clone_path(remote, clones))


def delete_clone(remote: Remote, clones: Path) -> bool:
    """Delete the clone of a repository; False if there is none."""
    if not is_cloned(remote, clones):
        return False
    with _locked(remote, clones, Transfer(remote)):
        place = clone_path(remote, clones)
        gone = _partial_path(place)
        shutil.rmtree(gone, ignore_errors=True)
        place.rename(gone)
        shutil.rmtree(gone)
    _remove_empty_parents(place)
    return True


def _remove_empty_parents(place: Path) -> None:
    for folder in (place.parent, place.parent.parent):
        with suppress(OSError):  # others are in it
            folder.rmdir()


def _clone(remote: Remote, place: Path, options: CloneOptions, transfer: Transfer) -> Clone:
    place.parent.mkdir(parents=True, exist_ok=True)
    begun = _partial_path(place)
    shutil.rmtree(begun, ignore_errors=True)  # of a process that was killed
    begun.mkdir()
    try:
        tip = _tip(remote, begun, options.branch, transfer)
        transfer.init(begun)
        for name, value in (
            ("remote.origin.url", remote.url),
            ("core.logAllRefUpdates", "false"),
            ("core.autocrlf", "false"),
            ("core.protectHFS", "true"),
            ("core.protectNTFS", "true"),
        ):
            transfer.run_local(begun, "config", name, value)
        depth = _FULL if options.full else str(options.depth or DEPTH)
        _fetch_ref(tip, begun, _depth_arguments(begun, depth), transfer)
        _reset_work_tree(tip, begun, transfer)
        _store_options(begun, options, depth, transfer)
        shutil.rmtree(place, ignore_errors=True)  # what is no clone, in a folder of ours
        begun.rename(place)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return _describe(remote, place, tip, transfer, is_new=True)


def _update(remote: Remote, place: Path, options: CloneOptions, transfer: Transfer) -> Clone:
    if _origin(place) != remote.identity:
        raise Conflict(
            f"The folder for {remote.url} holds the clone of another repository",
            hint="This file system ignores case. Clone the repository yourself, and index that"
            " directory.",
            details={"field": "path", "value": remote.url, "folder": str(place)},
        )
    _remove_stale_locks(place / ".git")
    known = _stored_options(place, transfer)
    tip = _tip(remote, place, options.branch or known.get(_BRANCH), transfer)
    before = known.get(_DEPTH, str(DEPTH))
    depth = _FULL if options.full else str(options.depth) if options.depth else before
    if depth != before or _commit(place, tip.local_ref, transfer) != tip.commit:
        _fetch_ref(tip, place, _depth_arguments(place, depth), transfer)
    _reset_work_tree(tip, place, transfer)
    _store_options(place, options, depth, transfer)
    _collect_garbage(place, transfer)
    return _describe(remote, place, tip, transfer, is_new=False)


def _tip(remote: Remote, directory: Path, branch: str | None, transfer: Transfer) -> _RemoteRef:
    """Ask the remote for its default branch, or the branch or tag of that name."""
    wanted = ("HEAD",) if branch is None else (f"refs/heads/{branch}", f"refs/tags/{branch}")
    answer = transfer.run_remote(
        directory, "ls-remote", "--symref", "--", remote.url, *wanted, is_clone=False
    )
    commits, points_to = {}, None
    for line in answer.splitlines():
        what, _, ref = line.partition("\t")
        if what.startswith("ref: ") and ref == "HEAD":
            points_to = what.removeprefix("ref: ")
        elif not what.startswith("ref: "):
            commits[ref] = what
    for ref in wanted:
        if ref in commits:
            named = points_to if ref == "HEAD" and points_to else ref
            return _RemoteRef(named, commits[ref])
    if branch is not None:
        raise _no_branch(branch, remote)
    raise InvalidInput.of(
        "path",
        remote.url,
        f"{remote.url} has no commit on its default branch",
        rule="a repository with a commit",
        hint="Choose a branch with a commit: --branch NAME.",
    )


def _depth_arguments(directory: Path, depth: str) -> list[str]:
    """The arguments of git fetch for a depth."""
    if depth != _FULL:
        return ["--depth", depth]
    return ["--unshallow"] if (directory / ".git" / "shallow").exists() else []


def _fetch_ref(tip: _RemoteRef, directory: Path, extent: list[str], transfer: Transfer) -> None:
    transfer.run_remote(
        directory,
        *("fetch", "--progress", "--force", "--no-tags", "--no-recurse-submodules"),
        *("--no-write-fetch-head", *extent, "--", "origin", f"+{tip.ref}:{tip.local_ref}"),
        is_clone=True,
    )


def _reset_work_tree(tip: _RemoteRef, directory: Path, transfer: Transfer) -> None:
    """Reset the work tree to what was fetched."""
    commit = _commit(directory, tip.local_ref, transfer)
    if tip.branch is None:
        transfer.run_local(directory, "update-ref", "--no-deref", "HEAD", commit)
    else:
        transfer.run_local(directory, "update-ref", f"refs/heads/{tip.branch}", commit)
        transfer.run_local(directory, "symbolic-ref", "HEAD", f"refs/heads/{tip.branch}")
    transfer.run_local(directory, "reset", "--quiet", "--hard", commit)
    transfer.run_local(directory, "clean", "-ffdxq")


def _commit(directory: Path, ref: str, transfer: Transfer) -> str:
    """The commit of a ref; empty if there is none."""
    try:
        return transfer.run_local(
            directory, "rev-parse", "--quiet", "--verify", f"{ref}^{{commit}}"
        ).strip()
    except GitFailed:
        return ""


def _describe(
    remote: Remote, place: Path, tip: _RemoteRef, transfer: Transfer, *, is_new: bool
) -> Clone:
    return Clone(
        place,
        _stored_options(place, transfer).get(_NAME, remote.name),
        tip.branch,
        _commit(place, "HEAD", transfer),
        is_new,
        (place / ".git" / "shallow").exists(),
    )


def _store_options(directory: Path, options: CloneOptions, depth: str, transfer: Transfer) -> None:
    for name, value in ((_BRANCH, options.branch), (_NAME, options.name), (_DEPTH, depth)):
        if value is not None:
            transfer.run_local(directory, "config", name, value)


def _stored_options(directory: Path, transfer: Transfer) -> dict[str, str]:
    try:
        answer = transfer.run_local(
            directory, "config", "--local", "-z", "--get-regexp", r"^codebase-mcp\."
        )
    except GitFailed:
        return {}
    return dict(entry.split("\n", 1) for entry in answer.split("\0") if "\n" in entry)


def _collect_garbage(directory: Path, transfer: Transfer) -> None:
    """Let git remove unused objects if it is due; in the foreground, while the lock is held."""
    with suppress(GitFailed):
        transfer.run_local(
            directory,
            *("-c", "gc.auto=2000", "-c", "gc.autoDetach=false", "-c", "gc.pruneExpire=now"),
            *("gc", "--auto", "--quiet"),
        )


def _remove_stale_locks(git_dir: Path) -> None:
    """Remove lock files of a killed git; no other process works on this clone."""
    for lock in (*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)


def _origin(place: Path) -> str | None:
    """The identity of the remote of a clone; read without git."""
    try:
        text = (place / ".git" / "config").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    found = re.search(r"^\s*url = (\S+)$", text, re.MULTILINE)
    try:
        return parse_remote(found[1]).identity if found else None
    except InvalidInput:
        return None


def _partial_path(place: Path) -> Path:
    return place.with_name(f".{place.name}.part")


@contextmanager
def _locked(remote: Remote, clones: Path, transfer: Transfer) -> Iterator[None]:
    """Lock a clone against changes by other processes."""
    locks = clones / ".locks"
    locks.mkdir(exist_ok=True)
    name = hashlib.sha256(str(remote.folder).casefold().encode()).hexdigest()[:24]
    handle = os.open(locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(handle):
            transfer.wait(_POLL_S)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _no_branch(branch: str, remote: Remote) -> InvalidInput:
    return InvalidInput.of(
        "branch",
        branch,
        f"{remote.url} has no branch or tag {branch!r}",
        rule="a branch or tag of the repository",
        hint=f"`git ls-remote --heads --tags {remote.url}` lists them.",
    )
