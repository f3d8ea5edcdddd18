"""Reads the commit history of a directory, and which commit last changed some lines.

The commits reachable from HEAD and from some branches, newest first: author, time, message, and the
paths with the lines added and removed. For a subdirectory only the commits that touch it are
listed, and paths are relative to it. Listing hashes is cheap, so only commits that are not stored
yet are read. Messages and paths are untrusted input.

Only commits are blamed for lines, never the work tree, as git would run the filters of a repository
on its files: lines are first looked up in the committed text. Configuration can neither make git
run a program for this nor hide commits from it.

Functions raise ``IndexingFailed`` if git fails, except ``blame``.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from pathlib import Path

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.secrets.masking import is_masked, mask
from codebase_mcp.source.git import (
    FSCK_HINT,
    GitTimeout,
    commit_at_head,
    read_git,
    shallow_commits,
    stream_git,
)
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_refs import branch_commits
from codebase_mcp.source.listing_builder import escape_path
from codebase_mcp.source.read import decode
from codebase_mcp.values import grouped

# Limits per commit. A commit with thousands of paths says little about a single file.
MAX_PATHS = 500
MAX_MESSAGE_CHARS = 20_000
MAX_AUTHOR_CHARS = 500

# Branches whose history is read too; each takes a call of git whenever any of them has moved.
MAX_BRANCHES = 50

# An index of PostgreSQL holds keys of up to about 2,700 bytes; escaping as `\xNN` may make a path
# four times as long.
_MAX_PATH_BYTES = 2_000
# Longer fields of git's output are truncated.
_MAX_FIELD_BYTES = 1 << 17

_FIELDS = 6
_FORMAT = "%x00%H%x00%P%x00%an%x00%ae%x00%at%x00%B"
_LINES = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.*)", re.DOTALL)
# The changes of a merge are those against its first parent. Git recognises renamed files that were
# not edited among any number of files, edited files only among a hundred.
_DIFFERENCES = ("-r", "-z", "--root", "--always", "--relative", "--diff-merges=first-parent")
_WITH_LINES = ("--numstat", "--find-renames", "-l100")
_PATHS_ALONE = ("--name-only", "--no-renames")
_MAX_LINES = 2**31 - 1  # of PostgreSQL's integer
_YEAR_9999 = 253_370_764_800

# For all lines together. A file of an old and large repository can take git many seconds.
BLAME_LIMIT_S = 3.0
_THREADS = 4

_LINE_END = re.compile(r"\r\n|\n|\r")

# A larger text is not searched for lines that have moved.
_MAX_BLAMED_BYTES = 4 << 20

_BLAME_OPTIONS = ("--porcelain", "--encoding=UTF-8", "--no-textconv", "--ignore-revs-file=")


@dataclass(frozen=True, slots=True)
class Tip:
    """The commit that is checked out at a directory, and the commits at which a shallow clone ends.

    ``branches`` are names and commits of branches whose history is read too.
    """

    repository: GitRepository
    commit: str
    edge: frozenset[str]
    branches: tuple[tuple[str, str], ...] = ()

    @property
    def fingerprint(self) -> str:
        """A text that changes when the readable history changes."""
        parts = ["".join(sorted(self.edge)), *map(" ".join, self.branches)]
        if not any(parts):
            return self.commit
        digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=16)
        return f"{self.commit} {digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path that a commit touched, with the lines added and removed; None where unknown.

    Binary files have no lines. ``former`` is the path that a renamed file had before.
    """

    path: str
    added: int | None = None
    removed: int | None = None
    former: str | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit; ``authored_at`` in seconds since 1970.

    ``changes`` are the first changed paths, both paths of a rename included; those of a merge are
    against its first parent. ``paths_total`` counts all of them: None at the end of a shallow
    clone. ``added`` and ``removed`` are the lines of all of them, None where contents are missing.
    """

    hash: str
    author_name: str
    author_email: str
    authored_at: int
    message: str
    changes: tuple[PathChange, ...]
    paths_total: int | None
    added: int | None
    removed: int | None
    is_merge: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the changes."""
        return tuple(change.path for change in self.changes)


def find_tip(root: Path, names: Sequence[str] = ()) -> Tip | None:
    """The commit that is checked out at a directory; None if there is none.

    The first ``MAX_BRANCHES`` of the ``names`` that are branches belong to it.
    """
    repository = git_repository_at(root)
    commit = commit_at_head(repository) if repository is not None else None
    if repository is None or commit is None:
        return None
    branches = list(branch_commits(repository, names).items())[:MAX_BRANCHES]
    return Tip(repository, commit, shallow_commits(repository), tuple(sorted(branches)))


def list_commits(tip: Tip, depth: int) -> list[str]:
    """The hashes of the newest ``depth`` commits of HEAD and the branches, newest first.

    For a subdirectory of the work tree only the commits that changed it. Merges and the ends of a
    shallow clone are left out, as their changes are unknown. If git takes too long, the list ends
    early.
    """
    return _listed(tip, depth, tip.commit, *(commit for _, commit in tip.branches))


