"""The pages of records: a board of tasks, a timeline of memory, a tree of work, entities.

Lists are shown page by page, the newest first; ``after`` in an address is the cursor of a page.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast, get_args
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.entity_types import find_type
from codebase_mcp.records.memory import Observation, page_of_observations
from codebase_mcp.records.page import Page, Paging
from codebase_mcp.records.sessions import ListedSession, newest_sessions
from codebase_mcp.records.vocabulary import ObservationType, TaskStatus
from codebase_mcp.records.work_items import Tree, get_hierarchy, in_order, page_of_trees
from codebase_mcp.tools.rules import check_record_id
from codebase_mcp.web.pages.site import Content, Projects, Site, projects_of, require

if TYPE_CHECKING:
    from codebase_mcp.access.identity import Identity
    from codebase_mcp.app.app import App
    from codebase_mcp.database.transaction import Transaction

_PER_PAGE = 50
# Tasks of each status on the board.
_PER_COLUMN = 20
_SESSIONS = 20
_TREES, _PER_TREE = 20, 100
# The most fields of an entity that are columns; the name of a row leads to all fields.
_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a list: the length of the list, the cursor of the next part, and the parameters
    that the addresses of all parts have in common."""

    total: int
    older: str | None
    same: dict[str, str]


async def tasks(site: Site, request: Request) -> Response:
    """The tasks of a project by status, or the tasks of a single status page by page."""
    projects = await projects_of(site, request)
    chosen = _choice(request, "status", get_args(TaskStatus))
    columns = []
    for status in [chosen] if chosen else get_args(TaskStatus):
        reply = await site.call(
            request,
            "list_tasks",
            project_id=projects.chosen,
            status=status,
            limit=_PER_PAGE if chosen else _PER_COLUMN,
            cursor=_after(request) if chosen else None,
        )
        same = {"project": projects.chosen, "status": status}
        part = Part(reply["total_count"], reply["next_cursor"], same)
        columns.append((status, reply["tasks"], part))
    return site.page(request, "tasks.html", projects=projects, columns=columns, chosen=chosen)


async def memory(site: Site, request: Request) -> Response:
    """Observations: the newest, or the answers to a question."""
    projects = await projects_of(site, request)
    params = request.query_params
    question, session = params.get("q", "").strip(), params.get("session", "").strip() or None
    kind = cast(ObservationType | None, _choice(request, "type", get_args(ObservationType)))
    sessions: list[ListedSession] = []
    if question:
        reply = await site.call(
            request,
            "memory",
            operation="search",
            query=question,
            limit=_PER_PAGE,
            detail="full",
            project_id=projects.chosen,
            observation_type=kind,
            session_id=session,
        )
        days = {"": reply["observations"]}
        part = Part(len(reply["observations"]), None, {})
    else:

        async def newest(tx: Transaction) -> tuple[Page[Observation], list[ListedSession]]:
            paging = Paging.asked(_PER_PAGE, 0, _after(request))
            listed = await page_of_observations(tx, paging, session_id=session, kind=kind)
            return listed, await newest_sessions(tx, _SESSIONS + 1)

        page, sessions = await _read(site, request, "memory", projects, newest)
        same = {"project": projects.chosen, "session": session or "", "type": kind or ""}
        part = Part(page.total, page.next_cursor, same)
        by_day = groupby(page.items, lambda observation: f"{observation.created_at:%Y-%m-%d}")
        days = {day: list(observations) for day, observations in by_day}
    return site.page(
        request,
        "memory.html",
        sessions=sessions,
        most_sessions=_SESSIONS,
        projects=projects,
        days=days,
        part=part,
        types=get_args(ObservationType),
    )


async def work(site: Site, request: Request) -> Response:
    """Work items as trees, page by page; or an item with its ancestors and descendants."""
    projects = await projects_of(site, request)
    values: dict[str, Any] = {"projects": projects}
    named = request.query_params.get("item", "").strip()
    if named:
        item = UUID(check_record_id(named, "item", "Work item"))
        parts = await _read(
            site, request, "get_work_item_hierarchy", projects, lambda tx: get_hierarchy(tx, item)
        )
        left_out = parts.descendants_total - len(parts.descendants)
        trees = [Tree(in_order([parts.item, *parts.descendants]), left_out)]
        return site.page(
            request, "work.html", **values, trees=trees, ancestors=parts.ancestors, part=None
        )
    paging = Paging.asked(_TREES, 0, _after(request))
    page = await _read(
        site, request, "query_work_items", projects, lambda tx: page_of_trees(tx, paging, _PER_TREE)
    )
    part = Part(page.total, page.next_cursor, {"project": projects.chosen})
    return site.page(request, "work.html", **values, trees=page.items, ancestors=[], part=part)


async def entities(site: Site, request: Request) -> Response:
    """The entities of a type, as a table by its schema."""
    projects = await projects_of(site, request)
    stats = await site.call(request, "project", operation="get_stats", project_id=projects.chosen)
    types: dict[str, int] = stats["records"]["entities"]
    chosen = request.query_params.get("type", "").strip() or next(iter(types), "")
    reply: dict[str, Any] = {"entities": [], "total": 0, "next_cursor": None}
    columns: list[str] = []
    if chosen:
        reply = await site.call(
            request,
            "query_entities",
            project_id=projects.chosen,
            entity_type=chosen,
            limit=_PER_PAGE,
            cursor=_after(request),
        )
        kind = await _read(
            site, request, "query_entities", projects, lambda tx: find_type(tx, chosen)
        )
        columns = _columns(kind.document, [entity["data"] for entity in reply["entities"]])
    return site.page(
        request,
        "entities.html",
        projects=projects,
        types=types,
        chosen=chosen,
        columns=columns,
        rows=[
            (
                entity,
                [_cell(entity["data"].get(name)) for name in columns],
                json.dumps(entity["data"], ensure_ascii=False, indent=2),
            )
            for entity in reply["entities"]
        ],
        part=Part(
            reply["total"], reply["next_cursor"], {"project": projects.chosen, "type": chosen}
        ),
    )


def _after(request: Request) -> str | None:
    return request.query_params.get("after", "").strip() or None


def _choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """A parameter of the address; None if it is absent."""
    value = request.query_params.get(name, "").strip()
    if value and value not in choices:
        raise InvalidInput.of(name, value, f"No such {name}", rule=", ".join(choices))
    return value or None


async def _read(
    site: Site,
    request: Request,
    tool: str,
    projects: Projects,
    read: Callable[[Transaction], Awaitable[Content]],
) -> Content:
    """The result of ``read`` in a transaction of the project; the audit log names the tool."""
    require(request, "read")

    async def call(app: App, user: Identity) -> Content:
        async with app.enter(projects.chosen, user, readonly=True) as opened:
            return await read(opened.tx)

    return await site.run(request, tool, call)


def _columns(schema: Mapping[str, Any], entities: Iterable[Mapping[str, Any]]) -> list[str]:
    """The fields that the schema names, in its order, then the most frequent fields."""
    named = schema.get("properties")
    counts = Counter(name for data in entities for name in data)
    by_count = (name for name, _ in counts.most_common())
    return [*dict.fromkeys([*(named if isinstance(named, dict) else ()), *by_count])][:_COLUMNS]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
