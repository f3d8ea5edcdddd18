"""Which lines of a definition are worth showing? Pure: lines and a budget in, places out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from codebase_mcp.search.definitions import description_lines

# The number of lines shown before and after a matching line.
AROUND = 2

# A signature that goes on is shown up to here.
_SIGNATURE_LINES = 4
_SIGNATURE_ENDS = (":", "{", "=", "=>", "(", "do", "then", ";")

# Leaving out fewer lines than this saves nothing: the mark takes one.
_LEAST_GAP = 2

# A longer line is cut: minified code has lines of megabytes.
MAX_LINE_CHARS = 160


def excerpt(
    lines: Sequence[str], matching: Sequence[int], *, most_lines: int, most_chars: int
) -> list[int]:
    """The places (0-based, ascending) of the lines to show.

    All, if they fit; else the signature and the lines that match best (``matching``, best first),
    each with what is around it, as far as lines and characters last; at least the best one alone.
    """
    end = max((place for place, line in enumerate(lines) if line.strip()), default=-1) + 1
    costs = [min(len(line.rstrip()), MAX_LINE_CHARS) + 6 for line in lines[:end]]
    if end <= most_lines and sum(costs) <= most_chars:
        return list(range(end))
    head = set(_signature(lines, end))
    shown = head
    for place in matching or range(end):
        narrower = range(AROUND - 1, -1, -1) if shown == head else ()
        for around in (AROUND, *narrower):
            window = range(max(place - around, 0), min(place + around + 1, end))
            more = _closed(shown | set(window))
            if len(more) <= most_lines and sum(costs[place] for place in more) <= most_chars:
                shown = more
                break
        else:
            break
    return sorted(shown)


def widened(places: Sequence[int], around: int, count: int) -> list[int]:
    """The places with so many before and after each, of ``count`` in all."""
    near = {near for place in places for near in range(place - around, place + around + 1)}
    return sorted(_closed(near & set(range(count))))


def _closed(places: set[int]) -> set[int]:
    """With the gaps that are too small to be left out."""
    found = set(places)
    ordered = sorted(places)
    for first, second in itertools.pairwise(ordered):
        if 1 < second - first <= _LEAST_GAP:
            found.update(range(first + 1, second))
    return found


def _signature(lines: Sequence[str], end: int) -> range:
    """The places of the head of a definition, below what describes it."""
    first = description_lines(lines)
    for place in range(first, min(first + _SIGNATURE_LINES, end)):
        if lines[place].rstrip().endswith(_SIGNATURE_ENDS):
            return range(first, place + 1)
    return range(first, min(first + 1, end))
