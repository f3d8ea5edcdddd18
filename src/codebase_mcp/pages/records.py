"""The pages of records: a board of tasks, a timeline of memory, a tree of work, entities.

Lists are shown page by page, the newest first; ``after`` in an address is the cursor of a page.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast, get_args
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import InvalidInput
from codebase_mcp.pages.projects import Projects, projects_of
from codebase_mcp.pages.site import Site, require
from codebase_mcp.records.entity_types import EntityType, find_type
from codebase_mcp.records.memory import Observation, page_of_observations
from codebase_mcp.records.page import Page, Paging
from codebase_mcp.records.sessions import ListedSession, newest_sessions
from codebase_mcp.records.vocabulary import ObservationType, TaskStatus
from codebase_mcp.records.work_items import (
    Hierarchy,
    Tree,
    get_hierarchy,
    in_order,
    page_of_trees,
)
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.rules import check_record_id

TABS = (
    ("/tasks", "Tasks"),
    ("/memory", "Memory"),
    ("/work", "Work items"),
    ("/entities", "Entities"),
)
_PER_PAGE = 50
# Of each status on the board.
_PER_COLUMN = 20
_SESSIONS = 20
_TREES, _PER_TREE = 20, 100
# Fields of an entity as columns; the row's name leads to all of them.
_COLUMNS = 5

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a list: how many there are in all, the cursor of the next part, if there is one,
    and the parameters that its address has in common with this one.
    """

    total: int
    older: str | None
    same: dict[str, str]


async def tasks(site: Site, request: Request) -> Response:
    """The tasks of a project, by status; or those of one status, page by page."""
    projects = await projects_of(site, request)
    chosen = _one_of(request, "status", get_args(TaskStatus))
    columns = []
    for status in [chosen] if chosen else get_args(TaskStatus):
        found = await site.call(
            request,
            "list_tasks",
            project_id=projects.chosen,
            status=status,
            limit=_PER_PAGE if chosen else _PER_COLUMN,
            cursor=_after(request) if chosen else None,
        )
        same = {"project": projects.chosen, "status": status}
        part = Part(found["total_count"], found["next_cursor"], same)
        columns.append((status, found["tasks"], part))
    return site.page(
        request, "tasks.html", projects=projects, tabs=TABS, columns=columns, chosen=chosen
    )


async def memory(site: Site, request: Request) -> Response:
    """What was remembered: the newest, or what answers a question."""
    projects = await projects_of(site, request)
    params = request.query_params
    question, session = params.get("q", "").strip(), params.get("session", "").strip() or None
    kind = cast(ObservationType | None, _one_of(request, "type", get_args(ObservationType)))
    sessions: list[ListedSession] = []
    found: Iterable[Any]
    if question:
        asked = {"operation": "search", "query": question, "limit": _PER_PAGE, "detail": "full"}
        about = {"project_id": projects.chosen, "observation_type": kind, "session_id": session}
        found = (await site.call(request, "memory", **asked, **about))["observations"]
        part = Part(len(list(found)), None, {})
    else:

        async def newest(tx: Any) -> tuple[Page[Observation], list[ListedSession]]:
            paging = Paging.asked(_PER_PAGE, 0, _after(request))
            listed = await page_of_observations(tx, paging, session_id=session, kind=kind)
            return listed, await newest_sessions(tx, _SESSIONS + 1)

        page, sessions = await _read(site, request, "memory", projects, newest)
        same = {"project": projects.chosen, "session": session or "", "type": kind or ""}
        found, part = page.items, Part(page.total, page.next_cursor, same)
    return site.page(
        request,
        "memory.html",
        sessions=sessions,
        most_sessions=_SESSIONS,
        projects=projects,
        tabs=TABS,
        days=_by_day(found) if not question else {"": found},
        part=part,
        types=get_args(ObservationType),
    )


async def work(site: Site, request: Request) -> Response:
    """Work items as trees, page by page; or one item with what is above and below it."""
    projects = await projects_of(site, request)
    values: dict[str, Any] = {"projects": projects, "tabs": TABS}
    named = request.query_params.get("item", "").strip()
    if named:
        item = UUID(check_record_id(named, "item", "Work item"))
        one: Hierarchy = await _read(
            site, request, "get_work_item_hierarchy", projects, lambda tx: get_hierarchy(tx, item)
        )
        left_out = one.descendants_total - len(one.descendants)
        trees = [Tree(in_order([one.item, *one.descendants]), left_out)]
        return site.page(
            request, "work.html", **values, trees=trees, ancestors=one.ancestors, part=None
        )
    paging = Paging.asked(_TREES, 0, _after(request))
    page: Page[Tree] = await _read(
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
    found: dict[str, Any] = {"entities": [], "total": 0, "next_cursor": None}
    columns: list[str] = []
    if chosen:
        about = {"project_id": projects.chosen, "entity_type": chosen}
        found = await site.call(
            request, "query_entities", limit=_PER_PAGE, cursor=_after(request), **about
        )
        kind: EntityType = await _read(
            site, request, "query_entities", projects, lambda tx: find_type(tx, chosen)
        )
        columns = _columns(kind.document, [one["data"] for one in found["entities"]])
    return site.page(
        request,
        "entities.html",
        projects=projects,
        tabs=TABS,
        types=types,
        chosen=chosen,
        columns=columns,
        rows=[
            (
                one,
                [_cell(one["data"].get(name)) for name in columns],
                json.dumps(one["data"], ensure_ascii=False, indent=2),
            )
            for one in found["entities"]
        ],
        part=Part(
            found["total"], found["next_cursor"], {"project": projects.chosen, "type": chosen}
        ),
    )


def _after(request: Request) -> str | None:
    """The cursor in the address."""
    return request.query_params.get("after", "").strip() or None


def _one_of(request: Request, name: str, known: tuple[str, ...]) -> str | None:
    """A parameter of the address that is one of some words, or not there.

    Raises:
        InvalidInput: it is another one.
    """
    value = request.query_params.get(name, "").strip()
    if value and value not in known:
        raise InvalidInput.of(name, value, f"No such {name}", rule=", ".join(known))
    return value or None


async def _read(
    site: Site,
    request: Request,
    tool: str,
    projects: Projects,
    read: Callable[[Any], Awaitable[Content]],
) -> Content:
    """What is read in one transaction of the project, entered into the audit log as this tool.

    Raises:
        CodebaseError: what the contract names.
    """
    require(request, "read")
    app = await site.holder.get()

    async def call() -> Content:
        async with app.enter(projects.chosen, identity_in(request), readonly=True) as here:
            return await read(here.tx)

    found: Content = await site.run(request, tool, call())
    return found


def _by_day(found: Iterable[Observation]) -> Mapping[str, list[Observation]]:
    days: dict[str, list[Observation]] = defaultdict(list)
    for one in found:
        days[f"{one.created_at:%Y-%m-%d}"].append(one)
    return days


def _columns(schema: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> list[str]:
    """The fields that the schema names, in its order, then those that most entities have."""
    named = schema.get("properties")
    columns = list(named) if isinstance(named, dict) else []
    counts: dict[str, int] = defaultdict(int)
    for data in found:
        for name in data:
            counts[name] += 1
    columns += [name for name in sorted(counts, key=lambda one: -counts[one])
                if name not in columns]  # fmt: skip
    return columns[:_COLUMNS]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
