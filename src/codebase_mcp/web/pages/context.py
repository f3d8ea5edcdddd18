"""The page of a task: what is to be changed, read and tested, as find_context answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, get_args
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.app.evaluation.scoring import CHARS_PER_TOKEN
from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.context.answer import Role
from codebase_mcp.errors import InvalidInput
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.help import state_note
from codebase_mcp.settings.table import MAX_REPLY_CHARS
from codebase_mcp.tools import answers
from codebase_mcp.tools.replies.context import SIZE, context_text, outside_note, stands_alone
from codebase_mcp.tools.rules import check_repository_id
from codebase_mcp.web.pages.html import Line
from codebase_mcp.web.pages.searching import code_lines
from codebase_mcp.web.pages.site import Site, form_of, projects_of, require

if TYPE_CHECKING:
    from codebase_mcp.app.context import ContextReport
    from codebase_mcp.context.answer import NeededDefinition, NeededFile

ROLES: dict[Role, str] = {"change": "To change", "read": "To read", "test": "Tests to run"}
FIELDS = ("task", "project", "repository", "want", "ref")
_FILES = 40
# Lines of code of the first files of a role, and how many files have any.
_LINES, _WITH_CODE = 12, 4


@dataclass(frozen=True, slots=True)
class File:
    """A file with the lines to show of its first definition; None stands for lines left out."""

    needed: NeededFile
    repository: str
    ref: str
    lines: list[Line | None]


@dataclass(frozen=True, slots=True)
class Group:
    """The files of a role, and those that the task less probably needs."""

    title: str
    files: list[File]
    others: list[File]


async def context(site: Site, request: Request) -> Response:
    """A box for a task; with a task, the files that it needs.

    The task comes in a form, as a trace is too long for an address; a short file may be in that.
    """
    fields = request.query_params if request.method == "GET" else await form_of(request)
    asked = {name: fields.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    require(request, "read")
    projects = await projects_of(site, request, asked)
    values: dict[str, Any] = {"answer": None, "problem": None}
    if asked["task"]:
        try:
            values["answer"] = await _answer(site, request, projects.chosen, asked)
        except InvalidInput as error:  # what was pasted is kept
            values["problem"] = error
    return site.page(request, "context.html", projects=projects, asked=asked, roles=ROLES, **values)


async def _answer(
    site: Site, request: Request, chosen: str, asked: Mapping[str, str]
) -> dict[str, Any]:
    """The values of the template for an answer."""
    want = [role for role in get_args(Role) if role == asked["want"]]
    named = asked["repository"]
    report = await site.run(
        request,
        "find_context",
        lambda app, user: answers.find_context(
            app,
            answers.shortened(asked["task"]),
            chosen,
            user,
            want=want,
            repository=UUID(check_repository_id(named, "repository")) if named else None,
            ref=asked["ref"] or None,
            limit=_FILES,
        ),
    )
    text = context_text(report, min(SIZE * site.settings.reply_chars, MAX_REPLY_CHARS))
    return {
        "report": report,
        "groups": await asyncio.to_thread(lambda: list(_groups(report))),
        "state": state_note(report.index.state, report.index.files_pending),
        "outside": outside_note(report),
        "text": text,
        "tokens": round(len(text) / CHARS_PER_TOKEN),
        "several": len({file.repository_id for file in report.context.files}) > 1,
    }


def _groups(report: ContextReport) -> Iterator[Group]:
    """The files by role: first the role of the first file."""
    names = {tree.repository_id: tree.root.name for tree in report.scope.trees}
    order = list(dict.fromkeys(file.role for file in report.context.files))
    by_role = sorted(report.context.files, key=lambda file: order.index(file.role))
    for role, files in groupby(by_role, key=lambda file: file.role):
        listed = [_file(file, names, rank) for rank, file in enumerate(files)]
        first = [file for rank, file in enumerate(listed) if stands_alone(rank, file.needed)]
        yield Group(ROLES[role], first, [file for file in listed if file not in first])


def _file(file: NeededFile, names: Mapping[UUID, str], rank: int) -> File:
    has_code = file.definitions and rank < _WITH_CODE and file.role != "test"
    return File(
        file,
        names.get(file.repository_id, ""),
        "" if file.view == WORKTREE else file.view,
        _lines(file, file.definitions[0]) if has_code else [],
    )


def _lines(file: NeededFile, definition: NeededDefinition) -> list[Line | None]:
    return code_lines(
        split_lines(definition.content or ""),
        definition.start_line,
        definition.matching_lines,
        language=file.language,
        path=file.path,
        most_lines=_LINES,
    )
