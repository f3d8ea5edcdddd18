"""Every line that matches a pattern, by file and by the definition that holds it.

Pure but for the texts that it is given: matches in, files and lines in the order of a reader out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from codebase_mcp.model import FIELD_KINDS, ITEM, KINDS, MOST_ITEMS, SourceFile, Symbol
from codebase_mcp.search.changes import LineChanges
from codebase_mcp.search.scope import ScopedSnapshot
from codebase_mcp.search.text_pattern import Spans


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file whose text is searched; a ``source`` is read from the disk, and has no text id."""

    snapshot: ScopedSnapshot
    path: str
    text_id: int | None
    language: str
    extension: str
    kind: str
    source: SourceFile | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line that matches; ``end_line`` is another one for a match that spans lines.

    ``definition`` is the innermost around it, or an item in that; ``is_definition`` says that the
    line begins it, and that its name matches. A line that ``is_removed`` was in the files before a
    change.
    """

    number: int
    end_line: int
    text: str
    definition: Symbol | None = None
    is_definition: bool = False
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class FileMatches:
    """The lines of a file that match, as spans of its text in bytes.

    ``lines`` are the first of them, as many as an answer shows; ``around`` are lines near them, by
    number. ``defines`` says that the file defines the name that was searched.
    """

    file: TextFile
    spans: Spans = field(repr=False)
    defines: bool = False
    lines: tuple[Line, ...] = ()
    around: Mapping[int, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of lines; matches that span lines count once."""
        return len(self.spans)


def ordered(files: Iterable[FileMatches]) -> list[FileMatches]:
    """Code before tests, documents and vendored files; what defines the name first."""
    ranks: dict[str, int] = {kind: rank for rank, kind in enumerate(KINDS)}

    def rank(matches: FileMatches) -> tuple[object, ...]:
        file = matches.file
        root, view = file.snapshot.root, file.snapshot.view
        return ranks[file.kind], not matches.defines, root, file.path, view

    return sorted(files, key=rank)


def within_change(spans: Spans, text: bytes, differing: LineChanges, *, is_old: bool) -> Spans:
    """The matches in lines that a change added or changed, or removed from the old text."""
    touched = differing.removed if is_old else (*differing.added, *differing.changed)
    ends = _line_ends(text)
    return Spans(
        span
        for span in spans
        if any(first <= bisect_right(ends, span[0]) + 1 <= last for first, last in touched)
    )


def with_lines(
    matches: FileMatches,
    text: bytes,
    definitions: Sequence[Symbol],
    *,
    limit: int,
    context_lines: int,
    is_name: Callable[[str], bool],
    is_removed: bool,
) -> FileMatches:
    """The matches with their first lines, as many as the limit, and the definitions around them."""
    ends = _line_ends(text)
    lines: list[Line] = []
    around: dict[int, str] = {}
    for first, last in islice(matches.spans, limit):
        number = bisect_right(ends, first) + 1
        end_line = bisect_right(ends, max(first, last - 1)) + 1
        lines.append(
            Line(
                number,
                end_line,
                _text_of(text, ends, number),
                _innermost(definitions, number),
                any(
                    d.start_line == number and d.kind != ITEM and is_name(d.name)
                    for d in definitions
                ),
                is_removed,
            )
        )
        for near in range(max(1, number - context_lines), end_line + context_lines + 1):
            if context_lines and near <= len(ends):
                around[near] = _text_of(text, ends, near)
    return replace(matches, lines=tuple(_joined(lines, definitions)), around=around)


def _line_ends(text: bytes) -> list[int]:
    """The offset behind each line end."""
    ends, position = [], text.find(b"\n")
    while position >= 0:
        ends.append(position + 1)
        position = text.find(b"\n", position + 1)
    return ends


def _text_of(text: bytes, ends: Sequence[int], number: int) -> str:
    start = ends[number - 2] if number > 1 else 0
    end = ends[number - 1] if number <= len(ends) else len(text)
    return text[start:end].decode("utf-8", "replace").rstrip("\r\n")


def _innermost(definitions: Sequence[Symbol], number: int, *, items: bool = True) -> Symbol | None:
    """The innermost definition around a line, or the innermost item inside that."""
    holders = [
        d
        for d in definitions
        if d.start_line <= number <= d.end_line
        and (d.kind not in FIELD_KINDS or (items and d.kind == ITEM))
    ]
    return min(holders, key=lambda d: d.end_line - d.start_line, default=None)


def _joined(lines: Sequence[Line], definitions: Sequence[Symbol]) -> Iterator[Line]:
    """The lines; what many items of a definition have is listed under the definition."""
    outer = {
        line.number: _innermost(definitions, line.number, items=False)
        for line in lines
        if line.definition is not None and line.definition.kind == ITEM
    }
    items = {(line.definition, outer[line.number]) for line in lines if line.number in outer}
    counts = Counter(definition for _, definition in items)
    for line in lines:
        is_many = line.number in outer and counts[outer[line.number]] > MOST_ITEMS
        yield replace(line, definition=outer[line.number]) if is_many else line
