"""Where does a line of text end, and how does text without known syntax fall into pieces?

The one place that decides what a line is: ``\\n``, ``\\r\\n`` and a lone ``\\r`` end one, nothing
else does. ``str.splitlines`` also breaks at form feeds and other characters, so its numbers would
not be those of an editor.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

TARGET_CHARS = 1_000
"""Small neighbours are merged up to this size."""

WHOLE_CHARS = 1_500
"""A definition up to this size stays in one piece: cutting it would cost more than its length."""

LIMIT_CHARS = 2_000
"""No chunk is longer, unless it is one single line."""

SMALL_CHARS = 200
"""A piece below this says too little alone; it is joined to a neighbour."""


def normalise_newlines(text: str) -> str:
    """The same text, its lines in the same order, each ended by ``\\n``."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_lines(text: str) -> list[str]:
    """The lines of a text, their ends kept; joined they are the text again."""
    if "\r" not in text:
        lines = [line + "\n" for line in text.split("\n")]
        last = lines.pop()[:-1]
        return [*lines, last] if last else lines
    lines = []
    for part in text.split("\n"):
        # What follows the last \n has none of its own, which the joined text must not gain.
        lines += [piece + "\r" for piece in part.split("\r")]
        lines[-1] = lines[-1][:-1] + "\n"
    lines[-1] = lines[-1][:-1]
    return _join_crlf(lines)


def _join_crlf(lines: list[str]) -> list[str]:
    joined: list[str] = []
    for line in lines:
        if line == "\n" and joined and joined[-1].endswith("\r"):
            joined[-1] += "\n"
        elif line:
            joined.append(line)
    return joined


class LineTable:
    """The lines of one text, without their ends, and how many characters each run of them has.

    Rows are 0-based here, as in the syntax tree; ``chars`` counts one character for a line's end.
    """

    __slots__ = ("_offsets", "count", "lines")

    def __init__(self, normalised: str) -> None:
        self.lines: Sequence[str] = normalised.split("\n")
        if not self.lines[-1]:
            self.lines.pop()
        self.count = len(self.lines)
        self._offsets = [0, *accumulate(map(len, self.lines))]

    def chars(self, start: int, end: int) -> int:
        """The size of the rows from ``start`` up to, not including, ``end``."""
        return self._offsets[end] - self._offsets[start] + end - start

    def is_blank(self, row: int) -> bool:
        """Does the row hold nothing but white space?"""
        line = self.lines[row]
        return not line or line.isspace()

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """The rows without the blank ones at both ends; empty (start == end) where all are."""
        while start < end and self.is_blank(start):
            start += 1
        while end > start and self.is_blank(end - 1):
            end -= 1
        return start, end


def cut_by_lines(table: LineTable, start: int, end: int) -> list[int]:
    """The first rows of the pieces of a run of rows, each piece about the target size.

    A cut falls after a blank line where one lies in the last two thirds of a piece. A piece is
    longer than the target only if it is one line.
    """
    cuts = [start]
    gap = start
    for row in range(start, end):
        piece = cuts[-1]
        while piece < row and table.chars(piece, row + 1) > TARGET_CHARS:
            piece = gap if gap > piece else row
            cuts.append(piece)
        after_blank = row > piece and table.is_blank(row - 1) and not table.is_blank(row)
        if after_blank and table.chars(piece, row) > TARGET_CHARS // 3:
            gap = row
    return cuts
