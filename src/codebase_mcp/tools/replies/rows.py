"""Which lines of a reply fit its budget, and where is what they leave out?"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from codebase_mcp.tools.text import INDENT, by_file, size_of

_MOST_FILES = 3
_MOST_FOLDERS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a reply; the row that it stands below is the last one with a lower level.

    The rows with the lowest ``rank`` are shown. A row without a rank is a heading, shown with the
    first row below it. ``count`` entries of the file at ``path`` are in the row; where it is not
    shown they are counted by ``group``.
    """

    level: int
    text: str
    rank: tuple[float, ...] | None = None
    path: str = ""
    group: str = "more"
    count: int = 1

    def __str__(self) -> str:
        return INDENT * max(self.level, 0) + self.text


def fitted(rows: Sequence[Row], room: int, limit: int) -> list[str]:
    """The best rows in their order, ``limit`` at most, then the number of further entries.

    All of that has at most ``room`` characters, if these are enough for the numbers.
    """
    ranked = [number for number, row in enumerate(rows) if row.rank is not None]
    ranked.sort(key=lambda number: rows[number].rank or ())
    space = room
    while True:
        shown = _chosen(rows, ranked[:limit], space)
        lines = [str(row) for number, row in enumerate(rows) if number in shown]
        rest = [rows[number] for number in ranked if number not in shown]
        lines += _counts(rest)
        excess = size_of(lines) - room
        if excess <= 0 or not shown:
            return lines
        space -= excess


def shared_lines(costs: Sequence[Sequence[int]], room: int) -> list[int]:
    """How many lines of each text fit: all share the room, and use what a short text leaves.

    ``costs`` are the sizes of the lines of each text.
    """
    counts = [0] * len(costs)
    for done, number in enumerate(sorted(range(len(costs)), key=lambda n: sum(costs[n]))):
        ends = [*accumulate(costs[number])]
        counts[number] = bisect_right(ends, room // (len(costs) - done))
        room -= ends[counts[number] - 1] if counts[number] else 0
    return counts


def _chosen(rows: Sequence[Row], ranked: Sequence[int], space: int) -> set[int]:
    """The first ranked rows that have space, with the headings above them."""
    above = _parents(rows)
    shown: set[int] = set()
    for number in ranked:
        needed = []
        at: int | None = number
        while at is not None and at not in shown:
            needed.append(at)
            at = above[at]
        space -= size_of(str(rows[at]) for at in needed)
        if space < 0:
            break
        shown.update(needed)
    return shown


def _parents(rows: Sequence[Row]) -> list[int | None]:
    """For each row the number of the row that it stands below."""
    parents: list[int | None] = []
    open_rows: list[int] = []
    for number, row in enumerate(rows):
        while open_rows and rows[open_rows[-1]].level >= row.level:
            open_rows.pop()
        parents.append(open_rows[-1] if open_rows else None)
        open_rows.append(number)
    return parents


def _counts(rows: Sequence[Row]) -> Iterator[str]:
    """How many entries some rows have, by group, and there by file or folder."""
    groups: dict[str, defaultdict[str, int]] = {}
    for row in rows:
        if row.count:
            groups.setdefault(row.group, defaultdict(int))[row.path] += row.count
    for group, counts in groups.items():
        yield f"{group}: {by_file(counts.items(), _MOST_FILES, _MOST_FOLDERS)}"
