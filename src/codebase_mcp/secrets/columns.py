"""In which columns of tables are secrets: CSV, Markdown, printed tables, HTML, INSERT?

And which lines are recovery codes?
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from codebase_mcp.secrets import naming
from codebase_mcp.secrets.judging import Evidence, evidence, is_phrase, is_strong

_INSERT = re.compile(rb"insert\s+into\s+[\w.\"`\[\]]+\s*\((?P<names>[^()]{1,500})\)\s*values\s*")
_COPY = re.compile(rb"copy\s+[\w.\"]+\s*\((?P<names>[^()]{1,500})\) from stdin[^\n]*\n")
_ROW = re.compile(
    rb"\s*,?\s*\((?P<row>(?:[^()'\"]|'(?:[^'\\]|\\.|'')*+'|\"[^\"]*\"|\([^()]*\)){1,2000})\)"
)
_CELL = re.compile(
    rb"""\s*(?:'(?P<single>(?:[^'\\]|\\.|'')*)'|"(?P<double>[^"]*)"|(?P<bare>[^,]*?))\s*(?:,|$)"""
)
# A line of short names, as tables have at their head, with marks or wide spaces between them.
_HEAD = re.compile(
    rb"[|]?[\w\x80-\xff\"*/ -]{1,60}(?:[,;|\t][ \"\w\x80-\xff.*/-]{1,40}){1,20}[|]?\r?"
)
_WIDE_HEAD = re.compile(
    rb"""(?P<indent>[ \t]*"?[ \t#]*)(?P<names>[A-Za-z\x80-\xff][\w\x80-\xff.-]{0,30}+"""
    rb"""(?:(?:[ ]{2,40}+|\t+|[ ]\|[ ])[A-Za-z\x80-\xff][\w\x80-\xff.-]{0,30}+"""
    rb"""(?:[ ]\w{1,20}+)?){1,12})"""
    rb"""[ \t]*(?:\\n)?"?,?\r?"""
)
_WIDE = re.compile(rb"[ ]{2,}|\t+")
_WIDE_CELL = re.compile(rb"[^\s\"](?:[^ \t\r\n]|[ ](?![ ]))*")
_NARROW_CELL = re.compile(rb'"[^"\r\n]*"|[^\s"]\S*')
_AROUND_ROW = re.compile(rb"""[ \t]*"(?=[^"]*(?:\\n)?",?\r?$)|(?:\\n)?",?\r?$|\r$""")
_RULE = re.compile(rb"[-+|=: ]{3,500}\r?")
_LONGEST_ROW = 4000
_LONGEST_HEAD = 500
_HTML = re.compile(
    rb"(?is)<tr[^>]{0,200}>(?P<names>\s*(?:<th[^>]{0,200}>[^<]{0,60}</th>\s*){1,20})</tr>"
)
# A column of users or servers beside a column of keys or codes says that they sign in.
_OF_LOGINS = frozenset(
    b"user username login benutzer benutzername account ssid host hostname server url email client"
    b" gebruiker utilisateur usuario utente konto uzytkownik kullanici wlan wifi".split()
)
_OF_RADIO = frozenset((b"ssid", b"wlan", b"wifi"))
_OTHER_KEYS = frozenset(b"key code pass pin".split())
_OF_PASSWORDS = re.compile(rb"\d|[a-z][A-Z]|[!#$%&*+=?@^~]|[\x80-\xff]")
_OF_NAMES = re.compile(rb"[a-z\x80-\xff]+")

# Recovery codes, below a heading that says so.
_HEADINGS = frozenset(
    b"codes wiederherstellungscodes backupcodes notfallcodes einmalcodes herstelcodes".split()
)
_CODES = re.compile(rb"codes?\b[^\n]{0,100}\n")
_BEFORE_CODES = re.compile(
    rb"(?:recovery|backup|scratch|emergency|one-time|2fa|mfa|herstel"
    rb"|wiederherstellungs|notfall|einmal)[ -]?$"
)
_BEHIND_CODES = re.compile("codes? de (?:secours|récupération)|.* de recuperación".encode())
_RECOVERY_CODE = re.compile(
    rb"\b(?=\S*\d)[A-Za-z0-9]{4,16}(?:-[A-Za-z0-9]{3,12}){0,4}\b|\b\d{4} \d{4}\b"
)
_LINE_OF_CODES = re.compile(
    rb"[ \t]*(?:[-*#>|]+[ \t]+|\d{1,2}[.)][ \t]+|\[[ x]\][ \t]+){0,3}"
    rb"(?P<codes>(?:[\"'`]?(?=\S*\d)[A-Za-z0-9]{4,16}+(?:-[A-Za-z0-9]{3,12}+){0,4}+"
    rb"[\"'`]?[ \t,;|]{0,8}+){1,5})\r?"
)
_MOST_LINES_OF_CODES = 30
_FEW_BEFORE_CODES = 160


