"""In which columns of tables are secrets: CSV, Markdown, HTML, INSERT?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from codebase_mcp.secrets.judging import Evidence, evidence
from codebase_mcp.secrets.naming import Name, Sort, sort_of
from codebase_mcp.secrets.text import Span, Text

_INSERT = re.compile(rb"insert\s+into\s+[\w.\"`\[\]]+\s*\((?P<names>[^()]{1,500})\)\s*values\s*")
_ROW = re.compile(
    rb"\s*,?\s*\((?P<row>(?:[^()'\"]|'(?:[^'\\]|\\.|'')*+'|\"[^\"]*\"|\([^()]*\)){1,2000})\)"
)
_CELL = re.compile(
    rb"""\s*(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|"(?P<double>[^"]*)"|(?P<bare>[^,]*?))\s*(?:,|$)"""
)
# A line of short names, as tables have at their head.
_HEAD = re.compile(rb"[|]?[\w\" -]{1,60}(?:[,;|\t][ \"\w.-]{1,40}){1,20}[|]?\r?")
_HTML = re.compile(
    rb"(?is)<tr[^>]{0,200}>(?P<names>\s*(?:<th[^>]{0,200}>[^<]{0,60}</th>\s*){1,20})</tr>"
)


def find(text: Text, names: Iterable[Name]) -> Iterator[Span]:
    """The secrets in the columns of a text's tables."""
    data = text.data
    if b"insert" in text.words:
        yield from _inserted(text)
    if b"th" in text.words:
        yield from _html(data)
    below = 0
    for start in sorted({data.rfind(b"\n", 0, name.start) + 1 for name in names}):
        if start >= below:
            spans, below = _lines(data, start)
            yield from spans


def _inserted(text: Text) -> Iterator[Span]:
    data = text.data
    for insert in _INSERT.finditer(text.lower):
        names = [name.strip(b' \t\r\n`"[]') for name in insert["names"].split(b",")]
        sorts = [sort_of(name) for name in names]
        if not any(sorts):
            continue
        end = insert.end()
        while row := _ROW.match(data, end):
            end = row.end()
            for sort, cell in zip(sorts, _CELL.finditer(row["row"]), strict=False):
                group = cell.lastgroup
                if sort and group and group != "bare" and _is_secret(cell[group], sort):
                    first = row.start("row")
                    yield first + cell.start(group), first + cell.end(group), sort.kind


def _lines(data: bytes, start: int) -> tuple[list[Span], int]:
    """The secrets below a line that may be the head of a table, and where the table ends."""
    end = data.find(b"\n", start, start + 500)
    if end < 0 or not _HEAD.fullmatch(data, start, end):
        return [], start
    head = data[start:end]
    mark = next(mark for mark in (b"|", b"\t", b";", b",") if mark in head)
    sorts = [sort_of(name.strip(b' "\r')) for name in head.split(mark)]
    spans: list[Span] = []
    start = end + 1
    while any(sorts) and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        cells = data[start:end].split(mark)
        if len(cells) != len(sorts):
            break
        spans += _cells(cells, sorts, start)
        start = end + 1
    return spans, start


def _cells(cells: list[bytes], sorts: list[Sort | None], place: int) -> Iterator[Span]:
    for sort, cell in zip(sorts, cells, strict=True):
        value = cell.strip(b' \t\r"`')
        if sort and _is_secret(value, sort):
            first = place + cell.find(value)
            yield first, first + len(value), sort.kind
        place += len(cell) + 1


def _html(data: bytes) -> Iterator[Span]:
    for head in _HTML.finditer(data):
        sorts = [
            sort_of(name)
            for name in re.findall(rb"<th[^>]*>\s*([^<]*?)\s*</th>", head["names"], re.I)
        ]
        if not any(sorts):
            continue
        table_end = data.find(b"</table", head.end())
        for row in re.finditer(rb"(?is)<tr[^>]*>(.*?)</tr>", data[head.end() : table_end]):
            cells = re.finditer(rb"(?is)<td[^>]*>\s*([^<]*?)\s*</td>", row[0])
            for sort, cell in zip(sorts, cells, strict=False):
                if sort and _is_secret(cell[1], sort):
                    first = head.end() + row.start()
                    yield first + cell.start(1), first + cell.end(1), sort.kind


def _is_secret(value: bytes, sort: Sort) -> bool:
    needed = max(sort.stated, Evidence.MIXED)
    return len(value) >= sort.shortest and b"(" not in value and evidence(value) >= needed
