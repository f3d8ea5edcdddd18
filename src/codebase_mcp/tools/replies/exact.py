"""The text of an exact search: files, and in them definitions with the lines that match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

from codebase_mcp.model import ITEM
from codebase_mcp.printable import printable, printable_line
from codebase_mcp.search.help import state_note
from codebase_mcp.tools.replies.excerpts import MAX_LINE_CHARS
from codebase_mcp.tools.text import (
    KIND_GROUPS,
    by_file,
    by_folder,
    counted,
    path_with_ref,
    scope_note,
    size_of,
)

if TYPE_CHECKING:
    from codebase_mcp.app.exact import TextReport
    from codebase_mcp.model import Symbol
    from codebase_mcp.search.exact import FileMatches, Line

# Kept free for how many lines are not shown.
_REST_CHARS = 160
_MOST_FOLDERS = 6
_MOST_FILES = 4

# What regular expressions are written with, and other texts seldom.
_SYNTAX = re.compile(r"\.[*+]|\\[bdswBDSW(.]|\w\|\w|\[[^\]]+\][*+]")

# A long line is cut before its first match.
_BEFORE_CHARS = 40


def exact_text(report: TextReport, max_chars: int) -> str:
    """The lines that match as text, of at most ``max_chars`` characters."""
    head = list(_head(report))
    form = report.question.form
    if form == "count":
        rest = [by_folder(_paths(report, report.files), 20)] if report.files else []
    elif form == "files":
        rows = [_Row(f"{_path(report, m)} {m.count}", m.count) for m in report.files]
        rest = [row.text for row in _fitting(rows, max_chars - size_of(head) - _REST_CHARS)]
        left = _paths(report, report.files[len(rest) :])
        rest += ["more: " + by_folder(left, _MOST_FOLDERS)] if left else []
    else:
        rest = _files(report, max_chars - size_of(head))
    text = "\n".join([*head, *rest, *scope_note(report.scope)])
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _head(report: TextReport) -> Iterator[str]:
    files, total = len(report.files), report.total
    least = "" if report.is_complete else "at least "
    shown = printable_line(report.question.query.pattern[:80])
    if total:
        yield f"{shown}: {least}{counted(total, 'line')} in {counted(files, 'file')}"
    else:
        yield f"{shown}: no line matches"
        if not report.question.query.regex and looks_like_regex(report.question.query.pattern):
            yield "For a regular expression pass regex=true."
    index = report.index
    note = state_note(index.state, 0, index.percent, index.seconds_left)
    if index.percent is not None and note:
        yield note
    if not report.is_complete:
        yield "The time was not enough: use a longer text, or directory or file_type."
    is_whole = not total and not report.question.filters.narrow
    left_out = {n: c for n, c in report.not_searched.items() if n != "binary" or is_whole}
    if left_out:
        counts = (f"{count} {reason}" for reason, count in left_out.items())
        yield f"[not searched: {', '.join(counts).replace('_', ' ')}]"


def looks_like_regex(pattern: str) -> bool:
    """Whether a pattern looks like a regular expression rather than a text."""
    return _SYNTAX.search(pattern) is not None


def _files(report: TextReport, max_chars: int) -> list[str]:
    """The first group of files with lines; the other groups by their counts."""
    by_kind = groupby(report.files, lambda matches: KIND_GROUPS[matches.file.kind])
    groups = [(name, list(files)) for name, files in by_kind]
    if not groups:
        return []
    first = groups[0][1]
    tails = [_counts(report, name, files) for name, files in groups[1:]]
    room = max_chars - size_of(tails)
    listed = [matches for matches in first if matches.lines]
    whole = [list(_block(report, matches)) for matches in listed]
    if len(listed) < len(first) or size_of(row.text for block in whole for row in block) > room:
        room -= min(_REST_CHARS, max_chars // 4)
    shown = _with_room(whole, [_places(report, matches) for matches in listed], room)
    rest = _paths(report, first, sum(row.matches for row in shown))
    is_full = sum(row.matches for row in shown) < sum(len(m.lines) for m in listed)
    why = "max_chars" if is_full else "limit"
    more = [f"more ({why}): {by_folder(rest, _MOST_FOLDERS)}"] if rest else []
    return [*(row.text for row in shown), *more, *tails]


def _with_room(whole: Sequence[list[_Row]], places: Sequence[_Row], room: int) -> list[_Row]:
    """The first files with their lines, the others with places alone, as many as there is room.

    The places of all files go first, if they have room; else files with lines get half of it.
    """
    left = size_of(row.text for row in places)
    most_left = left if left <= room else room // 2
    shown: list[_Row] = []
    for number, block in enumerate(whole):
        left -= len(places[number].text) + 1
        if size_of(row.text for row in (*shown, *block)) + min(left, most_left) > room:
            if len(whole) == 1:
                return _fitting(block, room)
            return [*shown, *_fitting(places[number:], room - size_of(r.text for r in shown))]
        shown += block
    return shown


def _paths(
    report: TextReport, files: Sequence[FileMatches], shown: int = 0
) -> list[tuple[str, int]]:
    """Each file's path, and how many matches it has beside the first ones, which are shown."""
    counts = []
    for matches in files:
        if shown < matches.count:
            counts.append((_path(report, matches), matches.count - shown))
        shown = max(shown - matches.count, 0)
    return counts


