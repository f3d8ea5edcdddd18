"""Which definition is a chunk, or does it lie in?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from codebase_mcp.model import Chunk, Symbol

# What holds definitions rather than statements: a chunk of it is known by what it holds.
_CONTAINERS = frozenset(
    {"class", "struct", "interface", "trait", "enum", "extension", "module", "section", "key"}
)

_Span = tuple[int, int, Symbol]
"""First line of a definition or of its comments, last line, and the definition."""


def label_chunks(
    pieces: Sequence[tuple[int, int]], scopes: Sequence[Symbol], leads: Mapping[int, int]
) -> Iterator[Chunk]:
    """A chunk for each run of rows (0-based, the end not included), in order.

    A chunk bears the name of the definition that fills most of it, unless it is a part of a
    function and what it defines is less than half of that part. The comments above a definition
    belong to it; ``leads`` maps each of their rows to the first of its run.
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
    """The most telling of the definitions that overlap with the lines."""
    around: Symbol | None = None
    largest: Symbol | None = None
    largest_lines = 0
    for start, end, scope in spans:
        if start < first_line and end >= last_line:
            around, largest, largest_lines = scope, None, 0
            continue
        lines = min(end, last_line) - max(start, first_line) + 1
        if lines > largest_lines:
            largest, largest_lines = scope, lines
    if largest is None or around is None:
        return largest or around
    fills_half = 2 * largest_lines >= last_line - first_line + 1
    return largest if fills_half or around.kind in _CONTAINERS else around
