"""Where is a text cut into pieces?

A cut is a row with a level: the depth in the tree of the node that starts there. Only nodes too
long for a chunk are visited, so most of the tree is never touched. Small pieces are then merged
from left to right, but never across the end of a node that had to be cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tree_sitter import Node

from codebase_mcp.chunking.lines import (
    LIMIT_CHARS,
    SMALL_CHARS,
    TARGET_CHARS,
    WHOLE_CHARS,
    LineTable,
    cut_by_lines,
)

# Deeper than any node: a cut for the sake of length alone.
_LINE_LEVEL = 1 << 30

Cut = tuple[int, int]
"""A row and the level of the cut before it."""


def plain_pieces(table: LineTable) -> list[tuple[int, int]]:
    """Pieces of a text without syntax, as runs of rows (the second not included)."""
    cuts = [(row, 0) for row in cut_by_lines(table, 0, table.count)]
    return _ranges(table, _join_small(table, cuts))


def syntax_pieces(
    table: LineTable, roots: Iterable[Node], leads: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Pieces of a parsed text, as runs of rows (the second not included).

    ``leads`` maps each row of a comment or attribute, which belongs to the code below it, to the
    first row of its run.
    """
    cuts = _node_cuts(table, roots, leads)
    cuts = _cut_long(table, cuts)
    return _ranges(table, _join_small(table, _merge(table, cuts)))


def _node_cuts(table: LineTable, roots: Iterable[Node], leads: Mapping[int, int]) -> list[Cut]:
    """Cuts before the children of every node that is too long to stay whole."""
    level_at = {0: 0}
    work = [(root, 0) for root in roots]
    while work:
        node, level = work.pop()
        for child in node.named_children:
            first = child.start_point[0]
            last = child.end_point[0]
            if first >= table.count:
                continue
            end = min(last + 1, table.count)
            row = leads.get(first - 1, first)
            if level_at.get(row, _LINE_LEVEL) > level:
                level_at[row] = level
            if row < first and table.chars(row, end) > WHOLE_CHARS:
                level_at.setdefault(first, level + 1)
            if last > first and table.chars(first, end) > WHOLE_CHARS:
                work.append((child, level + 1))
    return sorted(level_at.items())


def _cut_long(table: LineTable, cuts: Sequence[Cut]) -> list[Cut]:
    """The cuts, and more of them by lines inside each piece that is still too long."""
    finer: list[Cut] = []
    for (row, level), (end, _) in pairwise([*cuts, (table.count, -1)]):
        finer.append((row, level))
        if table.chars(row, end) > WHOLE_CHARS:
            finer += [(inner, _LINE_LEVEL) for inner in cut_by_lines(table, row, end)[1:]]
    return finer


def _merge(table: LineTable, cuts: Sequence[Cut]) -> list[Cut]:
    """The cuts that remain when small neighbours are merged.

    A piece before a deeper cut is the head of a long node. It starts a chunk of its own, and is
    merged with what follows while it is small.
    """
    kept = [cuts[0]]
    previous_level = cuts[0][1]
    for (row, level), (end, next_level) in pairwise([*cuts[1:], (table.count, -1)]):
        begin = kept[-1][0]
        chars = table.chars(begin, end)
        if level == previous_level:
            fits = chars <= TARGET_CHARS and next_level <= level
        elif level > previous_level:
            is_small = table.chars(begin, row) < SMALL_CHARS
            fits = chars <= (LIMIT_CHARS if is_small else TARGET_CHARS)
        else:
            fits = False
        if not fits:
            kept.append((row, level))
        previous_level = level
    return kept


def _join_small(table: LineTable, cuts: Sequence[Cut]) -> list[Cut]:
    """The cuts without those around small pieces, which are merged with the closer neighbour."""
    kept: list[Cut] = []
    for (row, level), (end, next_level) in pairwise([*cuts, (table.count, -1)]):
        if kept:
            begin = kept[-1][0]
            belongs_left = table.chars(row, end) < SMALL_CHARS and level >= next_level
            previous_small = table.chars(begin, row) < SMALL_CHARS
            if (belongs_left or previous_small) and table.chars(begin, end) <= LIMIT_CHARS:
                continue
        kept.append((row, level))
    return kept


def _ranges(table: LineTable, cuts: Sequence[Cut]) -> list[tuple[int, int]]:
    rows = [*(row for row, _ in cuts), table.count]
    trimmed = (table.trim(row, end) for row, end in pairwise(rows))
    return [(start, end) for start, end in trimmed if start < end]