class _Column(NamedTuple):
    """What a column holds, and whether another says who signs in with it."""

    sort: naming.Sort
    is_login: bool


def find(text: naming.Text, names: Iterable[naming.Name]) -> Iterator[naming.Span]:
    """The secrets in the columns of a text's tables."""
    data = text.data
    if b"insert" in text.words:
        yield from _inserted(text)
    if {b"copy", b"stdin"} <= text.words:
        for copy in _COPY.finditer(text.lower):
            columns = _columns(copy["names"].split(b","))
            yield from _rows(data, copy.end(), columns, b"\t")[0]
    if b"th" in text.words:
        yield from _html(data)
    below = 0
    heads = {data.rfind(b"\n", max(0, name.start - _LONGEST_HEAD), name.start) for name in names}
    for start in sorted({0} | {end + 1 for end in heads}):
        if start >= below:
            spans, below = _lines(data, start)
            yield from spans


def _columns(names: Sequence[bytes]) -> list[_Column | None]:
    """The columns with secrets among those with these names."""
    words = [_OF_NAMES.findall(name.lower()) for name in names]
    is_login = any(not _OF_LOGINS.isdisjoint(of_name) for of_name in words)
    is_radio = any(not _OF_RADIO.isdisjoint(of_name) for of_name in words)
    columns: list[_Column | None] = []
    for name, of_name in zip(names, words, strict=True):
        sort = naming.sort_of(name)
        if is_login and sort is None and of_name and of_name[-1] in _OTHER_KEYS:
            columns.append(_Column(naming.PASSWORD if is_radio else naming.KEY, is_login))
        elif is_login and sort is naming.KEY and of_name[-1] in naming.KEYS_ABROAD:
            columns.append(_Column(naming.PASSWORD, is_login))
        else:
            columns.append(_Column(sort, is_login) if sort else None)
    return columns


def _inserted(text: naming.Text) -> Iterator[naming.Span]:
    data = text.data
    for insert in _INSERT.finditer(text.lower):
        names = [name.strip(b' \t\r\n`"[]') for name in insert["names"].split(b",")]
        columns = [c and _Column(c.sort, True) for c in _columns(names)]
        if not any(columns):
            continue
        end = insert.end()
        while row := _ROW.match(data, end):
            end = row.end()
            for column, cell in zip(columns, _CELL.finditer(row["row"]), strict=False):
                group = cell.lastgroup
                if column and group and group != "bare" and _is_secret(cell[group], column):
                    first = row.start("row")
                    yield first + cell.start(group), first + cell.end(group), column.sort.kind


def _lines(data: bytes, start: int) -> tuple[list[naming.Span], int]:
    """The secrets below a line that may be the head of a table, and where the table ends."""
    end = data.find(b"\n", start, start + _LONGEST_HEAD)
    if end < 0:
        return [], start
    if not _HEAD.fullmatch(data, start, end):
        wide = _WIDE_HEAD.fullmatch(data, start, end)
        return _wide_lines(data, wide) if wide else ([], start)
    head = data[start:end]
    mark = next(mark for mark in (b"|", b"\t", b";", b",") if mark in head)
    return _rows(data, end + 1, _columns([name.strip(b' "*\r') for name in head.split(mark)]), mark)


def _rows(
    data: bytes, start: int, columns: list[_Column | None], mark: bytes
) -> tuple[list[naming.Span], int]:
    """The secrets in the rows of a table, and where it ends."""
    spans: list[naming.Span] = []
    while any(columns) and start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        cells = _split(data[start : min(end, start + _LONGEST_ROW)], mark)
        if len(cells) != len(columns):
            if _RULE.fullmatch(data, start, end):
                start = end + 1
                continue
            break
        spans += _cells(cells, columns, start)
        start = end + 1
    return spans, start


