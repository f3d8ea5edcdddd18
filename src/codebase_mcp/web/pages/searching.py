"""The search page: the results of an agent's search, with the signals that rank them.

Lines with an exact text, which the page finds too, are in `finding.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from codebase_mcp.app.evaluation.scoring import CHARS_PER_TOKEN
from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE, FileKind
from codebase_mcp.search.help import first_with_text, secondary_note, state_note
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request as SearchRequest
from codebase_mcp.search.signals import SIGNALS
from codebase_mcp.tools.answers import file_filters
from codebase_mcp.tools.replies.excerpts import excerpt
from codebase_mcp.tools.replies.search import search_text
from codebase_mcp.tools.rules import check_query, check_ref, check_repository_id
from codebase_mcp.web.pages import finding
from codebase_mcp.web.pages.finding import OPTIONS
from codebase_mcp.web.pages.html import Line, coloured
from codebase_mcp.web.pages.listing import listed
from codebase_mcp.web.pages.site import Projects, Site, projects_of, require

if TYPE_CHECKING:
    from codebase_mcp.app.app import SearchReport
    from codebase_mcp.search.hits import Hit

FILTERS = ("repository", "language", "directory", "kind", "ref")
# A page shows as many results as fit on two screens.
_SHOWN, _MOST = 10, 50
# Indexed repositories on a page.
_PER_PAGE = 50
# Lines of the first results, and of the results after them.
_LINES, _FEWER_LINES, _FIRST = 18, 6, 3
_CODE_CHARS = 3_000
# Colours depend on the lines before: whether a string is open there.
_LEAD_IN = 60
# Weaker signals are not shown.
_LEAST_SIGNAL = 0.05
# How many of the lines that match are marked.
_MARKED = 3

_MEASURES = {signal.name: signal.measures for signal in SIGNALS}


@dataclass(frozen=True, slots=True)
class Result:
    """A file that answers, with the lines to show of it; None stands for lines left out.

    ``signals`` are the shares of the rank, the largest first.
    """

    hit: Hit
    repository: str
    lines: list[Line | None]
    signals: list[tuple[str, float]]
    notes: tuple[Any, ...]


async def home(site: Site, request: Request) -> Response:
    """The search box, and the indexed repositories."""
    # A filter is for all projects, also if there are hundreds.
    projects = await projects_of(site, request, every=bool(request.query_params.get("match")))
    return site.page(request, "search.html", **_frame(request, projects), found=None)


async def search(site: Site, request: Request) -> Response:
    """The answer to a question, as a whole page."""
    projects = await projects_of(site, request)
    answer = await _answer(site, request, projects.chosen)
    return site.page(request, "search.html", **_frame(request, projects), found=answer)


async def results(site: Site, request: Request) -> Response:
    """The answer alone, for a page that asks while its user types."""
    chosen = request.query_params.get("project", "").strip()
    chosen = chosen or (await projects_of(site, request)).chosen
    answer = await _answer(site, request, chosen)
    template = "results.html" if answer is None else answer["template"]
    html = site.fragment(request, template, chosen=chosen, found=answer)
    return HTMLResponse(html, headers={"Cache-Control": "no-store"})


def _frame(request: Request, projects: Projects) -> dict[str, Any]:
    rows = [(project, one) for project in projects.all for one in project["repositories"]]
    indexed = listed(
        request,
        rows,
        lambda row: (row[1]["name"], row[1]["root"], row[0]["name"], row[0]["project_id"]),
        _PER_PAGE,
    )
    return {
        "projects": projects,
        "chosen": projects.chosen,
        "kinds": [*FileKind],
        "indexed": indexed,
    }


async def _answer(site: Site, request: Request, chosen: str) -> dict[str, Any] | None:
    """The values of the results and their template; None without a question."""
    params = request.query_params
    if not params.get("q", "").strip():
        return None
    require(request, "read")
    filters = _filters(request)
    same = {name: params.get(name, "") for name in ("q", "project", *FILTERS, *OPTIONS, "as")}
    if params.get("by") == "text":
        return await finding.find(site, request, chosen, filters) | {"same": same}
    limit = finding.shown_count(params.get("limit", ""), _SHOWN, _MOST)
    report = await site.run(
        request,
        "search_code",
        lambda app, user: app.search(
            check_query(params["q"]),
            chosen,
            SearchRequest(filters, limit, explain=True, by_definition=True),
            ref=check_ref(params.get("ref", "").strip() or None),
            identity=user,
            with_notes=True,
            with_help=True,
        ),
    )
    shown = await asyncio.to_thread(shown_of, report)
    is_part = report.answer.file_count > len(shown["results"])
    text = search_text(_as_agents_see_it(report), site.settings.reply_chars)
    return shown | {
        "template": "results.html",
        "more": limit < _MOST and is_part,
        "next": min(limit + _SHOWN, _MOST),
        "cut": limit == _MOST and is_part,
        "text": text,
        "tokens": round(len(text) / CHARS_PER_TOKEN),
        "same": same,
    }


def shown_of(report: SearchReport) -> dict[str, Any]:
    """The values that every use of the results template needs."""
    return {
        "results": _results(report),
        "report": report,
        "measures": _MEASURES,
        "first_with_text": first_with_text(report.answer.hits),
        "strongest": max(
            (abs(v) for hit in report.answer.hits for v in hit.signals.values()), default=1.0
        ),
        "state": state_note(report.index.state, report.index.files_pending),
        "secondary": secondary_note(report.answer.secondary_model),
        "worktree": WORKTREE,
        "several": len({snapshot.repository_id for snapshot in report.answer.snapshots}) > 1,
    }


def _filters(request: Request) -> FileFilters:
    """The filters that the address names."""
    given = {name: request.query_params.get(name, "").strip() for name in FILTERS}
    kind = given["kind"]
    if kind and kind not in set(FileKind):
        rule = ", ".join(FileKind)
        raise InvalidInput.of("kind", kind, "No such kind of files", rule=rule)
    repository = given["repository"]
    return file_filters(
        repository_id=UUID(check_repository_id(repository, "repository")) if repository else None,
        languages=[given["language"]] if given["language"] else (),
        kinds=[kind] if kind else (),
        directory=given["directory"],
    )


def _as_agents_see_it(report: SearchReport) -> SearchReport:
    """The report without signals and notes, which agents do not ask for."""
    hits = [replace(hit, signals={}) for hit in report.answer.hits]
    return replace(report, answer=replace(report.answer, hits=hits), notes=())


def _results(report: SearchReport) -> list[Result]:
    names = {snapshot.repository_id: snapshot.name for snapshot in report.answer.snapshots}
    notes = report.notes or ((),) * len(report.answer.hits)
    return [
        Result(hit, names.get(hit.repository_id, ""), _lines(hit, rank), _signals(hit), about)
        for rank, (hit, about) in enumerate(zip(report.answer.hits, notes, strict=True))
    ]


def _lines(hit: Hit, rank: int) -> list[Line | None]:
    return code_lines(
        split_lines(hit.content),
        hit.start_line,
        hit.matching_lines,
        language=hit.language,
        path=hit.file_path,
        most_lines=_LINES if rank < _FIRST else _FEWER_LINES,
    )


def code_lines(
    lines: Sequence[str],
    start_line: int,
    matching_lines: Sequence[int],
    *,
    language: str,
    path: str,
    most_lines: int,
) -> list[Line | None]:
    """The lines worth showing, matching lines marked; None stands for lines that are left out."""
    matching = [number - start_line for number in matching_lines]
    shown = excerpt(lines, matching, most_lines=most_lines, most_chars=_CODE_CHARS)
    html = {
        start + offset: line
        for start, end in windows(shown)
        for offset, line in enumerate(coloured(lines[start:end], language, path))
    }
    listed: list[Line | None] = []
    before = -1
    for index in shown:
        if index > before + 1:
            listed.append(None)
        listed.append(Line(start_line + index, html[index], index in matching[:_MARKED]))
        before = index
    return listed if before + 1 == len(lines) else [*listed, None]


def windows(shown: Iterable[int]) -> list[tuple[int, int]]:
    """The ranges of lines to colour, so that a long class is not coloured for ten of its lines."""
    ranges: list[tuple[int, int]] = []
    for index in shown:
        start = max(index - _LEAD_IN, 0)
        if ranges and start <= ranges[-1][1]:
            start = ranges.pop()[0]
        ranges.append((start, index + 1))
    return ranges


def _signals(hit: Hit) -> list[tuple[str, float]]:
    """The signals of a hit that are not weak, the strongest first."""
    ordered = sorted(hit.signals.items(), key=lambda signal: -abs(signal[1]))
    return [(name, value) for name, value in ordered if abs(value) >= _LEAST_SIGNAL]
