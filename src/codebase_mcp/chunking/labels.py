"""Which definition names a chunk?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from codebase_mcp.model import Chunk, Symbol

# Kinds that contain definitions rather than statements: a chunk of one is named by its content.
_CONTAINERS = frozenset(
    {"class", "struct", "interface", "trait", "enum", "extension", "module", "section", "key"}
)

_Span = tuple[int, int, Symbol]
"""First line of a definition or of its comments, last line, and the definition."""


def label_chunks(
    pieces: Sequence[tuple[int, int]], scopes: Sequence[Symbol], leads: Mapping[int, int]
) -> Iterator[Chunk]:
    """A chunk for each run of rows (0-based, the end not included), in order.

    A chunk has the name of the definition that fills most of it. A part of a function has the name
    of the function, unless an inner definition fills half of the part. The comments above a
    definition belong to it; ``leads`` maps each of their rows to the first row of their run.
    """
    spans = [
        (leads.get(scope.start_line - 2, scope.start_line - 1) + 1, scope.end_line, scope)
        for scope in scopes
    ]
    open_spans: list[_Span] = []
    upcoming = 0
    for start, end in pieces:
        first_line, last_line = start + 1, end
        open_spans = [span for span in open_spans if span[1] >= first_line]
        while upcoming < len(spans) and spans[upcoming][0] <= last_line:
            if spans[upcoming][1] >= first_line:
                open_spans.append(spans[upcoming])
            upcoming += 1
        label = _label(open_spans, first_line, last_line)
        if label is None:
            yield Chunk(first_line, last_line, None, "text")
        else:
            yield Chunk(first_line, last_line, label.qualified, label.kind)


def _label(spans: Sequence[_Span], first_line: int, last_line: int) -> Symbol | None:
    """The definition that names the lines, among those that overlap with them."""
    enclosing: Symbol | None = None
    largest: Symbol | None = None
    largest_lines = 0
    for start, end, scope in spans:
        if start < first_line and end >= last_line:
            enclosing, largest, largest_lines = scope, None, 0
            continue
        lines = min(end, last_line) - max(start, first_line) + 1
        if lines > largest_lines:
            largest, largest_lines = scope, lines
    if largest is None or enclosing is None:
        return largest or enclosing
    fills_half = 2 * largest_lines >= last_line - first_line + 1
    return largest if fills_half or enclosing.kind in _CONTAINERS else enclosing
