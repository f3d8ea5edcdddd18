"""Reads the commit history of a directory.

The commits reachable from HEAD, newest first: author, time, message and paths. For a subdirectory
only the commits that touch it are listed, and paths are relative to it. Listing hashes is cheap, so
only commits that are not stored yet are read. Messages and paths are untrusted input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import (
    GitTimeout,
    commit_at_head,
    shallow_commits,
    stream_git,
)
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.listing_builder import escape_path

# Limits for one commit. A commit with thousands of paths says little about a single file.
MAX_PATHS = 500
MAX_MESSAGE_CHARS = 20_000
MAX_AUTHOR_CHARS = 500

# An index of PostgreSQL holds keys of up to some 2,700 bytes, which `\xNN` may stretch fourfold.
_MAX_PATH_BYTES = 2_000
# Longer fields of git's output are truncated.
_MAX_FIELD_BYTES = 1 << 17

_FIELDS = 5
_FORMAT = "%x00%H%x00%an%x00%ae%x00%at%x00%B"
_HINT = "Run git fsck to check the repository."
_YEAR_9999 = 253_370_764_800


@dataclass(frozen=True, slots=True)
class Tip:
    """The newest commit of a directory, and the commits at which a shallow clone ends."""

    repository: GitRepository
    commit: str
    edge: frozenset[str]

    @property
    def fingerprint(self) -> str:
        """A text that changes when the readable history changes."""
        if not self.edge:
            return self.commit
        edge = hashlib.blake2b("".join(sorted(self.edge)).encode(), digest_size=16)
        return f"{self.commit} {edge.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; ``authored_at`` in seconds since 1970.

    ``paths`` are the first paths that it touched; ``paths_total`` counts all of them: 0 for a
    merge, None at the end of a shallow clone.
    """

    hash: str
    author_name: str
    author_email: str
    authored_at: int
    message: str
    paths: tuple[str, ...]
    paths_total: int | None


def find_tip(root: Path) -> Tip | None:
    """The commit that is checked out at a directory; None if there is none."""
    repository = git_repository_at(root)
    commit = commit_at_head(repository) if repository is not None else None
    if repository is None or commit is None:
        return None
    return Tip(repository, commit, shallow_commits(repository))


def list_commits(tip: Tip, depth: int) -> list[str]:
    """The hashes of the newest ``depth`` commits, newest first.

    For a subdirectory of the work tree only the commits that changed it. Merges and the ends of a
    shallow clone are left out, as their changes are unknown. If git takes too long, the list holds
    what was found until then.

    Raises:
        IndexingFailed: git cannot read them.
    """
    if depth <= 0:
        return []
    if not tip.repository.prefix:
        pieces = _asked(tip, "rev-list", f"--max-count={depth}", tip.commit, "--")
        return b"".join(pieces).decode().split()
    # --full-history: with git's default simplification a merge that takes one side's version would
    # hide the other side's commits, even those that are stored already.
    places = ("--full-history", "--no-merges", tip.commit, "--", ".")
    found = bytearray()
    try:
        for piece in _asked(tip, "rev-list", f"--max-count={depth}", *places):
            found += piece
    except GitTimeout:
        del found[found.rfind(b"\n") + 1 :]
    return [commit for commit in found.decode().split() if commit not in tip.edge]


def read_commits(tip: Tip, hashes: Sequence[str]) -> list[Commit]:
    """Some commits, in the same order.

    Raises:
        IndexingFailed: git cannot read one of them.
    """
    pieces = _asked(
        tip,
        *("diff-tree", "--stdin", "--always", "--root", "-r", "-z", "--name-only", "--relative"),
        *("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"),
        *("--encoding=UTF-8", f"--format={_FORMAT}"),
        stdin="".join(f"{commit}\n" for commit in hashes).encode(),
    )
    commits = list(_parsed(_fields(pieces), tip.edge))
    if [commit.hash for commit in commits] != list(hashes):
        raise IndexingFailed("git returned other commits than requested", hint=_HINT)
    return commits


def _asked(tip: Tip, *arguments: str, stdin: bytes = b"") -> Iterator[bytes]:
    return stream_git(tip.repository, *arguments, stdin=stdin)


def _fields(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The NUL-separated fields of a stream; very long ones are truncated."""
    rest = bytearray()
    for piece in pieces:
        first, *others = piece.split(b"\0")
        rest += first[: _MAX_FIELD_BYTES - len(rest)]
        for other in others:
            yield bytes(rest)
            rest = bytearray(other[:_MAX_FIELD_BYTES])


def _parsed(fields: Iterator[bytes], edge: frozenset[str]) -> Iterator[Commit]:
    """Parse commits, each preceded by an empty field, which no path can be."""
    next(fields, None)
    while header := list(islice(fields, _FIELDS)):
        if len(header) < _FIELDS:
            raise IndexingFailed("git's output about the history is incomplete", hint=_HINT)
        commit, name, email, at, message = header
        paths: list[str] = []
        total = 0
        for path in iter(lambda: next(fields, b""), b""):
            total += 1
            named = path.removeprefix(b"\n") if total == 1 else path
            if len(paths) < MAX_PATHS and len(named) <= _MAX_PATH_BYTES:
                paths.append(escape_path(named))
        is_edge = commit.decode() in edge
        yield Commit(
            hash=commit.decode(),
            author_name=escape_path(name)[:MAX_AUTHOR_CHARS],
            author_email=escape_path(email)[:MAX_AUTHOR_CHARS],
            authored_at=min(int(at[:20]), _YEAR_9999) if at.isdigit() else 0,
            message=escape_path(message).strip("\n")[:MAX_MESSAGE_CHARS],
            paths=() if is_edge else tuple(paths),
            paths_total=None if is_edge else total,
        )
