"""Keeps clones of remote repositories in our own folder, and updates them.

They are bare: files are read from git's objects, so nothing is checked out. Each fetch makes the
refs equal to those of the remote. A new clone is made under a temporary name until it is complete.
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

_NAMED = ("refs/heads/", "refs/tags/")

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
    """The state of a clone; ``branch`` is None if HEAD is a tag or a commit."""

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
        return self.ref if self.ref.startswith(_NAMED) else "refs/remotes/origin/HEAD"


def clone_path(remote: Remote, clones: Path) -> Path:
    """The folder for the clone of a repository, whether it exists or not."""
    return clones / remote.folder


def is_cloned(remote: Remote, clones: Path) -> bool:
    """Whether there is a clone of exactly this repository."""
    place = clone_path(remote, clones)
    return _is_clone(place) and _origin(place) == remote.identity


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
            if _is_clone(place):
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
        transfer.run_local(begun, "config", "remote.origin.url", remote.url)
        depth = _FULL if options.full else str(options.depth or DEPTH)
        _fetch(tip, begun, depth, transfer)
        _move_head(tip, begun, depth, transfer)
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
    _remove_stale_locks(_git_dir(place))
    _remove_files(place, transfer)
    known = _stored_options(place, transfer)
    tip = _tip(remote, place, options.branch or known.get(_BRANCH), transfer)
    before = known.get(_DEPTH, str(DEPTH))
    depth = _FULL if options.full else str(options.depth) if options.depth else before
    is_current = _commit(place, tip.local_ref, transfer) == tip.commit
    if depth == _FULL or depth != before or not is_current:
        _fetch(tip, place, depth, transfer)
    _move_head(tip, place, depth, transfer)
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
    return ["--unshallow"] if (directory / "shallow").exists() else []


def _fetch(tip: _RemoteRef, directory: Path, depth: str, transfer: Transfer) -> None:
    """Fetch a ref up to a depth; or the whole history, with all branches and tags."""
    refs = [f"+{tip.ref}:{tip.local_ref}"]
    if depth == _FULL:
        refs += [f"+{kind}*:{kind}*" for kind in _NAMED]
    transfer.run_remote(
        directory,
        *("fetch", "--progress", "--force", "--prune", "--no-tags", "--no-recurse-submodules"),
        *("--no-write-fetch-head", *_depth_arguments(directory, depth), "--", "origin", *refs),
        is_clone=True,
    )


def _move_head(tip: _RemoteRef, directory: Path, depth: str, transfer: Transfer) -> None:
    """Let HEAD be what was fetched, and delete the refs that are not fetched any more."""
    if tip.branch is None:
        commit = _commit(directory, tip.local_ref, transfer)
        transfer.run_local(directory, "update-ref", "--no-deref", "HEAD", commit)
    else:
        transfer.run_local(directory, "symbolic-ref", "HEAD", tip.local_ref)
    answer = transfer.run_local(directory, "for-each-ref", "--format=%(refname)")
    for ref in answer.split("\n")[:-1]:
        if ref != tip.local_ref and not (depth == _FULL and ref.startswith(_NAMED)):
            with suppress(GitFailed):  # the name is not UTF-8
                transfer.run_local(directory, "update-ref", "--no-deref", "-d", ref)


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
        (place / "shallow").exists(),
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


def _is_clone(place: Path) -> bool:
    return (_git_dir(place) / "HEAD").is_file()


def _git_dir(place: Path) -> Path:
    """The git directory of a clone: an earlier version also checked files out, beside ``.git``."""
    old = place / ".git"
    return old if old.is_dir() else place


def _remove_files(place: Path, transfer: Transfer) -> None:
    """Make the clone of an earlier version, which has files, a bare one."""
    git_dir = _git_dir(place)
    if git_dir == place:
        return
    transfer.run_local(git_dir, "config", "core.bare", "true")
    (git_dir / "index").unlink(missing_ok=True)
    begun = _partial_path(place)
    shutil.rmtree(begun, ignore_errors=True)
    place.rename(begun)
    (begun / ".git").rename(place)
    shutil.rmtree(begun)


def _remove_stale_locks(git_dir: Path) -> None:
    """Remove lock files of a killed git; no other process works on this clone."""
    for lock in (*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)


def _origin(place: Path) -> str | None:
    """The identity of the remote of a clone; read without git."""
    try:
        text = (_git_dir(place) / "config").read_text()
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
