"""Which lines are recovery codes? Those below a heading that says so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codebase_mcp.secrets.naming import CODE
from codebase_mcp.secrets.text import Span, Text

_WORDS = frozenset(
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


def find(text: Text) -> Iterator[Span]:
    """The codes in the lines below a heading that says so."""
    if _WORDS.isdisjoint(text.words):
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
                    yield *code.span(), CODE.kind
            elif data[start:end].strip() and start - heading.end() > _FEW_BEFORE_CODES:
                break
            start = end + 1