def _split(row: bytes, mark: bytes) -> list[bytes]:
    """The cells of a row; a mark may stand in quotes."""
    cells = row.split(mark)
    if b'"' not in row:
        return cells
    whole: list[bytes] = []
    for cell in cells:
        if whole and whole[-1][:1] == b'"' and whole[-1].count(b'"') % 2:
            whole[-1] += mark + cell
        else:
            whole.append(cell)
    return whole


def _cells(
    cells: list[bytes], columns: list[_Column | None], position: int
) -> Iterator[naming.Span]:
    for column, cell in zip(columns, cells, strict=True):
        value = cell.strip(b' \t\r"`')
        if column and _is_secret(value, column):
            first = position + cell.find(value)
            yield first, first + len(value), column.sort.kind
        position += len(cell) + 1


def _wide_lines(data: bytes, head: re.Match[bytes]) -> tuple[list[naming.Span], int]:
    """The secrets in a printed table, whose rows may begin with their number."""
    columns = _columns(_WIDE.split(head["names"]))
    spans: list[naming.Span] = []
    start = head.end() + 1
    if not any(column and column.is_login for column in columns):
        return spans, head.start()
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        first, last = start, min(end, start + _LONGEST_ROW)
        for around in list(_AROUND_ROW.finditer(data, start, last)):
            first, last = (
                (around.end(), last) if around.start() == start else (first, around.start())
            )
        cells = list(_WIDE_CELL.finditer(data, first, last))
        if len(cells) < len(columns):
            cells = list(_NARROW_CELL.finditer(data, first, last))
        beside = len(cells) - len(columns)
        if beside not in (0, 1):
            break
        for column, cell in zip(columns, cells[beside:], strict=True):
            value = cell[0].strip(b'" ')
            if column and _OF_PASSWORDS.search(value) and _is_secret(value, column):
                position = cell.start() + cell[0].find(value)
                spans.append((position, position + len(value), column.sort.kind))
        start = end + 1
    return spans, start


def _html(data: bytes) -> Iterator[naming.Span]:
    for head in _HTML.finditer(data):
        columns = _columns(re.findall(rb"(?i)<th[^>]*>\s*([^<]*?)\s*</th>", head["names"]))
        if not any(columns):
            continue
        table_end = data.find(b"</table", head.end())
        for row in re.finditer(rb"(?is)<tr[^>]*>(.*?)</tr>", data[head.end() : table_end]):
            cells = re.finditer(rb"(?is)<td[^>]*>\s*([^<]*?)\s*</td>", row[0])
            for column, cell in zip(columns, cells, strict=False):
                if column and _is_secret(cell[1], column):
                    first = head.end() + row.start()
                    yield first + cell.start(1), first + cell.end(1), column.sort.kind


def _is_secret(value: bytes, column: _Column) -> bool:
    sort = column.sort
    if len(value) < naming.PASSWORD.shortest or b"(" in value:
        return False
    had = evidence(value)
    if had >= max(sort.stated, Evidence.MIXED) and len(value) >= sort.shortest:
        return True
    if sort.kind == naming.PASSWORD.kind and column.is_login:
        return (
            naming.is_capitalized_password(value)
            or (had is Evidence.WORD and re.fullmatch(rb"[A-Z]?[a-z]{1,9}", value) is None)
            or (is_phrase(value) and naming.sort_of(value) is None)
        )
    if sort.kind == naming.PASSWORD.kind and had is Evidence.WORD:
        return b"." not in value and _OF_PASSWORDS.search(value) is not None
    return column.is_login and had >= Evidence.WORD and is_strong(value)


def find_codes(text: naming.Text) -> Iterator[naming.Span]:
    """The codes in the lines below a heading that says so."""
    if _HEADINGS.isdisjoint(text.words):
        return
    data = text.data
    for heading in _CODES.finditer(text.lower):
        before = text.lower[max(0, heading.start() - 30) : heading.start()]
        if not (_BEFORE_CODES.search(before) or _BEHIND_CODES.match(heading[0])):
            continue
        start = heading.end()
        for _ in range(_MOST_LINES_OF_CODES):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            line = _LINE_OF_CODES.fullmatch(data, start, end)
            if line:
                for code in _RECOVERY_CODE.finditer(data, *line.span("codes")):
                    yield *code.span(), naming.CODE.kind
            elif data[start:end].strip() and start - heading.end() > _FEW_BEFORE_CODES:
                break
            start = end + 1
