"""The pages of records: a board of tasks, a timeline of memory, a tree of work, entities."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import InvalidInput
from codebase_mcp.pages.projects import projects_of
from codebase_mcp.pages.site import Site
from codebase_mcp.records.sessions import newest_sessions
from codebase_mcp.records.vocabulary import ObservationType, TaskStatus
from codebase_mcp.tools.callers import identity_in

TABS = (
    ("/tasks", "Tasks"),
    ("/memory", "Memory"),
    ("/work", "Work items"),
    ("/entities", "Entities"),
)
_PER_PAGE = 50
_MOST = 100
_SESSIONS = 20
# An entity's data as a line of its table.
_COLUMNS = 5


async def tasks(site: Site, request: Request) -> Response:
    """The tasks of a project, by status."""
    projects = await projects_of(site, request)
    columns = []
    for status in get_args(TaskStatus):
        found = await site.call(
            request, "list_tasks", project_id=projects.chosen, status=status, limit=_PER_PAGE
        )
        columns.append((status, found["tasks"], found["total_count"]))
    return site.page(request, "tasks.html", projects=projects, tabs=TABS, columns=columns)


async def memory(site: Site, request: Request) -> Response:
    """What was remembered: the newest, or what answers a question."""
    projects = await projects_of(site, request)
    params = request.query_params
    question, kind = params.get("q", "").strip(), params.get("type", "").strip()
    if kind and kind not in get_args(ObservationType):
        rule = ", ".join(get_args(ObservationType))
        raise InvalidInput.of("type", kind, "No such type", rule=rule)
    asked: dict[str, Any] = {"project_id": projects.chosen, "detail": "full"}
    asked |= {"session_id": params.get("session", "").strip() or None}
    if question:
        asked |= {"operation": "search", "query": question, "limit": _PER_PAGE}
        asked |= {"observation_type": kind or None}
    else:
        asked |= {"operation": "timeline", "depth_before": _PER_PAGE, "depth_after": 0}
    found = (await site.call(request, "memory", **asked))["observations"]
    if not question:
        found = [one for one in reversed(found) if kind in ("", one["type"])]
    days: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        days["" if question else one["created_at"][:10]].append(one)
    app = await site.holder.get()
    async with app.enter(projects.chosen, identity_in(request), readonly=True) as here:
        sessions = await newest_sessions(here.tx, _SESSIONS)
    return site.page(
        request,
        "memory.html",
        sessions=sessions,
        projects=projects,
        tabs=TABS,
        days=days,
        types=get_args(ObservationType),
    )


async def work(site: Site, request: Request) -> Response:
    """Work items as a tree."""
    projects = await projects_of(site, request)
    found = await site.call(request, "query_work_items", project_id=projects.chosen, limit=_MOST)
    # A path holds the ids from the root on; of siblings the oldest comes first.
    made = {one["id"]: one["created_at"] for one in found["work_items"]}
    items = sorted(
        found["work_items"],
        key=lambda one: [(made.get(part, ""), part) for part in one["path"].split("/") if part],
    )
    return site.page(
        request, "work.html", projects=projects, tabs=TABS, items=items, total=found["total"]
    )


async def entities(site: Site, request: Request) -> Response:
    """The entities of a type, as a table by its schema."""
    projects = await projects_of(site, request)
    stats = await site.call(request, "project", operation="get_stats", project_id=projects.chosen)
    types: dict[str, int] = stats["records"]["entities"]
    chosen = request.query_params.get("type", "").strip() or next(iter(types), "")
    found: dict[str, Any] = {"entities": [], "total": 0}
    if chosen:
        found = await site.call(
            request, "query_entities", project_id=projects.chosen, entity_type=chosen, limit=_MOST
        )
    names: dict[str, int] = defaultdict(int)
    for one in found["entities"]:
        for name in one["data"]:
            names[name] += 1
    columns = sorted(names, key=lambda name: -names[name])[:_COLUMNS]
    return site.page(
        request,
        "entities.html",
        projects=projects,
        tabs=TABS,
        types=types,
        chosen=chosen,
        columns=columns,
        rows=[(one, [_cell(one["data"].get(name)) for name in columns])
              for one in found["entities"]],
        total=found["total"],
    )  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