class _Row(NamedTuple):
    """A line of the reply, and how many matches it shows."""

    text: str
    matches: int = 0


def _block(report: TextReport, matches: FileMatches) -> Iterator[_Row]:
    """A file: its path, and its lines by the definition around them."""
    yield _Row(_path(report, matches))
    if matches.around:
        yield from _with_context(report, matches)
        return
    for definition, group in groupby(matches.lines, lambda line: line.definition):
        lines = list(folded(group))
        texts = [_Row(_numbered(report, *line), len(line[1])) for line in lines]
        is_named = definition is not None and (
            definition.kind == ITEM or definition.start_line != lines[0][0].number
        )
        if definition is None or (len(lines) == 1 and not is_named):
            yield from (_Row(f"  {text}", count) for text, count in texts)
        elif len(lines) == 1:
            yield _Row(f"  {_heading(definition)} {texts[0].text}", texts[0].matches)
        else:
            yield _Row(f"  {_heading(definition)}")
            yield from (_Row(f"    {text}", count) for text, count in texts)


def _places(report: TextReport, matches: FileMatches) -> _Row:
    """A file in a line: the numbers of its lines, by definition."""
    parts = []
    for definition, group in groupby(matches.lines, lambda line: line.definition):
        name = f"{printable_line(definition.qualified)} " if definition is not None else ""
        parts.append(name + ",".join(str(line.number) for line in group))
    return _Row(f"{_path(report, matches)}: {'; '.join(parts)}", len(matches.lines))


def _heading(definition: Symbol) -> str:
    lines = f"{definition.start_line}-{definition.end_line}"
    return f"{printable_line(definition.qualified)} {lines}:"


def _with_context(report: TextReport, matches: FileMatches) -> Iterator[_Row]:
    """The lines of a file with those around them, which have a dash behind their number."""
    by_number = {line.number: line for line in matches.lines}
    before: int | None = None
    heading: Symbol | None = None
    for number, text in sorted(matches.around.items()):
        line = coming = by_number.get(number)
        if before is None or number > before + 1:
            if before is not None:
                yield _Row("  …")
            coming = next((line for line in matches.lines if line.number >= number), None)
        before = number
        if coming is not None and coming.definition not in (None, heading):
            heading = coming.definition
            yield _Row(f"  {_heading(heading)}")
        shown = f"  {number}{'  ' if line else '- '}{printable(text[:MAX_LINE_CHARS])}"
        yield _Row(shown.rstrip(), int(line is not None))


def folded(lines: Iterable[Line]) -> Iterator[tuple[Line, list[int]]]:
    """The different lines of a definition, each with the numbers of all that are the same."""
    same: dict[str, tuple[Line, list[int]]] = {}
    for line in lines:
        same.setdefault(line.text.strip(), (line, []))[1].append(line.number)
    yield from same.values()


def _numbered(report: TextReport, line: Line, numbers: Sequence[int]) -> str:
    sign = "-" if line.is_removed else ""
    text = _cut(line.text.strip(), report.question.query.pattern)
    mark = "  (defined here)" if line.is_definition else ""
    return f"{sign}{', '.join(map(str, numbers))}  {printable(text)}{mark}"


def _cut(text: str, pattern: str) -> str:
    """A line of at most MAX_LINE_CHARS characters, with the pattern in it."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    start = max(text.lower().find(pattern.lower()) - _BEFORE_CHARS, 0)
    lead = "…" if start else ""
    return lead + text[start : start + MAX_LINE_CHARS] + "…" * (start + MAX_LINE_CHARS < len(text))


def _counts(report: TextReport, name: str, files: Sequence[FileMatches]) -> str:
    return f"{name}: {by_file(_paths(report, files), _MOST_FILES, _MOST_FOLDERS)}"


def _path(report: TextReport, matches: FileMatches) -> str:
    snapshot = matches.file.snapshot
    path = matches.file.path
    return path_with_ref(report.scope, report.refs, snapshot.root, path, snapshot.view)


def _fitting(rows: Sequence[_Row], room: int) -> list[_Row]:
    """The first rows that have room."""
    used = accumulate(len(row.text) + 1 for row in rows)
    return [row for row, size in zip(rows, used, strict=True) if size <= room]
