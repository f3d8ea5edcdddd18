"""Which definition is a chunk, or does it lie in?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codebase_mcp.model import Chunk, Symbol

# What holds definitions rather than statements: a chunk of it is known by what it holds.
_CONTAINERS = frozenset(
    {"class", "struct", "interface", "trait", "enum", "extension", "module", "section", "key"}
)


def label_chunks(pieces: Sequence[tuple[int, int]], scopes: Sequence[Symbol]) -> Iterator[Chunk]:
    """A chunk for each run of rows (0-based, the end not included), in order.

    A chunk bears the name of the definition that fills most of it, unless it is a part of a
    function and what it defines is less than half of that part.
    """
    open_scopes: list[Symbol] = []
    upcoming = 0
    for start, end in pieces:
        first_line, last_line = start + 1, end
        open_scopes = [scope for scope in open_scopes if scope.end_line >= first_line]
        while upcoming < len(scopes) and scopes[upcoming].start_line <= last_line:
            if scopes[upcoming].end_line >= first_line:
                open_scopes.append(scopes[upcoming])
            upcoming += 1
        label = _label(open_scopes, first_line, last_line)
        if label is None:
            yield Chunk(first_line, last_line, None, "text")
        else:
            yield Chunk(first_line, last_line, label.qualified, label.kind)


def _label(scopes: Sequence[Symbol], first_line: int, last_line: int) -> Symbol | None:
    """The most telling of the definitions that overlap with the lines."""
    around: Symbol | None = None
    largest: Symbol | None = None
    largest_lines = 0
    for scope in scopes:
        if scope.start_line <= first_line and scope.end_line >= last_line:
            around, largest, largest_lines = scope, None, 0
            continue
        lines = min(scope.end_line, last_line) - max(scope.start_line, first_line) + 1
        if lines > largest_lines:
            largest, largest_lines = scope, lines
    if largest is None or around is None:
        return largest or around
    fills_half = 2 * largest_lines >= last_line - first_line + 1
    return largest if fills_half or around.kind in _CONTAINERS else around
