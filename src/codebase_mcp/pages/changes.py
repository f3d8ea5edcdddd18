"""The page of changes: what differs between two branches, and whom a change touches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import CodebaseError
from codebase_mcp.pages.projects import projects_of
from codebase_mcp.pages.site import Site, require
from codebase_mcp.source.git_refs import list_refs
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.rules import check_repository_id

_FILES = 100
_REFS = 200
# How many changed files the picture shows, and how many that they touch.
_CHANGED, _TOUCHED = 8, 14
_ROW = 22


@dataclass(frozen=True, slots=True)
class Node:
    """A file in the picture, at a height; ``kind`` says why it is there."""

    path: str
    y: int
    kind: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A changed file and one that it touches, by their heights; heavier where it is more likely."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class Picture:
    """Changed files on the left, those that they touch on the right."""

    changed: list[Node]
    touched: list[Node]
    edges: list[Edge]
    height: int
    left_out: int


async def changes(site: Site, request: Request) -> Response:
    """What a branch, a commit, or the work that is not committed changes."""
    require(request, "read")
    projects = await projects_of(site, request)
    params = {name: request.query_params.get(name, "").strip()
              for name in ("a", "b", "commit", "repository")}  # fmt: skip
    repository = params["repository"] or next((one["id"] for one in projects.repositories), "")
    frame: dict[str, Any] = {
        "projects": projects,
        "repository": repository,
        "refs": await _refs(site, request, projects.chosen, repository),
    }
    change: dict[str, Any] = {}
    if params["a"] and params["b"]:
        change = {"branch_a": params["a"], "branch_b": params["b"]}
    elif params["commit"]:
        change = {"commit": params["commit"]}
    elif request.query_params.get("uncommitted"):
        change = {"uncommitted": True}
    if not change:
        return site.page(request, "changes.html", **frame, impact=None, comparison=None)
    about = {"collection": projects.chosen, "repository_id": repository or None, "limit": _FILES}
    impact = await site.call(request, "vcs", operation="analyze_impact", **change, **about)
    comparison = None
    if "branch_a" in change:
        comparison = await site.call(
            request, "vcs", operation="compare_branches", **change, **about
        )
    return site.page(
        request,
        "changes.html",
        **frame,
        impact=impact,
        comparison=comparison,
        picture=_picture(impact),
    )


async def _refs(site: Site, request: Request, project: str, repository: str) -> list[str]:
    """Names of branches and tags to choose from, the newest first."""
    if not repository:
        return []
    app = await site.holder.get()
    asked = app.changes.repository(
        project, UUID(check_repository_id(repository, "repository")), identity_in(request)
    )
    try:
        found = await site.run(request, "vcs", asked)
        refs = await asyncio.to_thread(list_refs, found.git)
    except CodebaseError:  # not under git: comparing says so
        return []
    ordered = sorted(refs, key=lambda ref: -ref.committed_at)
    return [*dict.fromkeys(ref.name for ref in ordered[:_REFS])]


def _picture(impact: dict[str, Any]) -> Picture | None:
    """The files of a change and those that it touches; None if it touches none."""
    touches: dict[tuple[str, str], tuple[str, float]] = {}
    changed = [one["path"] for one in impact.get("differences", [])]
    for one in impact.get("changes_together", []):
        touches[one["changed_file"], one["path"]] = "together", one["confidence"]
    defines = {
        symbol["name"]: one["path"]
        for one in impact.get("differences", [])
        for sort in ("symbols_changed", "symbols_removed")
        for symbol in one.get(sort, [])
    }
    for one in impact.get("used_by", []):
        source = defines.get(one["symbol"])
        if source is not None and one["path"] not in changed:
            touches[source, one["path"]] = "uses", one["confidence"]
    shown = list(dict.fromkeys(source for source, _ in touches))[:_CHANGED]
    beside = list(dict.fromkeys(to for source, to in touches if source in shown))[:_TOUCHED]
    if not beside:
        return None
    shown = [path for path in shown if any((path, to) in touches for to in beside)]
    left = {path: _ROW * place + _ROW for place, path in enumerate(shown)}
    right = {path: _ROW * place + _ROW for place, path in enumerate(beside)}
    kinds = {to: kind for (_, to), (kind, _) in touches.items()}
    files = {path for pair in touches for path in pair}
    return Picture(
        [Node(path, y, "changed") for path, y in left.items()],
        [Node(path, y, kinds[path]) for path, y in right.items()],
        [
            Edge(left[source], right[to], round(0.6 + 2 * weight, 1))
            for (source, to), (_, weight) in touches.items()
            if source in left and to in right
        ],
        _ROW * (max(len(left), len(right)) + 1),
        len(files - left.keys() - right.keys()),
    )
