"""What does a reply show, entry by entry? Readers of the forms in which tools reply. Pure.

An entry is what a reader takes in for one result: its heading, its lines, and further places of
the file that it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]

_HEADING = re.compile(r"(\d+)\. (\S.*?):(\d+)(?:-(\d+))?  ([01]\.\d+)(?:  (\S.*))?")
_NUMBERED = re.compile(r" *(\d+)(?:  .*| *)")
_ALSO = "   also "
_OTHERS = "also: "
_OTHER = re.compile(r"(\S.*?):(\d+)-(\d+)(?: \w+)?(?:, |$)")
_PLACE = re.compile(r"(\d+)(?:-(\d+))?(?: (.+?))??(?: [01]\.\d+)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """A result: the lines that it shows, the ranges that it gives, and its length.

    ``named`` are the ranges of definitions whose name stands beside them.
    """

    path: str
    chars: int
    shown: frozenset[int]
    ranges: tuple[Span, ...]
    named: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """The entries, best first; ``before`` is what is read ahead of them, ``chars`` everything."""

    entries: tuple[Entry, ...]
    before: int
    chars: int


def of_entries(entries: Iterable[Entry]) -> Reply:
    """Entries with nothing around them."""
    listed = tuple(entries)
    return Reply(listed, 0, sum(entry.chars for entry in listed))


def of_chunks(chunks: Sequence[tuple[str, int, int, int]]) -> Reply:
    """Code alone: path, first and last line, characters."""
    return of_entries(
        Entry(path, chars, span_lines((first, last)), ((first, last),))
        for path, first, last, chars in chunks
    )


def of_text(text: str) -> Reply:
    """Our text reply.

    A heading is a line ``N. PATH:FIRST-LAST  SCORE  SYMBOL`` whose number is the next one; up to
    the next heading belongs to it. Further results stand in a line, ``also: PATH:FIRST-LAST, …``.
    """
    before = 0
    open_entries: list[_TextEntry] = []
    others: list[Entry] = []
    for line in text.splitlines(keepends=True):
        if open_entries and line.startswith(_OTHERS):
            others += _others(line)
            continue
        heading = _HEADING.fullmatch(line.rstrip("\r\n"))
        if heading is not None and int(heading[1]) == len(open_entries) + 1:
            open_entries.append(_TextEntry(heading))
        if open_entries:
            open_entries[-1].add(line)
        else:
            before += len(line)
    entries = [*(entry.closed() for entry in open_entries), *others]
    return Reply(tuple(entries), before, len(text))


def _others(line: str) -> Iterator[Entry]:
    """The results that are named in a line together; each is as long as what stands for it."""
    for place in _OTHER.finditer(line.removeprefix(_OTHERS).rstrip()):
        span = _span(place[2], place[3])
        yield Entry(place[1], len(place[0]), frozenset(), (span,))


def of_json(text: str) -> Reply:
    """Our JSON reply: chunks with the lines around them, and further places."""
    return _of_results(text, _our_result)


def of_semble(text: str) -> Reply:
    """semble's JSON reply: chunks, of which it shows all lines or the first ones."""
    return _of_results(text, _semble_result)


def span_lines(*spans: Span) -> frozenset[int]:
    """The numbers of the lines in some spans."""
    return frozenset(number for first, last in spans for number in range(first, last + 1))


@dataclass(slots=True)
class _TextEntry:
    """A result of a text reply while its lines are read."""

    heading: re.Match[str]
    chars: int = 0
    shown: set[int] = field(default_factory=set)
    others: list[re.Match[str]] = field(default_factory=list)

    def add(self, line: str) -> None:
        """One more line, the heading first."""
        is_heading = self.chars == 0
        self.chars += len(line)
        body = line.rstrip("\r\n")
        if is_heading:
            return
        if body.startswith(_ALSO):
            parts = re.split(r", (?=\d+(?:-\d+)?(?: |$))", body.removeprefix(_ALSO))
            self.others += [place for part in parts if (place := _PLACE.fullmatch(part))]
        elif numbered := _NUMBERED.fullmatch(body):
            self.shown.add(int(numbered[1]))

    def closed(self) -> Entry:
        """The entry, when all its lines are read."""
        own = (_span(self.heading[3], self.heading[4]), self.heading[6])
        places = [own, *((_span(place[1], place[2]), place[3]) for place in self.others)]
        return Entry(
            self.heading[2],
            self.chars,
            frozenset(self.shown),
            tuple(span for span, _ in places),
            tuple(span for span, name in places if name),
        )


def _span(first: str, last: str | None) -> Span:
    return int(first), int(last or first)


def _of_results(text: str, entry_of: Callable[[dict[str, Any], int], Entry]) -> Reply:
    """The results of a JSON object, each with the characters that it has in the text."""
    found = list(_results_in(text))
    before = found[0][1] if found else len(text)
    return Reply(
        tuple(entry_of(result, end - start) for result, start, end in found), before, len(text)
    )


def _results_in(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Each element of ``results``, from where to where it stands with what parts it from the next.

    In the text of a value the quotation marks around the key would be escaped.
    """
    key = re.search(r'(?<!\\)"results": ?\[', text)
    decoder = json.JSONDecoder()
    at = key.end() if key else len(text)
    while text[at : at + 1] == "{":
        result, end = decoder.raw_decode(text, at)
        while text[end : end + 1] in (",", " "):
            end += 1
        yield result, at, end
        at = end


def _our_result(result: dict[str, Any], chars: int) -> Entry:
    first, last = result["start_line"], result["end_line"]
    before = len(result["context_before"].splitlines())
    after = len(result["context_after"].splitlines())
    others = result.get("more_in_file", ())
    places = [(first, last, result.get("symbol"))]
    places += [(other["start_line"], other["end_line"], other["symbol"]) for other in others]
    return Entry(
        result["file_path"],
        chars,
        span_lines((first - before, last + after)),
        tuple((start, end) for start, end, _ in places),
        tuple((start, end) for start, end, name in places if name),
    )


def _semble_result(result: dict[str, Any], chars: int) -> Entry:
    first, last = result["start_line"], result["end_line"]
    count = len(str(result.get("content", "")).splitlines())
    shown = span_lines((first, min(last, first + count - 1)))
    return Entry(result["file_path"], chars, shown, ((first, last),))
