"""Which chunks, definitions, comments and references does a text have?

The same text and language always give the same outline, so an index may share it between files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from codebase_mcp.chunking.boundaries import plain_pieces, syntax_pieces
from codebase_mcp.chunking.hazards import is_hazardous
from codebase_mcp.chunking.lines import LineTable, normalise_newlines
from codebase_mcp.chunking.references import find_references
from codebase_mcp.chunking.symbols import find_scopes
from codebase_mcp.chunking.syntax import Syntax, parse, parse_embedded
from codebase_mcp.model import Chunk, Outline, Symbol

# A text of this size with lines of this average length is minified or generated: its names say
# nothing, so it is cut by lines.
_MINIFIED_CHARS = 20_000
_MINIFIED_LINE_CHARS = 500

# Languages whose queries capture embedded languages.
_PAGES = frozenset({"html", "svelte", "vue"})

# Kinds that contain definitions rather than statements: their chunks are named by their content.
_CONTAINERS = frozenset(
    {"class", "struct", "interface", "trait", "enum", "extension", "module", "section", "key"}
)

_Span = tuple[int, int, Symbol]
"""First line of a definition or of its comments, last line, and the definition."""


def split(text: str, language: str) -> Outline:
    """The outline of a text; cut by lines if it has no grammar or cannot be parsed.

    Raises:
        IndexingFailed: the language's grammar cannot be loaded on this machine.
    """
    text = normalise_newlines(text)
    table = LineTable(text)
    if table.count == 0:
        return Outline((), (), ())
    syntax = _syntax(text, table, language)
    if syntax is None:
        chunks = tuple(Chunk(a + 1, b, None, "text") for a, b in plain_pieces(table))
        return Outline(chunks, (), ())
    syntaxes = [syntax, *_embedded(syntax, language)]
    scopes = find_scopes(syntaxes, language, table.count)
    leads = _lead_runs(table, syntaxes)
    pieces = syntax_pieces(table, [part.root for part in syntaxes], leads)
    return Outline(
        chunks=tuple(_label_chunks(pieces, scopes, leads)),
        symbols=tuple(scope for scope in scopes if scope.kind != "extension"),
        comments=tuple(
            part.text_of(node)
            for part in syntaxes
            for _, captures in part.matches
            for node in captures.get("comment", ())
        ),
        references=find_references(syntaxes, language, scopes),
    )


def _syntax(text: str, table: LineTable, language: str) -> Syntax | None:
    if len(text) > _MINIFIED_CHARS and len(text) > _MINIFIED_LINE_CHARS * table.count:
        return None
    if is_hazardous(text, language):
        return None
    # The scanner of Kotlin hangs on a last line that starts with "@" and has no line end.
    ended = text if text.endswith("\n") else text + "\n"
    return parse(ended.encode("utf-8", "replace"), language)


def _embedded(syntax: Syntax, language: str) -> list[Syntax]:
    """The syntax of the scripts and styles in a page."""
    if language not in _PAGES:
        return []
    captured = (item for _, captures in syntax.matches for item in captures.items())
    parts = (
        parse_embedded(syntax, nodes, capture.removeprefix("embedded."))
        for capture, nodes in captured
        if capture.startswith("embedded.")
    )
    return [part for part in parts if part is not None]


def _lead_runs(table: LineTable, syntaxes: Sequence[Syntax]) -> dict[int, int]:
    """The rows of comments and attributes without code before them in the row.

    Each is mapped to the first row of its run of consecutive rows.
    """
    rows: set[int] = set()
    for syntax in syntaxes:
        for _, captures in syntax.matches:
            for node in captures.get("comment", ()) or captures.get("lead", ()):
                row, column = node.start_point
                if column == 0 or not table.lines[row][:column].strip():
                    last = node.end_point[0] - (node.end_point[1] == 0)
                    rows.update(range(row, last + 1))
    runs: dict[int, int] = {}
    for row in sorted(rows):
        runs[row] = runs.get(row - 1, row)
    return runs


def _label_chunks(
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
