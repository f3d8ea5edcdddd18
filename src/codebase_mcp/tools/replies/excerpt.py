"""Which lines of a definition are worth showing? Pure: lines and a budget in, indices out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
