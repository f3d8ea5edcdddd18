"""What are the chunks, definitions, comments and references of a text?

Pure: the same text and language always give the same outline, so an index may share it between
files. What the outline is used for is the business of ``index``.
"""

from __future__ import annotations

from collections.abc import Sequence

from codebase_mcp.chunking.boundaries import plain_pieces, syntax_pieces
from codebase_mcp.chunking.hazards import is_hazardous
from codebase_mcp.chunking.labels import label_chunks
from codebase_mcp.chunking.lines import LineTable, normalise_newlines
from codebase_mcp.chunking.references import find_references
from codebase_mcp.chunking.symbols import find_scopes
from codebase_mcp.chunking.syntax import Syntax, parse, parse_embedded
from codebase_mcp.model import Chunk, Outline

# A text of this size with lines of this average length is minified or generated: its names say
# nothing, so it is cut by lines.
_MINIFIED_CHARS = 20_000
_MINIFIED_LINE_CHARS = 500

# Languages whose queries capture text in other languages.
_PAGES = frozenset({"html", "svelte", "vue"})


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
        chunks=tuple(label_chunks(pieces, scopes, leads)),
        symbols=tuple(scope for scope in scopes if scope.kind != "extension"),
        comments=tuple(_comments(syntaxes)),
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


def _comments(syntaxes: Sequence[Syntax]) -> list[str]:
    return [
        syntax.text_of(node)
        for syntax in syntaxes
        for _, captures in syntax.matches
        for node in captures.get("comment", ())
    ]


def _lead_runs(table: LineTable, syntaxes: Sequence[Syntax]) -> dict[int, int]:
    """The rows of comments and attributes without other code before them.

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