def branches_by_commit(tip: Tip, depth: int) -> dict[str, list[str]]:
    """The branches that reach each commit unreachable from HEAD; of each the newest ``depth``."""
    return grouped(
        (reached, name)
        for name, commit in tip.branches
        for reached in _listed(tip, depth, commit, f"^{tip.commit}")
    )


def _listed(tip: Tip, depth: int, *revisions: str) -> list[str]:
    """The newest commits that some revisions reach, as ``list_commits`` lists them."""
    if depth <= 0:
        return []
    command = ["rev-list", f"--max-count={depth}"]
    if not tip.repository.prefix:
        return read_git(tip.repository, *command, *revisions, "--").decode().split()
    # --full-history: with git's default simplification a merge that takes the version of a parent
    # would hide the commits behind the remaining parents, even those that are stored already.
    command += ["--full-history", "--no-merges", *revisions, "--", "."]
    output = bytearray()
    try:
        for piece in stream_git(tip.repository, *command):
            output += piece
    except GitTimeout:
        del output[output.rfind(b"\n") + 1 :]
    return [commit for commit in output.decode().split() if commit not in tip.edge]


def read_commits(tip: Tip, hashes: Sequence[str]) -> list[Commit]:
    """Some commits, in the same order; without lines where the contents are not all there."""
    try:
        return _read(tip, hashes, has_lines=True)
    except IndexingFailed:  # a partial clone, or contents that take git too long
        return _read(tip, hashes, has_lines=False)


def _read(tip: Tip, hashes: Sequence[str], *, has_lines: bool) -> list[Commit]:
    pieces = stream_git(
        tip.repository,
        *("diff-tree", "--stdin", *_DIFFERENCES, *(_WITH_LINES if has_lines else _PATHS_ALONE)),
        *("--no-ext-diff", "--no-textconv", "--ignore-submodules=none"),
        *("--encoding=UTF-8", f"--format={_FORMAT}"),
        lines=hashes,
    )
    commits = list(_parsed(_fields(pieces), tip.edge, has_lines=has_lines))
    if [commit.hash for commit in commits] != list(hashes):
        raise IndexingFailed("git returned other commits than requested", hint=FSCK_HINT)
    return commits


