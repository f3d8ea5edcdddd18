"""Which commit last changed these lines?

Only commits are blamed, never the work tree, as git would run the filters of a repository on its
files: lines are first looked up in the committed text. Configuration can neither make git run a
program for this nor hide commits from it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from codebase_mcp.errors import IndexingFailed
from codebase_mcp.secrets.masking import is_masked, mask
from codebase_mcp.source.encoding import decode
from codebase_mcp.source.git import read_git, shallow_commits, stream_git
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.listing_builder import escape_path

# For all lines together. A file of an old and large repository can take git many seconds.
TIME_LIMIT_S = 3.0
_THREADS = 4

_LINE_END = re.compile(r"\r\n|\n|\r")

# A larger text is not searched for lines that have moved.
_MAX_BYTES = 4 << 20

_OPTIONS = ("--porcelain", "--encoding=UTF-8", "--no-textconv", "--ignore-revs-file=")

_YEAR_9999 = 253_370_764_800


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
    limit_s: float = TIME_LIMIT_S,
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
        output = read_git(repository, "blame", *_OPTIONS, *arguments, limit_s=left_s)
        newest = _newest(repository, list(_commits(output)), end)
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
    name = f"{revision}:{prefix}{path}\n".encode("utf-8", "surrogateescape")
    output = bytearray()
    left_s = end - time.monotonic()
    for piece in stream_git(repository, "cat-file", "--batch", stdin=name, limit_s=left_s):
        output += piece
        if len(output) > _MAX_BYTES:
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


def _commits(output: bytes) -> Iterator[tuple[int, Blamed]]:
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
