"""What does a repository elsewhere hold now? Keeps a clone of each, in folders of our own.

Nothing that is changed in such a clone is anybody's work: each fetch puts it in the state of the
other side. A clone that is begun lies beside its place until it is whole.
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

# How many commits are fetched unless somebody asks for more: what is indexed is the newest.
DEPTH = 1
_POLL_S = 0.1

# The clone's own configuration keeps what was asked for, so that the next call need not say it.
_BRANCH = "codebase-mcp.branch"
_DEPTH = "codebase-mcp.depth"
_NAME = "codebase-mcp.name"
_FULL = "full"

_NO_REF = re.compile(r"[\x00-\x20~^:?*\[\\\x7f]|\.\.|@\{|//|^[-/.]|[/.]$|/\.|\.lock(?:$|/)")


@dataclass(frozen=True, slots=True)
class Wish:
    """What to have of a repository; None is what was asked for before, or the usual."""

    branch: str | None = None
    depth: int | None = None
    full: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone as it is now; ``branch`` is None where a tag or a bare commit is checked out."""

    root: Path
    name: str
    branch: str | None
    commit: str
    is_new: bool
    is_shallow: bool


@dataclass(frozen=True, slots=True)
class _Tip:
    """Where the other side's branch or tag is; ``ref`` is ``HEAD`` where that is no branch."""

    ref: str
    commit: str

    @property
    def branch(self) -> str | None:
        head = "refs/heads/"
        return self.ref.removeprefix(head) if self.ref.startswith(head) else None

    @property
    def here(self) -> str:
        """The ref of the clone that follows it."""
        return f"refs/remotes/origin/{self.branch or self.ref.rpartition('/')[2]}"


def place_of(remote: Remote, clones: Path) -> Path:
    """Where the clone of a repository lies, whether there is one or not."""
    return clones / remote.folder


def is_cloned(remote: Remote, clones: Path) -> bool:
    """Whether there is a clone, of just this repository."""
    place = place_of(remote, clones)
    return (place / ".git" / "HEAD").is_file() and _origin(place) == remote.identity


def fetch(remote: Remote, clones: Path, wish: Wish, transfer: Transfer) -> Clone:
    """Clone a repository, or bring its clone up to date; only one process at a time does.

    Raises:
        InvalidInput: there is no such repository, or no such branch, or it may not be read.
        Conflict: the folder holds the clone of another URL.
        IndexingFailed: the network, the disk or git fails.
        Stopped: the transfer was told to stop; a clone that was begun is gone.
    """
    if wish.branch is not None and _NO_REF.search(wish.branch):
        raise _no_branch(wish.branch, remote)
    try:
        clones.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(remote, clones, transfer):
            place = place_of(remote, clones)
            if (place / ".git" / "HEAD").is_file():
                return _update(remote, place, wish, transfer)
            return _clone(remote, place, wish, transfer)
    except GitFailed as error:
        raise explained(error, remote) from error
    except OSError as error:
        raise IndexingFailed(
            f"Cannot keep a clone of {remote.url}: {error.strerror}: {error.filename}",
            hint="Choose a data folder that this user can write to.",
            details={"field": "path", "value": remote.url},
        ) from error
    finally:
        _drop_empty(place_of(remote, clones))


def forget(remote: Remote, clones: Path) -> bool:
    """Delete the clone of a repository; was there any?"""
    if not is_cloned(remote, clones):
        return False
    with _locked(remote, clones, Transfer(remote)):
        place = place_of(remote, clones)
        gone = _aside(place)
        shutil.rmtree(gone, ignore_errors=True)
        place.rename(gone)
        shutil.rmtree(gone)
    _drop_empty(place)
    return True


def _drop_empty(place: Path) -> None:
    for folder in (place.parent, place.parent.parent):
        with suppress(OSError):  # others are in it
            folder.rmdir()


def _clone(remote: Remote, place: Path, wish: Wish, transfer: Transfer) -> Clone:
    place.parent.mkdir(parents=True, exist_ok=True)
    begun = _aside(place)
    shutil.rmtree(begun, ignore_errors=True)  # of a process that was killed
    begun.mkdir()
    try:
        tip = _tip(remote, begun, wish.branch, transfer)
        transfer.make(begun)
        for name, value in (
            ("remote.origin.url", remote.url),
            ("core.logAllRefUpdates", "false"),
            ("core.autocrlf", "false"),
            ("core.protectHFS", "true"),
            ("core.protectNTFS", "true"),
        ):
            transfer.here(begun, "config", name, value)
        depth = _FULL if wish.full else str(wish.depth or DEPTH)
        _get(tip, begun, _extent(begun, depth), transfer)
        _set_tree(tip, begun, transfer)
        _remember(begun, wish, depth, transfer)
        shutil.rmtree(place, ignore_errors=True)  # what is no clone, in a folder of ours
        begun.rename(place)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return _as_found(remote, place, tip, transfer, is_new=True)


