"""Which lines of a definition does a text reply show, and in what form?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from codebase_mcp.printable import printable
from codebase_mcp.search.definitions import description_lines

# The number of lines shown before and after a matching line.
AROUND = 2

# The most lines of a signature that are shown.
_SIGNATURE_LINES = 4
_SIGNATURE_ENDS = (":", "{", "=", "=>", "(", "do", "then", ";")

# Leaving out fewer lines than this saves nothing: the mark takes a line.
_LEAST_GAP = 2

# A longer line is cut: minified code has lines of megabytes.
MAX_LINE_CHARS = 160

ShownLine = tuple[int | None, str]
"""A line of code with its number; without a number it says how many lines are left out."""


@dataclass(frozen=True, slots=True)
class Around:
    """How many lines are shown before and after each line, and those outside of the content."""

    count: int = 0
    before: Sequence[str] = ()
    after: Sequence[str] = ()


NOTHING_AROUND = Around()


def numbered(code: Sequence[ShownLine], last_line: int) -> list[str]:
    """Lines of code behind their numbers, which are as wide as that of the last line."""
    width = len(str(max([last_line, *(number or 0 for number, _ in code)])))
    return [
        f"{'…':>{width}}   {text}" if number is None else f"{number:>{width}}  {text}".rstrip()
        for number, text in code
    ]


def shown_lines(
    content: Sequence[str],
    start_line: int,
    matching_lines: Sequence[int],
    *,
    most_lines: int,
    most_chars: int,
    around: Around = NOTHING_AROUND,
) -> tuple[ShownLine, ...]:
    """The lines of a definition from ``start_line`` on that are worth showing.

    ``matching_lines`` are numbers of lines, the best first.
    """
    lines = [*around.before, *content, *around.after]
    start, end = len(around.before), len(around.before) + len(content)
    matching = [line - start_line for line in matching_lines]
    chosen = excerpt(content, matching, most_lines=most_lines, most_chars=most_chars)
    offset = start_line - start
    code: list[ShownLine] = []
    following = start
    for index in widened([start + index for index in chosen], around.count, len(lines)):
        code += _gap(lines, range(following, index), offset)
        code.append(_line(lines, index, offset))
        following = index + 1
    return (*code, *_gap(lines, range(following, end), offset))


def _gap(lines: Sequence[str], left_out: range, offset: int) -> list[ShownLine]:
    """A mark for lines that are left out; a single line is shown instead."""
    if len(left_out) == 1:
        return [_line(lines, left_out[0], offset)]
    if not any(lines[index].strip() for index in left_out):
        return []
    return [(None, f"[{len(left_out)} lines]")]


def _line(lines: Sequence[str], index: int, offset: int) -> tuple[int, str]:
    text = printable(lines[index].rstrip())
    text = text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + "…"
    return offset + index, text


def excerpt(
    lines: Sequence[str], matching: Sequence[int], *, most_lines: int, most_chars: int
) -> list[int]:
    """The indices (0-based, ascending) of the lines to show.

    All lines if they fit; else the signature and the lines that match best (``matching``, best
    first), each with the lines around it, as many as fit; at least the best line alone.
    """
    end = max((index for index, line in enumerate(lines) if line.strip()), default=-1) + 1
    costs = [min(len(line.rstrip()), MAX_LINE_CHARS) + 6 for line in lines[:end]]
    if end <= most_lines and sum(costs) <= most_chars:
        return list(range(end))
    head = set(_signature(lines, end))
    shown = head
    for index in matching or range(end):
        narrower = range(AROUND - 1, -1, -1) if shown == head else ()
        for around in (AROUND, *narrower):
            window = range(max(index - around, 0), min(index + around + 1, end))
            more = _closed(shown | set(window))
            if len(more) <= most_lines and sum(costs[line] for line in more) <= most_chars:
                shown = more
                break
        else:
            break
    return sorted(shown)


def widened(indices: Sequence[int], around: int, count: int) -> list[int]:
    """The indices with ``around`` lines before and after each, of ``count`` lines in all."""
    near = {line for index in indices for line in range(index - around, index + around + 1)}
    return sorted(_closed(near & set(range(count))))


def _closed(indices: set[int]) -> set[int]:
    """The indices, with the gaps that are too small to be left out."""
    closed = set(indices)
    for first, second in itertools.pairwise(sorted(indices)):
        if 1 < second - first <= _LEAST_GAP:
            closed.update(range(first + 1, second))
    return closed


def _signature(lines: Sequence[str], end: int) -> range:
    """The indices of the head of a definition, below the comment that describes it."""
    first = description_lines(lines)
    for index in range(first, min(first + _SIGNATURE_LINES, end)):
        if lines[index].rstrip().endswith(_SIGNATURE_ENDS):
            return range(first, index + 1)
    return range(first, min(first + 1, end))
