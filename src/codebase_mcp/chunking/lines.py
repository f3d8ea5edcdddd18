"""Where does a line end, and how is a text without a grammar cut?

Everywhere in the package ``\\n``, ``\\r\\n`` and a lone ``\\r`` end a line. ``str.splitlines`` also
splits at form feeds, so its line numbers would differ from those of an editor.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from itertools import accumulate

CHUNKER_VERSION = 6
"""Part of an index's profile: raise it whenever the same text gives a different outline."""

TARGET_CHARS = 1_000
"""Small neighbours are merged up to this size."""

WHOLE_CHARS = 1_500
"""A definition up to this size stays whole: cutting it hurts retrieval more than its length."""

LIMIT_CHARS = 2_000
"""The maximum size of a chunk, unless it is a single line."""

SMALL_CHARS = 200
"""A smaller piece says too little alone and is merged with a neighbour."""


def normalise_newlines(text: str) -> str:
    """The same text with every line ended by ``\\n``."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; joined they are the text again."""
    lines = text.splitlines(keepends=True)  # three times as fast
    count = text.count("\n") + (text[-1:] not in ("", "\n"))
    return lines if len(lines) == count and "\r" not in text else list(StringIO(text, newline=""))


class LineTable:
    """The lines of a text without their ends, and the size of each range of lines.

    Rows are 0-based, as in the syntax tree. A line end counts as a character.
    """

    __slots__ = ("_offsets", "count", "lines")

    def __init__(self, normalised: str) -> None:
        self.lines: Sequence[str] = normalised.split("\n")
        if not self.lines[-1]:
            self.lines.pop()
        self.count = len(self.lines)
        self._offsets = [0, *accumulate(map(len, self.lines))]

    def chars(self, start: int, end: int) -> int:
        """The number of characters of the rows from ``start`` up to but not including ``end``."""
        return self._offsets[end] - self._offsets[start] + end - start

    def is_blank(self, row: int) -> bool:
        """Whether the row holds only white space."""
        line = self.lines[row]
        return not line or line.isspace()

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """The range without blank rows at both ends; empty (start == end) if all are blank."""
        while start < end and self.is_blank(start):
            start += 1
        while end > start and self.is_blank(end - 1):
            end -= 1
        return start, end


def cut_by_lines(table: LineTable, start: int, end: int) -> list[int]:
    """The first rows of the pieces of a range of rows, each at most the target size.

    A piece ends after a blank line if there is one in its last two thirds. A single line may be
    longer than the target.
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