def _update(remote: Remote, place: Path, wish: Wish, transfer: Transfer) -> Clone:
    if _origin(place) != remote.identity:
        raise Conflict(
            f"The folder for {remote.url} holds the clone of another repository",
            hint="This file system does not tell upper case from lower case. Clone it yourself,"
            " and index the directory.",
            details={"field": "path", "value": remote.url, "folder": str(place)},
        )
    _unlock(place / ".git")
    known = _remembered(place, transfer)
    tip = _tip(remote, place, wish.branch or known.get(_BRANCH), transfer)
    before = known.get(_DEPTH, str(DEPTH))
    depth = _FULL if wish.full else str(wish.depth) if wish.depth else before
    if depth != before or _commit(place, tip.here, transfer) != tip.commit:
        _get(tip, place, _extent(place, depth), transfer)
    _set_tree(tip, place, transfer)
    _remember(place, wish, depth, transfer)
    _tidy(place, transfer)
    return _as_found(remote, place, tip, transfer, is_new=False)


def _tip(remote: Remote, directory: Path, branch: str | None, transfer: Transfer) -> _Tip:
    """Ask the other side where its branch is, or the tag of that name."""
    wanted = ("HEAD",) if branch is None else (f"refs/heads/{branch}", f"refs/tags/{branch}")
    answer = transfer.abroad(
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
            return _Tip(named, commits[ref])
    if branch is not None:
        raise _no_branch(branch, remote)
    raise InvalidInput.of(
        "path",
        remote.url,
        f"{remote.url} has no commit on its default branch",
        rule="a repository with a commit",
        hint="Name a branch that has: --branch NAME.",
    )


def _extent(directory: Path, depth: str) -> list[str]:
    """How much of the history to ask for; all of it is asked for once."""
    if depth != _FULL:
        return ["--depth", depth]
    return ["--unshallow"] if (directory / ".git" / "shallow").exists() else []


def _get(tip: _Tip, directory: Path, extent: list[str], transfer: Transfer) -> None:
    transfer.abroad(
        directory,
        *("fetch", "--progress", "--force", "--no-tags", "--no-recurse-submodules"),
        *("--no-write-fetch-head", *extent, "--", "origin", f"+{tip.ref}:{tip.here}"),
        is_clone=True,
    )


def _set_tree(tip: _Tip, directory: Path, transfer: Transfer) -> None:
    """Make the work tree what was fetched, whatever was done to it."""
    commit = _commit(directory, tip.here, transfer)
    if tip.branch is None:
        transfer.here(directory, "update-ref", "--no-deref", "HEAD", commit)
    else:
        transfer.here(directory, "update-ref", f"refs/heads/{tip.branch}", commit)
        transfer.here(directory, "symbolic-ref", "HEAD", f"refs/heads/{tip.branch}")
    transfer.here(directory, "reset", "--quiet", "--hard", commit)
    transfer.here(directory, "clean", "-ffdxq")


def _commit(directory: Path, ref: str, transfer: Transfer) -> str:
    """The commit of a ref; empty where there is none."""
    try:
        return transfer.here(
            directory, "rev-parse", "--quiet", "--verify", f"{ref}^{{commit}}"
        ).strip()
    except GitFailed:
        return ""


def _as_found(remote: Remote, place: Path, tip: _Tip, transfer: Transfer, *, is_new: bool) -> Clone:
    return Clone(
        place,
        _remembered(place, transfer).get(_NAME, remote.name),
        tip.branch,
        _commit(place, "HEAD", transfer),
        is_new,
        (place / ".git" / "shallow").exists(),
    )


def _remember(directory: Path, wish: Wish, depth: str, transfer: Transfer) -> None:
    for name, value in ((_BRANCH, wish.branch), (_NAME, wish.name), (_DEPTH, depth)):
        if value is not None:
            transfer.here(directory, "config", name, value)


def _remembered(directory: Path, transfer: Transfer) -> dict[str, str]:
    try:
        answer = transfer.here(
            directory, "config", "--local", "-z", "--get-regexp", r"^codebase-mcp\."
        )
    except GitFailed:
        return {}
    return dict(entry.split("\n", 1) for entry in answer.split("\0") if "\n" in entry)


def _tidy(directory: Path, transfer: Transfer) -> None:
    """Drop what earlier states left, now and then; in the foreground, as the lock is held."""
    with suppress(GitFailed):
        transfer.here(
            directory,
            *("-c", "gc.auto=2000", "-c", "gc.autoDetach=false", "-c", "gc.pruneExpire=now"),
            *("gc", "--auto", "--quiet"),
        )


def _unlock(git_dir: Path) -> None:
    """Remove the locks of a git that was killed: nobody else is at work here."""
    for lock in (*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)


def _origin(place: Path) -> str | None:
    """The identity of what a clone was made of; read without git."""
    try:
        text = (place / ".git" / "config").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    found = re.search(r"^\s*url = (\S+)$", text, re.MULTILINE)
    try:
        return parse_remote(found[1]).identity if found else None
    except InvalidInput:
        return None


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.part")


@contextmanager
def _locked(remote: Remote, clones: Path, transfer: Transfer) -> Iterator[None]:
    """While a clone is changed, no other process does so."""
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
