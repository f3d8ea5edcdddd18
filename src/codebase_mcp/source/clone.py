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
_TOKEN = "codebase-mcp.token"
_FULL = "full"

# The code hosts whose token may be used to fetch.
GITHUB, GITLAB = "github", "gitlab"

_BRANCHES = "refs/heads/"
_NAMED = (_BRANCHES, "refs/tags/")

_NO_REF = re.compile(r"[\x00-\x20~^:?*\[\\\x7f]|\.\.|@\{|//|^[-/.]|[/.]$|/\.|\.lock(?:$|/)")


@dataclass(frozen=True, slots=True)
class CloneOptions:
    """What to fetch of a repository; None means the earlier option, or the default.

    ``token`` is the kind of code host whose token may read it: ``GITHUB`` or ``GITLAB``.
    """

    branch: str | None = None
    depth: int | None = None
    full: bool = False
    name: str | None = None
    token: str | None = None


class EmptyRepository(InvalidInput):
    """The repository has no commit on its default branch."""


@dataclass(frozen=True, slots=True)
class Clone:
    """The state of a clone; ``branch`` is None if HEAD is a tag or a commit."""

    root: Path
    name: str
    branch: str | None
    commit: str
    is_new: bool
    is_shallow: bool


def clone_path(remote: Remote, clones: Path) -> Path:
    """The folder for the clone of a repository, whether it exists or not."""
    return clones / remote.folder


def is_cloned(remote: Remote, clones: Path) -> bool:
    """Whether there is a clone of exactly this repository."""
    folder = clone_path(remote, clones)
    return _is_clone(folder) and _is_of(remote, folder)


def fetch(remote: Remote, clones: Path, options: CloneOptions, transfer: Transfer) -> Clone:
    """Clone a repository, or update its clone. Processes wait for each other.

    Raises:
        InvalidInput: the repository or branch does not exist, or may not be read.
        Conflict: the folder contains the clone of another URL.
        IndexingFailed: the network, the disk or git failed.
        Stopped: the transfer was stopped; an unfinished clone is deleted.
    """
    if options.branch is not None and _NO_REF.search(options.branch):
        raise _no_branch(options.branch, remote)
    folder = clone_path(remote, clones)
    try:
        clones.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(remote, clones, transfer):
            if _is_clone(folder):
                return _update(folder, options, transfer)
            return _clone(folder, options, transfer)
    except GitFailed as error:
        raise explained(error, remote) from error
    except OSError as error:
        raise IndexingFailed(
            f"Cannot store a clone of {remote.url}: {error.strerror}: {error.filename}",
            hint="Choose a data folder that this user can write to.",
            details={"field": "path", "value": remote.url},
        ) from error
    finally:
        _remove_empty_parents(folder)


def delete_clone(remote: Remote, clones: Path) -> bool:
    """Delete the clone of a repository; False if there is none."""
    if not is_cloned(remote, clones):
        return False
    folder = clone_path(remote, clones)
    with _locked(remote, clones, Transfer(remote)):
        partial = _partial_path(folder)
        shutil.rmtree(partial, ignore_errors=True)
        folder.rename(partial)
        shutil.rmtree(partial)
    _remove_empty_parents(folder)
    return True


def _remove_empty_parents(folder: Path) -> None:
    for parent in (folder.parent, folder.parent.parent):
        with suppress(OSError):  # it is not empty
            parent.rmdir()


def _clone(folder: Path, options: CloneOptions, transfer: Transfer) -> Clone:
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial_path(folder)
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    partial.mkdir()
    git = _Git(partial, transfer)
    try:
        git.run("init", "--bare", "--quiet", "--template=")
        git.run("config", "remote.origin.url", transfer.remote.url)
        branch = git.fetch_tip(options)
        shutil.rmtree(folder, ignore_errors=True)  # not a clone, but in our folder
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return _Git(folder, transfer).describe(branch, is_new=True)


