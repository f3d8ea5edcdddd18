"""Exact text on the search page: every line, by file and definition, as find_text lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape
from starlette.requests import Request

from codebase_mcp.app.evaluation.scoring import CHARS_PER_TOKEN
from codebase_mcp.app.text_scan import TextQuestion
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE
from codebase_mcp.printable import printable
from codebase_mcp.search.exact import FileMatches
from codebase_mcp.search.help import state_note
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.text_pattern import TextMatcher, TextQuery
from codebase_mcp.tools.replies.exact import exact_text, folded, looks_like_regex
from codebase_mcp.tools.rules import check_ref
from codebase_mcp.tools.text import KIND_GROUPS, folders_of
from codebase_mcp.web.pages.site import Site

if TYPE_CHECKING:
    from codebase_mcp.app.exact import TextReport
    from codebase_mcp.model import Symbol
    from codebase_mcp.search.exact import Line

# What to search for, and how; each but the first is on or off.
OPTIONS = ("by", "case", "word", "regex")

# How many lines a page shows, and how many more each time, up to the limit of find_text.
_SHOWN, _MOST = 100, 500
_MOST_FOLDERS = 12

# A long line is cut; it begins at most this far before its first match.
_LINE_BYTES, _BEFORE_BYTES = 400, 60


@dataclass(frozen=True, slots=True)
class Row:
    """A line as HTML, with the matches marked, and the numbers of all lines that are the same."""

    numbers: list[int]
    html: Markup
    line: Line


@dataclass(frozen=True, slots=True)
class Part:
    """The lines in a definition, or outside of all."""

    definition: Symbol | None
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class File:
    """A file with the parts that are shown of it, and how many lines are not."""

    matches: FileMatches
    repository: str
    ref: str
    parts: list[Part]
    more: int


@dataclass(frozen=True, slots=True)
class Folder:
    """Files whose lines are not shown."""

    name: str
    count: int
    files: list[FileMatches]


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one kind: those with lines, and the folders of the others."""

    name: str
    count: int
    file_count: int
    files: list[File]
    folders: list[Folder]


async def find(site: Site, request: Request, chosen: str, filters: FileFilters) -> dict[str, Any]:
    """The values of the template for exact text; ``problem`` says why a pattern is invalid."""
    params = request.query_params
    limit = shown_count(params.get("limit", ""), _SHOWN, _MOST)
    query = TextQuery(
        params["q"],
        regex="regex" in params,
        ignore_case=False if "case" in params else None,
        whole_word="word" in params,
    )
    values: dict[str, Any] = {"template": "matches.html", "problem": None}
    try:
        TextMatcher.compile(query)
    except InvalidInput as error:  # while somebody types, most expressions are invalid for a moment
        return values | {"problem": error}
    report = await site.run(
        request,
        "find_text",
        lambda app, user: app.exact.find(
            TextQuestion(
                query,
                replace(filters, repository_id=None),
                ref=check_ref(params.get("ref", "").strip() or None),
                limit=limit,
            ),
            chosen,
            user,
            repository=filters.repository_id,
        ),
    )
    text = exact_text(report, site.settings.reply_chars)
    shown = sum(len(matches.lines) for matches in report.files)
    return values | {
        "report": report,
        "groups": list(groups_of(report)),
        "text": text,
        "tokens": round(len(text) / CHARS_PER_TOKEN),
        "looks_like_regex": looks_like_regex(query.pattern),
        "state": state_note(report.index.state, report.index.files_pending),
        "several": len({m.file.snapshot.repository_id for m in report.files}) > 1,
        "left": report.total - shown,
        "next": min(limit + 2 * _SHOWN, _MOST) if shown < report.total and limit < _MOST else None,
    }


def shown_count(text: str, usual: int, most: int) -> int:
    """How many entries of a list an address asks for."""
    return min(max(int(text), 1), most) if text.isascii() and text.isdigit() else usual


def groups_of(report: TextReport) -> Iterator[Group]:
    """The files by kind, as the reply to an agent has them, with their lines as HTML."""
    matcher = TextMatcher.compile(replace(report.question.query, whole_word=False))
    for name, group in groupby(report.files, lambda matches: KIND_GROUPS[matches.file.kind]):
        files = list(group)
        with_lines = [_file(report, m, matcher) for m in files if m.lines]
        others = [matches for matches in files if not matches.lines]
        count = sum(matches.count for matches in files)
        yield Group(name, count, len(files), with_lines, list(_folders(others)))


def _file(report: TextReport, matches: FileMatches, matcher: TextMatcher) -> File:
    parts = [
        Part(
            definition,
            [Row(numbers, marked(line.text, matcher), line) for line, numbers in folded(lines)],
        )
        for definition, lines in groupby(matches.lines, lambda line: line.definition)
    ]
    snapshot = matches.file.snapshot
    ref = "" if snapshot.view == WORKTREE else snapshot.view
    return File(matches, snapshot.name, ref, parts, matches.count - len(matches.lines))


def _folders(files: Sequence[FileMatches]) -> Iterator[Folder]:
    """The folders of some files, those with the most lines first."""
    names = folders_of(((m.file.path, m.count) for m in files), _MOST_FOLDERS) if files else {}
    by_folder: Mapping[str, list[FileMatches]] = {name: [] for name in names}
    for matches in files:
        by_folder[_folder_of(matches.file.path, names)].append(matches)
    for name, (count, _) in names.items():
        yield Folder(name, count, by_folder[name])


def _folder_of(path: str, names: Mapping[str, object]) -> str:
    folder = path.rpartition("/")[0]
    while folder and folder not in names:
        folder = folder.rpartition("/")[0]
    return folder or "."


def marked(text: str, matcher: TextMatcher) -> Markup:
    """A line with its matches marked; a long line is cut around the first."""
    line = text.strip().encode()
    spans, position = [], 0
    while not matcher.spans_lines and position < len(line):
        span = next(iter(matcher.spans(line[position:])), None)
        if span is None:
            break
        first, last = position + span[0], position + span[1]
        spans.append((first, last))
        position = max(last, first + 1)
    start = 0
    if len(line) > _LINE_BYTES and spans:
        start = max(spans[0][0] - _BEFORE_BYTES, 0)
    end = start + _LINE_BYTES
    pieces = [Markup("…") if start else Markup()]
    position = start
    for first, last in spans:
        if first < last and first < end:
            pieces.append(_html(line[position:first]))
            pieces.append(Markup("<mark>{}</mark>").format(_html(line[first : min(last, end)])))
            position = min(last, end)
    pieces.append(_html(line[position:end]))
    return Markup().join([*pieces, "…" if end < len(line) else ""])


def _html(piece: bytes) -> Markup:
    return escape(printable(piece.decode("utf-8", "replace")))
