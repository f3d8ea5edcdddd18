"""The page of changes: the differences of two branches, and the files that a change touches."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import CodebaseError
from codebase_mcp.source.git_refs import list_refs
from codebase_mcp.tools.rules import check_repository_id
from codebase_mcp.web.pages.site import Site, projects_of, require

_FILES = 100
_REFS = 200
# The most changed files in the picture, and the most files that they touch.
_CHANGED, _TOUCHED = 8, 14
_ROW = 22


@dataclass(frozen=True, slots=True)
class Picture:
    """Changed files on the left, the files that they touch on the right, each with its height.

    ``kinds`` says why a file on the right is there. An edge has two heights, and a weight that is
    larger where the second file is likelier.
    """

    changed: dict[str, int]
    touched: dict[str, int]
    kinds: dict[str, str]
    edges: list[tuple[int, int, float]]
    height: int
    left_out: int


async def changes(site: Site, request: Request) -> Response:
    """The changes of a branch, of a commit, or of the work that is not committed."""
    require(request, "read")
    projects = await projects_of(site, request)
    params = {name: request.query_params.get(name, "").strip()
              for name in ("a", "b", "commit", "repository")}  # fmt: skip
    repository = params["repository"] or next((r["id"] for r in projects.repositories), "")
    change: dict[str, Any] = {}
    if params["a"] and params["b"]:
        change = {"branch_a": params["a"], "branch_b": params["b"]}
    elif params["commit"]:
        change = {"commit": params["commit"]}
    elif request.query_params.get("uncommitted"):
        change = {"uncommitted": True}
    refs = await _refs(site, request, projects.chosen, repository)
    about = {"collection": projects.chosen, "repository_id": repository or None, "limit": _FILES}
    impact = comparison = None
    if change:
        impact = await site.call(request, "vcs", operation="analyze_impact", **change, **about)
    if "branch_a" in change:
        comparison = await site.call(
            request, "vcs", operation="compare_branches", **change, **about
        )
    return site.page(
        request,
        "changes.html",
        projects=projects,
        repository=repository,
        refs=refs,
        impact=impact,
        comparison=comparison,
        picture=_picture(impact or {}),
    )


async def _refs(site: Site, request: Request, project: str, repository: str) -> list[str]:
    """The names of branches and tags to choose from, the newest first."""
    if not repository:
        return []
    named = UUID(check_repository_id(repository, "repository"))
    try:
        found = await site.run(
            request, "vcs", lambda app, user: app.changes.repository(project, named, user)
        )
        refs = await asyncio.to_thread(list_refs, found.git)
    except CodebaseError:  # outside git; the comparison reports it
        return []
    ordered = sorted(refs, key=lambda ref: -ref.committed_at)
    return [*dict.fromkeys(ref.name for ref in ordered[:_REFS])]


def _picture(impact: dict[str, Any]) -> Picture | None:
    """The files of a change and the files that it touches; None if it touches no file."""
    differences = impact.get("differences", [])
    changed = {difference["path"] for difference in differences}
    # Why a changed file touches another file, and with which confidence.
    touches: dict[tuple[str, str], tuple[str, float]] = {
        (companion["changed_file"], companion["path"]): ("together", companion["confidence"])
        for companion in impact.get("changes_together", [])
    }
    defines = {
        symbol["name"]: difference["path"]
        for difference in differences
        for sort in ("symbols_changed", "symbols_removed")
        for symbol in difference.get(sort, [])
    }
    for user in impact.get("used_by", []):
        source = defines.get(user["symbol"])
        if source is not None and user["path"] not in changed:
            touches[source, user["path"]] = "uses", user["confidence"]
    shown = list(dict.fromkeys(source for source, _ in touches))[:_CHANGED]
    beside = list(dict.fromkeys(to for source, to in touches if source in shown))[:_TOUCHED]
    if not beside:
        return None
    shown = [path for path in shown if any((path, to) in touches for to in beside)]
    left = {path: _ROW * row for row, path in enumerate(shown, 1)}
    right = {path: _ROW * row for row, path in enumerate(beside, 1)}
    files = {path for pair in touches for path in pair}
    return Picture(
        left,
        right,
        {to: kind for (_, to), (kind, _) in touches.items()},
        [
            (left[source], right[to], round(0.6 + 2 * weight, 1))
            for (source, to), (_, weight) in touches.items()
            if source in left and to in right
        ],
        _ROW * (max(len(left), len(right)) + 1),
        len(files - left.keys() - right.keys()),
    )
