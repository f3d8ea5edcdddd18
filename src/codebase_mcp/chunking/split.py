"""Which chunks, definitions, comments and references does a text have?

The same text and language always give the same outline, so an index may share it between files.

A text is cut at rows with a level: the depth in the tree of the node that starts there. Only nodes
too long for a chunk are visited, so most of the tree is never touched. Small pieces are then merged
from left to right, but never across the end of a node that had to be cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from tree_sitter import Node

from codebase_mcp.chunking.items import find_items
from codebase_mcp.chunking.key_lines import LANGUAGES, find_entries
from codebase_mcp.chunking.lines import (
    LIMIT_CHARS,
    SMALL_CHARS,
    TARGET_CHARS,
    WHOLE_CHARS,
    LineTable,
    cut_by_lines,
    normalise_newlines,
)
from codebase_mcp.chunking.references import find_references
from codebase_mcp.chunking.symbols import MAX_ENTRIES, find_scopes
from codebase_mcp.chunking.syntax import Syntax, is_hazardous, parse, parse_embedded
from codebase_mcp.model import FIELD_KINDS, Chunk, Outline, Symbol

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

# Deeper than any node: a cut for the sake of length alone.
_LINE_LEVEL = 1 << 30

_Cut = tuple[int, int]
"""A row and the level of the cut before it."""

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
        chunks = tuple(Chunk(a + 1, b, None, "text") for a, b in _plain_pieces(table))
        fields = find_entries(table.lines) if language in LANGUAGES else ()
        return Outline(chunks, (), (), fields=tuple(islice(fields, MAX_ENTRIES)))
    syntaxes = [syntax, *_embedded(syntax, language)]
    definitions = find_scopes(syntaxes, language, table.count)
    scopes = [scope for scope in definitions if scope.kind not in FIELD_KINDS]
    leads = _lead_runs(table, syntaxes)
    pieces = _syntax_pieces(table, [part.root for part in syntaxes], leads)
    return Outline(
        chunks=tuple(_label_chunks(pieces, scopes, leads)),
        symbols=tuple(scope for scope in scopes if scope.kind != "extension"),
        comments=tuple(
            part.text_of(node)
            for part in syntaxes
            for _, captures in part.matches
            for node in captures.get("comment", ())
        ),
        references=find_references(syntaxes, language, definitions),
        fields=(
            *(scope for scope in definitions if scope.kind in FIELD_KINDS),
            *find_items(syntaxes, language, definitions),
        ),
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


def _plain_pieces(table: LineTable) -> list[tuple[int, int]]:
    """Pieces of a text without syntax, as runs of rows (the second not included)."""
    cuts = [(row, 0) for row in cut_by_lines(table, 0, table.count)]
    return _ranges(table, _join_small(table, cuts))


def _syntax_pieces(
    table: LineTable, roots: Iterable[Node], leads: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Pieces of a parsed text, as runs of rows (the second not included).

    ``leads`` maps each row of a comment or attribute, which belongs to the code below it, to the
    first row of its run.
    """
    cuts = _node_cuts(table, roots, leads)
    cuts = _cut_long(table, cuts)
    return _ranges(table, _join_small(table, _merge(table, cuts)))


def _node_cuts(table: LineTable, roots: Iterable[Node], leads: Mapping[int, int]) -> list[_Cut]:
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


def _cut_long(table: LineTable, cuts: Sequence[_Cut]) -> list[_Cut]:
    """The cuts, and more of them by lines inside each piece that is still too long."""
    finer: list[_Cut] = []
    for (row, level), (end, _) in pairwise([*cuts, (table.count, -1)]):
        finer.append((row, level))
        if table.chars(row, end) > WHOLE_CHARS:
            finer += [(inner, _LINE_LEVEL) for inner in cut_by_lines(table, row, end)[1:]]
    return finer


def _merge(table: LineTable, cuts: Sequence[_Cut]) -> list[_Cut]:
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


def _join_small(table: LineTable, cuts: Sequence[_Cut]) -> list[_Cut]:
    """The cuts without those around small pieces, which are merged with the closer neighbour."""
    kept: list[_Cut] = []
    for (row, level), (end, next_level) in pairwise([*cuts, (table.count, -1)]):
        if kept:
            begin = kept[-1][0]
            belongs_left = table.chars(row, end) < SMALL_CHARS and level >= next_level
            previous_small = table.chars(begin, row) < SMALL_CHARS
            if (belongs_left or previous_small) and table.chars(begin, end) <= LIMIT_CHARS:
                continue
        kept.append((row, level))
    return kept


def _ranges(table: LineTable, cuts: Sequence[_Cut]) -> list[tuple[int, int]]:
    rows = [*(row for row, _ in cuts), table.count]
    trimmed = (table.trim(row, end) for row, end in pairwise(rows))
    return [(start, end) for start, end in trimmed if start < end]
