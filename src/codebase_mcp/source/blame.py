"""Which commit last changed these lines?

Asked of a commit and never of the work tree, as git runs the filters of a repository on its files:
lines are looked up in the committed text first. Configuration can neither make git run a program
for this nor hide commits from it.
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
from codebase_mcp.source.git import shallow_commits, stream_git
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.listing_builder import escape_path

# For all places together. A file of an old and large repository can take git many seconds.
TIME_LIMIT_S = 3.0
_THREADS = 4

_LINE_END = re.compile(r"\r\n|\n|\r")

# A larger text is not searched for lines that have moved.
_MAX_BYTES = 4 << 20

_YEAR_9999 = 253_370_764_800


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file, without line ends, as they stand in it from ``first`` on."""

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
    places: Sequence[Lines],
    *,
    revision: str = "HEAD",
    limit_s: float = TIME_LIMIT_S,
) -> list[Blamed | None]:
    """The commit that last changed each of some places; None where git cannot tell it in time.

    Lines that the revision does not have in one piece are uncommitted.
    """
    if not places:
        return []
    end = time.monotonic() + limit_s
    edge = shallow_commits(repository)
    ask = partial(_blame_place, repository, revision=revision, edge=edge, end=end)
    with ThreadPoolExecutor(min(_THREADS, len(places))) as threads:
        return list(threads.map(ask, places))


def _blame_place(
    repository: GitRepository, place: Lines, *, revision: str, edge: frozenset[str], end: float
) -> Blamed | None:
    if "\n" in place.path:  # a name in cat-file's input ends there
        return None
    arguments = ("--porcelain", "--encoding=UTF-8", "--no-textconv", "--ignore-revs-file=")
    try:
        committed = _committed_text(repository, revision, place.path, end)
        if committed is None:
            return None
        if any(map(is_masked, place.text)):
            committed = mask(committed).text
        first = _find(place, _LINE_END.split(committed))
        if first is None:
            return UNCOMMITTED
        lines = f"-L{first},{first + len(place.text) - 1}"
        where = (lines, revision, "--", place.path)
        output = b"".join(
            stream_git(repository, "blame", *arguments, *where, limit_s=end - time.monotonic())
        )
        newest = _newest(repository, list(_commits(output)), end)
    except (IndexingFailed, UnicodeError):
        return None
    return None if newest is None or newest.commit in edge else newest


def _newest(
    repository: GitRepository, commits: Sequence[tuple[int, Blamed]], end: float
) -> Blamed | None:
    """The newest of some commits; of those made in the same second, as by a rebase, the last."""
    latest = max((at for at, _ in commits), default=0)
    newest = {one.commit: one for at, one in commits if at == latest}
    if len(newest) > 1:
        hashes = filter(None, newest)
        pieces = stream_git(
            repository, "merge-base", "--independent", *hashes, limit_s=end - time.monotonic()
        )
        last = b"".join(pieces).decode("ascii", "replace").split()[0]
        return newest[last]
    return next(iter(newest.values()), None)


def _committed_text(repository: GitRepository, revision: str, path: str, end: float) -> str | None:
    """The text of a file in a revision; empty if it has none there, None if it is too large."""
    prefix = repository.prefix.decode("utf-8", "surrogateescape")
    name = f"{revision}:{prefix}{path}\n".encode("utf-8", "surrogateescape")
    output = bytearray()
    pieces = stream_git(
        repository, "cat-file", "--batch", stdin=name, limit_s=end - time.monotonic()
    )
    for piece in pieces:
        output += piece
        if len(output) > _MAX_BYTES:
            return None
    header, _, content = bytes(output).partition(b"\n")
    return "" if header.endswith(b" missing") else decode(content.removesuffix(b"\n")).text


def _find(place: Lines, committed: Sequence[str]) -> int | None:
    """The number of the line at which some lines begin in a text, the nearest to where they are."""
    wanted, count = list(place.text), len(place.text)
    starts = [
        start
        for start, line in enumerate(committed)
        if line == wanted[0] and committed[start : start + count] == wanted
    ]
    return min((start + 1 for start in starts), key=lambda n: abs(n - place.first), default=None)


def _commits(output: bytes) -> Iterator[tuple[int, Blamed]]:
    """The commits in git's porcelain format, each with the time at which it was made."""
    # A group of lines for each line of the file, which ends it. The first one names the commit; the
    # others, on its first occurrence, say more about it.
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