def _fields(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The NUL-separated fields of a stream; very long fields are truncated."""
    rest = bytearray()
    for piece in pieces:
        first, *fields = piece.split(b"\0")
        rest += first[: _MAX_FIELD_BYTES - len(rest)]
        for field in fields:
            yield bytes(rest)
            rest = bytearray(field[:_MAX_FIELD_BYTES])


def _parsed(fields: Iterator[bytes], edge: frozenset[str], *, has_lines: bool) -> Iterator[Commit]:
    """Parse commits, each preceded by an empty field; a path is never empty."""
    next(fields, None)
    while header := list(islice(fields, _FIELDS)):
        if len(header) < _FIELDS:
            raise IndexingFailed("git's output about the history is incomplete", hint=FSCK_HINT)
        commit, parents, name, email, at, message = header
        changes: list[PathChange] = []
        total, added, removed = 0, 0, 0
        for change, is_short in _changes(takewhile(bool, fields), has_lines=has_lines):
            total += 1
            added += change.added or 0
            removed += change.removed or 0
            if is_short and len(changes) < MAX_PATHS:
                changes.append(change)
        is_edge = commit.decode() in edge
        is_counted = has_lines and not is_edge
        yield Commit(
            hash=commit.decode(),
            author_name=mask(escape_path(name)[:MAX_AUTHOR_CHARS]).text,
            author_email=escape_path(email)[:MAX_AUTHOR_CHARS],
            authored_at=min(int(at[:20]), _YEAR_9999) if at.isdigit() else 0,
            message=mask(escape_path(message).strip("\n")[:MAX_MESSAGE_CHARS]).text,
            changes=() if is_edge else tuple(sorted(changes, key=lambda change: change.path)),
            paths_total=None if is_edge else total,
            added=min(added, _MAX_LINES) if is_counted else None,
            removed=min(removed, _MAX_LINES) if is_counted else None,
            is_merge=b" " in parents,
        )


def _changes(fields: Iterator[bytes], *, has_lines: bool) -> Iterator[tuple[PathChange, bool]]:
    """The changes of a commit, each with whether its paths are short enough to be stored.

    A field is a path, or git's ``added TAB removed TAB path``; a rename has its two paths in the
    next fields.
    """
    for number, field in enumerate(fields):
        if not has_lines:
            yield _change(field if number else field.removeprefix(b"\n"), b"-", b"-")
            continue
        parts = _LINES.fullmatch(field)
        if parts is None:
            raise IndexingFailed("git's output about the history is unknown", hint=FSCK_HINT)
        added, removed, path = parts.groups()
        if path:
            yield _change(path, added, removed)
            continue
        former, path = next(fields, b""), next(fields, b"")
        yield _change(former, b"0", b"0")
        yield _change(path, added, removed, former)


def _change(
    path: bytes, added: bytes, removed: bytes, former: bytes | None = None
) -> tuple[PathChange, bool]:
    is_short = max(len(path), len(former or b"")) <= _MAX_PATH_BYTES
    change = PathChange(
        escape_path(path), _count(added), _count(removed), escape_path(former) if former else None
    )
    return change, is_short


def _count(number: bytes) -> int | None:
    return None if number == b"-" else min(int(number), _MAX_LINES)


@dataclass(frozen=True, slots=True)
class Lines:
    """Adjacent lines of a file, without line ends; the first has the number ``first``."""

    path: str
    first: int
    text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blamed:
    """The commit that last changed some lines; ``commit`` is None if they are not committed."""

    commit: str | None
    author: str = ""
    authored_at: int = 0
    subject: str = ""


UNCOMMITTED = Blamed(None)


def lines_of(content: str) -> tuple[str, ...]:
    """The lines of a text, without line ends."""
    lines = _LINE_END.split(content)
    return tuple(lines if lines[-1] or len(lines) == 1 else lines[:-1])


def blame(
    repository: GitRepository,
    passages: Sequence[Lines],
    *,
    revision: str = "HEAD",
    limit_s: float = BLAME_LIMIT_S,
) -> list[Blamed | None]:
    """The commit that last changed each passage; None where git cannot tell it in time.

    A passage whose lines are not adjacent in the revision is uncommitted.
    """
    if not passages:
        return []
    end = time.monotonic() + limit_s
    edge = shallow_commits(repository)
    ask = partial(_blame_lines, repository, revision=revision, edge=edge, end=end)
    with ThreadPoolExecutor(min(_THREADS, len(passages))) as threads:
        return list(threads.map(ask, passages))


def _blame_lines(
    repository: GitRepository, lines: Lines, *, revision: str, edge: frozenset[str], end: float
) -> Blamed | None:
    if "\n" in lines.path:  # a name in cat-file's input ends there
        return None
    try:
        committed = _committed_text(repository, revision, lines.path, end)
        if committed is None:
            return None
        if any(map(is_masked, lines.text)):
            committed = mask(committed).text
        first = _find(lines, _LINE_END.split(committed))
        if first is None:
            return UNCOMMITTED
        arguments = (f"-L{first},{first + len(lines.text) - 1}", revision, "--", lines.path)
        left_s = end - time.monotonic()
        output = read_git(repository, "blame", *_BLAME_OPTIONS, *arguments, limit_s=left_s)
        newest = _newest(repository, list(_blamed_commits(output)), end)
    except (IndexingFailed, UnicodeError):
        return None
    return None if newest is None or newest.commit in edge else newest


def _newest(
    repository: GitRepository, commits: Sequence[tuple[int, Blamed]], end: float
) -> Blamed | None:
    """The newest commit; of several made in the same second, as by a rebase, the last."""
    latest = max((at for at, _ in commits), default=0)
    newest = {commit.commit: commit for at, commit in commits if at == latest}
    if len(newest) > 1:
        arguments = ("--independent", *filter(None, newest))
        left_s = end - time.monotonic()
        output = read_git(repository, "merge-base", *arguments, limit_s=left_s)
        return newest[output.decode("ascii", "replace").split()[0]]
    return next(iter(newest.values()), None)


def _committed_text(repository: GitRepository, revision: str, path: str, end: float) -> str | None:
    """The text of a file in a revision; empty if it does not exist, None if it is too large."""
    prefix = repository.prefix.decode("utf-8", "surrogateescape")
    name = f"{revision}:{prefix}{path}"
    output = bytearray()
    left_s = end - time.monotonic()
    for piece in stream_git(repository, "cat-file", "--batch", lines=[name], limit_s=left_s):
        output += piece
        if len(output) > _MAX_BLAMED_BYTES:
            return None
    header, _, content = bytes(output).partition(b"\n")
    return "" if header.endswith(b" missing") else decode(content.removesuffix(b"\n")).text


def _find(lines: Lines, committed: Sequence[str]) -> int | None:
    """The number of the line nearest to ``lines.first`` at which the same lines begin in a text."""
    text = list(lines.text)
    starts = [
        start + 1
        for start, line in enumerate(committed)
        if line == text[0] and committed[start : start + len(text)] == text
    ]
    return min(starts, key=lambda start: abs(start - lines.first), default=None)


def _blamed_commits(output: bytes) -> Iterator[tuple[int, Blamed]]:
    """The commits in git's porcelain format, each with the time at which it was made."""
    # A group of lines describes each line of the file, which ends the group. The first line of a
    # group names the commit; the first group of a commit also has its author, times and subject.
    group: list[bytes] = []
    for line in output.split(b"\n"):
        if not line.startswith(b"\t"):
            group.append(line)
            continue
        facts = dict(fact.partition(b" ")[::2] for fact in group[1:])
        if b"summary" in facts:
            commit = group[0].partition(b" ")[0].decode("ascii", "replace")
            yield int(facts.get(b"committer-time", b"0")), _blamed(commit, facts)
        group = []


def _blamed(commit: str, facts: dict[bytes, bytes]) -> Blamed:
    return Blamed(
        commit,
        mask(escape_path(facts.get(b"author", b""))).text,
        min(int(facts.get(b"author-time", b"0")), _YEAR_9999),
        mask(escape_path(facts[b"summary"])).text,
    )
