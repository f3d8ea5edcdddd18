"""How did these files come about?

The commits that HEAD reaches, newest first: who, when, why, and which paths. Of a repository's
directory only the commits that touch it count, and paths are relative to it. Which commits are
there is asked first, for that costs little; only those that nobody knows yet are read. A message
and a path may be anything: they are a stranger's, as everything in a repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.source.git import (
    GitTookTooLong,
    commit_at_head,
    git_pieces,
    shallow_commits,
)
from codebase_mcp.source.git_directory import work_tree_of
from codebase_mcp.source.survey import shown

# What is kept of one commit. The import of a whole vendor tree says little about single files.
MAX_PATHS = 500
MAX_MESSAGE_CHARS = 20_000
MAX_AUTHOR_CHARS = 500

# An index of PostgreSQL holds keys of up to some 2,700 bytes, which `\xNN` may stretch fourfold.
_MAX_PATH_BYTES = 2_000
# No field that is kept is longer, whatever git says.
_MAX_FIELD_BYTES = 1 << 17

_FIELDS = 5
_FORMAT = "%x00%H%x00%an%x00%ae%x00%at%x00%B"
_HINT = "git fsck tells what is wrong with the repository."
_YEAR_9999 = 253_370_764_800


@dataclass(frozen=True, slots=True)
class Tip:
    """Where the history of a directory begins, and the commits at which a shallow clone ends it."""

    root: Path
    top: Path
    commit: str
    edge: frozenset[str]

    @property
    def fingerprint(self) -> str:
        """A text that is another one when the history that can be read is another one."""
        if not self.edge:
            return self.commit
        edge = hashlib.blake2b("".join(sorted(self.edge)).encode(), digest_size=16)
        return f"{self.commit} {edge.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; ``authored_at`` in seconds since 1970.

    ``paths`` are the first of those that it touched, ``paths_total`` counts all of them: none for a
    merge, unknown where a shallow clone ends.
    """

    hash: str
    author_name: str
    author_email: str
    authored_at: int
    message: str
    paths: tuple[str, ...]
    paths_total: int | None


def find_tip(root: Path) -> Tip | None:
    """The newest commit of what is checked out at a directory; None where there is none."""
    top = work_tree_of(root)
    commit = commit_at_head(root, top) if top is not None else None
    if top is None or commit is None:
        return None
    return Tip(root, top, commit, shallow_commits(top))


def list_commits(tip: Tip, depth: int) -> list[str]:
    """The hashes of the newest ``depth`` commits, newest first.

    Of a directory below the work tree's top those that changed it: what a merge or the end of a
    shallow clone changed cannot be said, so neither is listed. Where these are hard to find, it is
    those that were found in time.

    Raises:
        IndexingFailed: git cannot read them.
    """
    if depth <= 0:
        return []
    if tip.root == tip.top:
        pieces = _asked(tip, "rev-list", f"--max-count={depth}", tip.commit, "--")
        return b"".join(pieces).decode().split()
    # Whether a commit is listed depends on nothing but itself: with git's own simplification, a
    # merge that takes one side's version would hide the other side's commits, stored ones too.
    places = ("--full-history", "--no-merges", tip.commit, "--", ".")
    found = bytearray()
    try:
        for piece in _asked(tip, "rev-list", f"--max-count={depth}", *places):
            found += piece
    except GitTookTooLong:
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
        said="".join(f"{commit}\n" for commit in hashes).encode(),
    )
    commits = list(_parsed(_fields(pieces), tip.edge))
    if [commit.hash for commit in commits] != list(hashes):
        raise IndexingFailed("git told other commits than it was asked for", hint=_HINT)
    return commits


def _asked(tip: Tip, *arguments: str, said: bytes = b"") -> Iterator[bytes]:
    return git_pieces(tip.root, tip.top, *arguments, said=said)


def _fields(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What stands between the NULs of a stream, the beginning of it where it is very long."""
    rest = bytearray()
    for piece in pieces:
        first, *others = piece.split(b"\0")
        rest += first[: _MAX_FIELD_BYTES - len(rest)]
        for other in others:
            yield bytes(rest)
            rest = bytearray(other[:_MAX_FIELD_BYTES])


def _parsed(fields: Iterator[bytes], edge: frozenset[str]) -> Iterator[Commit]:
    """Commits, each headed by an empty field, which no path is."""
    next(fields, None)
    while header := list(islice(fields, _FIELDS)):
        if len(header) < _FIELDS:
            raise IndexingFailed("git's answer about the history broke off", hint=_HINT)
        commit, name, email, at, message = header
        paths: list[str] = []
        total = 0
        for path in iter(lambda: next(fields, b""), b""):
            total += 1
            named = path.removeprefix(b"\n") if total == 1 else path
            if len(paths) < MAX_PATHS and len(named) <= _MAX_PATH_BYTES:
                paths.append(shown(named))
        is_edge = commit.decode() in edge
        yield Commit(
            hash=commit.decode(),
            author_name=shown(name)[:MAX_AUTHOR_CHARS],
            author_email=shown(email)[:MAX_AUTHOR_CHARS],
            authored_at=min(int(at[:20]), _YEAR_9999) if at.isdigit() else 0,
            message=shown(message).strip("\n")[:MAX_MESSAGE_CHARS],
            paths=() if is_edge else tuple(paths),
            paths_total=None if is_edge else total,
        )