def _update(folder: Path, options: CloneOptions, transfer: Transfer) -> Clone:
    url = transfer.remote.url
    if not _is_of(transfer.remote, folder):
        raise Conflict(
            f"The folder for {url} holds the clone of another repository",
            hint="This file system ignores case. Clone the repository yourself, and index that"
            " directory.",
            details={"field": "path", "value": url, "folder": str(folder)},
        )
    for lock in (*folder.glob("*.lock"), *(folder / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)  # of a git that was killed, as we hold the lock
    git = _Git(folder, transfer)
    branch = git.fetch_tip(options)
    # Git removes unused objects if it is due; in the foreground, while the lock is held.
    with suppress(GitFailed):
        git.run(
            *("-c", "gc.auto=2000", "-c", "gc.autoDetach=false", "-c", "gc.pruneExpire=now"),
            *("gc", "--auto", "--quiet"),
        )
    return git.describe(branch, is_new=False)


@dataclass(frozen=True, slots=True)
class _RemoteRef:
    """A branch or tag of the remote; ``ref`` is ``HEAD`` if that is not a branch."""

    ref: str
    commit: str


def _local_ref(ref: str) -> str:
    """The ref of the clone for a ref of the remote."""
    return ref if ref.startswith(_NAMED) else "refs/remotes/origin/HEAD"


class _Git:
    """Runs git in the folder of a clone."""

    def __init__(self, folder: Path, transfer: Transfer) -> None:
        self._remote = transfer.remote
        self._folder = folder
        self._transfer = transfer

    def run(self, *arguments: str, over_network: bool = False) -> str:
        return self._transfer.run(self._folder, *arguments, over_network=over_network)

    def fetch_tip(self, options: CloneOptions) -> str | None:
        """Fetch what the options name, or else the stored options, and point HEAD to it.

        Returns the branch, or None if it is a tag or commit.
        """
        stored = self._stored_options()
        tip = self._find_tip(stored.get(_BRANCH) if options.branch is None else options.branch)
        before = stored.get(_DEPTH, str(DEPTH))
        depth = _FULL if options.full else str(options.depth) if options.depth else before
        is_current = depth == before != _FULL and self._commit(_local_ref(tip.ref)) == tip.commit
        if not is_current:
            self._fetch(tip, depth)
        branch = self._move_head(tip, depth)
        kept = {_BRANCH: options.branch, _NAME: options.name, _TOKEN: options.token, _DEPTH: depth}
        for name, value in kept.items():
            if value is not None:
                self.run("config", name, value)
        return branch

    def _find_tip(self, branch: str | None) -> _RemoteRef:
        """Ask the remote for its default branch, or the branch or tag of that name."""
        refs = ("HEAD",) if branch is None else tuple(f"{kind}{branch}" for kind in _NAMED)
        url = self._remote.url
        command = ("ls-remote", "--symref", "--", url, *refs)
        answer = self.run(*command, over_network=True)
        commits = {}
        for line in answer.splitlines():
            value, _, ref = line.partition("\t")
            if not value.startswith("ref: "):
                commits[ref] = value
            elif ref == "HEAD" and branch is None:
                refs = (value.removeprefix("ref: "),)
        for ref in refs:
            if commit := commits.get(ref if branch is not None else "HEAD"):
                return _RemoteRef(ref, commit)
        if branch is not None:
            raise _no_branch(branch, self._remote)
        raise EmptyRepository.of(
            "path",
            url,
            f"{url} has no commit on its default branch",
            rule="a repository with a commit",
            hint="Choose a branch with a commit: --branch NAME.",
        )

    def _fetch(self, tip: _RemoteRef, depth: str) -> None:
        """Fetch a ref up to a depth, or the whole history with all branches and tags."""
        limits = ["--depth", depth]
        refs = [f"+{tip.ref}:{_local_ref(tip.ref)}"]
        if depth == _FULL:
            limits = ["--unshallow"] if self._is_shallow else []
            refs += [f"+{kind}*:{kind}*" for kind in _NAMED]
        self.run(
            *("fetch", "--progress", "--force", "--prune", "--no-tags", "--no-recurse-submodules"),
            *("--no-write-fetch-head", *limits, "--", "origin", *refs),
            over_network=True,
        )

    def _move_head(self, tip: _RemoteRef, depth: str) -> str | None:
        """Point HEAD to the fetched ref, and delete refs that are no longer fetched.

        Returns the branch, or None if the ref is a tag or commit.
        """
        local_ref = _local_ref(tip.ref)
        is_branch = tip.ref.startswith(_BRANCHES)
        if is_branch:
            self.run("symbolic-ref", "HEAD", local_ref)
        else:
            self.run("update-ref", "--no-deref", "HEAD", self._commit(local_ref))
        for ref in self.run("for-each-ref", "--format=%(refname)").split("\n")[:-1]:
            if ref != local_ref and not (depth == _FULL and ref.startswith(_NAMED)):
                with suppress(GitFailed):  # the name is not UTF-8
                    self.run("update-ref", "--no-deref", "-d", ref)
        return tip.ref.removeprefix(_BRANCHES) if is_branch else None

    def _commit(self, ref: str) -> str:
        """The commit of a ref, or an empty text."""
        try:
            return self.run("rev-parse", "--quiet", "--verify", f"{ref}^{{commit}}").strip()
        except GitFailed:
            return ""

    def describe(self, branch: str | None, *, is_new: bool) -> Clone:
        name = self._stored_options().get(_NAME, self._remote.name)
        commit = self._commit("HEAD")
        return Clone(self._folder, name, branch, commit, is_new, self._is_shallow)

    @property
    def _is_shallow(self) -> bool:
        return (self._folder / "shallow").exists()

    def _stored_options(self) -> dict[str, str]:
        try:
            answer = self.run("config", "--local", "-z", "--get-regexp", r"^codebase-mcp\.")
        except GitFailed:
            return {}
        return dict(entry.split("\n", 1) for entry in answer.split("\0") if "\n" in entry)


def _is_clone(folder: Path) -> bool:
    return (folder / "HEAD").is_file()


def origin_of(folder: Path) -> tuple[Remote, str | None] | None:
    """The remote of a clone, without credentials, and the kind of token that may read it.

    None if this is no clone of ours. Read without git.
    """
    try:
        text = (folder / "config").read_text()
        url = re.search(r"^\s*url = (\S+)$", text, re.MULTILINE)
        token = re.search(r"^\s*token = (\w+)$", text, re.MULTILINE)
        return (parse_remote(url[1]), token and token[1]) if url else None
    except (OSError, UnicodeDecodeError, InvalidInput):
        return None


def _is_of(remote: Remote, folder: Path) -> bool:
    origin = origin_of(folder)
    return origin is not None and origin[0].identity == remote.identity


def _partial_path(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.part")


@contextmanager
def _locked(remote: Remote, clones: Path, transfer: Transfer) -> Iterator[None]:
    """Lock a clone against changes by further processes."""
    locks = clones / ".locks"
    locks.mkdir(exist_ok=True)
    name = hashlib.sha256(str(remote.folder).casefold().encode()).hexdigest()[:24]
    handle = os.open(locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                transfer.wait(_POLL_S)
        yield
    finally:
        os.close(handle)


def _no_branch(branch: str, remote: Remote) -> InvalidInput:
    return InvalidInput.of(
        "branch",
        branch,
        f"{remote.url} has no branch or tag {branch!r}",
        rule="a branch or tag of the repository",
        hint=f"`git ls-remote --heads --tags {remote.url}` lists them.",
    )
