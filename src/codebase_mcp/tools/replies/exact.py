"""The text of an exact search: files, and in them definitions with the lines that match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from codebase_mcp.model import WORKTREE
from codebase_mcp.printable import printable, printable_line
from codebase_mcp.search.exact import folders_of
from codebase_mcp.search.help import state_note
from codebase_mcp.tools.replies.excerpt import MAX_LINE_CHARS
from codebase_mcp.tools.replies.paths import scope_note, shown_path

if TYPE_CHECKING:
    from codebase_mcp.app.exact import TextReport
    from codebase_mcp.search.exact import Definition, FileMatches, Line

# Files of the first group that has any are shown with lines, the others by their counts.
_GROUPS = {
    "code": "code",
    "config": "code",
    "test": "tests",
    "docs": "docs",
    "generated": "generated and vendored",
    "vendored": "generated and vendored",
}

# Kept free for how many lines are not shown.
_REST_CHARS = 160
_MOST_FOLDERS = 6
_MOST_FILES = 4

# What regular expressions are written with, and other texts seldom.
_SYNTAX = re.compile(r"\.[*+]|\\[bdswBDSW(.]|\w\|\w|\[[^\]]+\][*+]")

# A long line is cut before its first match.
_BEFORE_CHARS = 40


def exact_text(report: TextReport, form: Literal["count", "files", "lines"], max_chars: int) -> str:
    """The lines that match as text, of at most ``max_chars`` characters."""
    head = list(_head(report))
    if form == "count":
        rest = [_by_folder("", report.files, 20)] if report.files else []
    elif form == "files":
        lines = [f"{_path(report, m)} {m.count}" for m in report.files]
        rest = _fitting(lines, max_chars - _size(head) - _REST_CHARS)
        left = report.files[len(rest) :]
        rest += [_by_folder("more: ", left, _MOST_FOLDERS)] if left else []
    else:
        rest = _files(report, max_chars - _size(head))
    text = "\n".join([*head, *rest, *scope_note(report.scope)])
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _head(report: TextReport) -> Iterator[str]:
    files, total = len(report.files), report.total
    least = "" if report.is_complete else "at least "
    shown = printable_line(report.question.query.pattern[:80])
    if total:
        lines = f"{total} line{'s' * (total != 1)}"
        yield f"{shown}: {least}{lines} in {files} file{'s' * (files != 1)}"
    else:
        yield f"{shown}: no line matches"
        if not report.question.query.regex and _SYNTAX.search(report.question.query.pattern):
            yield "For a regular expression pass regex=true."
    index = report.index
    note = state_note(index.state, 0, index.percent, index.seconds_left)
    if index.percent is not None and note:
        yield note
    if not report.is_complete:
        yield "The time was not enough: use a longer text, or directory or file_type."
    if report.not_searched:
        counts = (f"{count} {reason}" for reason, count in report.not_searched.items())
        yield f"[files not searched: {', '.join(counts).replace('_', ' ')}]"


def _files(report: TextReport, max_chars: int) -> list[str]:
    """The first group of files with lines; the other groups by their counts."""
    groups = [
        (name, list(of)) for name, of in groupby(report.files, lambda m: _GROUPS[m.file.kind])
    ]
    if not groups:
        return []
    tails = [_counts(report, name, files) for name, files in groups[1:]]
    first = groups[0][1]
    shown = [line for matches in first for line in _block(report, matches)]
    if all(matches.lines for matches in first) and _size([*shown, *tails]) <= max_chars:
        return [*shown, *tails]
    room = max_chars - _size(tails) - _REST_CHARS
    shown = []
    for position, matches in enumerate(first):
        block = list(_block(report, matches))
        if not matches.lines or _size([*shown, *block]) > room:
            rest = first[position:]
            if not shown and matches.lines:  # a single file is too much: its first lines
                shown = _fitting(block, room)
                rest = [replace(matches, spans=matches.spans[len(shown) - 1 :]), *rest[1:]]
            return [*shown, _by_folder("more: ", rest, _MOST_FOLDERS), *tails]
        shown += block
    return [*shown, *tails]


def _block(report: TextReport, matches: FileMatches) -> Iterator[str]:
    """A file: its path, and its lines by the definition around them."""
    yield _path(report, matches)
    if matches.around:
        yield from _with_context(report, matches)
        return
    for definition, group in groupby(matches.lines, lambda line: line.definition):
        lines = list(_folded(group))
        if definition is None or (len(lines) == 1 and definition.start_line == lines[0][0].number):
            yield from (f"  {_numbered(report, *line)}" for line in lines)
        elif len(lines) == 1:
            yield f"  {_heading(definition)} {_numbered(report, *lines[0])}"
        else:
            yield f"  {_heading(definition)}"
            yield from (f"    {_numbered(report, *line)}" for line in lines)
    if left := matches.count - len(matches.lines):
        yield f"  … {left} more"


def _heading(definition: Definition) -> str:
    lines = f"{definition.start_line}-{definition.end_line}"
    return f"{printable_line(definition.qualified)} {lines}:"


def _with_context(report: TextReport, matches: FileMatches) -> Iterator[str]:
    """The lines of a file with those around them, which have a dash behind their number."""
    by_number = {line.number: line for line in matches.lines}
    before: int | None = None
    heading: Definition | None = None
    for number, text in sorted(matches.around.items()):
        if before is not None and number > before + 1:
            yield "  …"
        line, before = by_number.get(number), number
        if line is not None and line.definition not in (None, heading):
            heading = line.definition
            yield f"  {_heading(heading)}"
        yield f"  {number}{'  ' if line else '- '}{printable(text[:MAX_LINE_CHARS])}".rstrip()


def _folded(lines: Iterable[Line]) -> Iterator[tuple[Line, list[int]]]:
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
    if len(files) > _MOST_FILES:
        return _by_folder(f"{name}: ", files, _MOST_FOLDERS)
    return f"{name}: " + ", ".join(f"{m.count} in {_path(report, m)}" for m in files)


def _by_folder(lead: str, files: Sequence[FileMatches], most: int) -> str:
    folders = folders_of(files, most)
    parts = [
        f"{count} in {printable_line(folder)}/ ({number} file{'s' * (number != 1)})"
        for folder, (count, number) in list(folders.items())[:most]
    ]
    others = sum(count for count, _ in list(folders.values())[most:])
    parts += [f"{others} elsewhere"] if others else []
    return f"{lead}{', '.join(parts)}"


def _path(report: TextReport, matches: FileMatches) -> str:
    snapshot = matches.file.snapshot
    path = shown_path(report.scope, snapshot.root, matches.file.path)
    if snapshot.view == WORKTREE or len(report.refs) < 2:
        return path
    return f"{path} @{printable_line(report.refs.get(snapshot.view, snapshot.view[:12]))}"


def _fitting(lines: Sequence[str], room: int) -> list[str]:
    shown: list[str] = []
    used = 0
    for line in lines:
        used += len(line) + 1
        if used > room:
            break
        shown.append(line)
    return shown


def _size(lines: Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)
