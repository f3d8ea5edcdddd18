"""The project that a page shows, and the projects to choose from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.pages.site import Site

# The most projects that the tool lists at once; an address may name any project.
_MOST = 100


@dataclass(frozen=True, slots=True)
class Projects:
    """The projects that the caller sees, and the id of the project that a page shows.

    ``repositories`` are those of the chosen project, as the tool ``project`` replies them;
    ``left_out`` counts the projects that are not listed.
    """

    all: list[dict[str, Any]]
    chosen: str
    repositories: list[dict[str, Any]]
    left_out: int = 0

    def languages(self) -> list[str]:
        """The languages of its files, the most frequent first."""
        counts: Counter[str] = Counter()
        for repository in self.repositories:
            counts.update(repository["languages"])
        return [language for language, _ in counts.most_common()]


async def projects_of(site: Site, request: Request) -> Projects:
    """The project that the address names; else the caller's, or if nothing is indexed in it, the
    project that was indexed last.

    Raises:
        ProjectNotFound: the address names an unknown project.
    """
    reply = await site.call(request, "project", operation="list", limit=_MOST)
    listed = _with_ids(reply)
    chosen_id = request.query_params.get("project", "").strip()
    if not chosen_id:
        current = reply.get("project_id") or DEFAULT_ID
        has_index = any(p["project_id"] == current and p["repositories"] for p in listed)
        chosen_id = current if has_index else _last_indexed(listed) or current
    elif all(project["project_id"] != chosen_id for project in listed):
        reply_of_named = await site.call(request, "project", operation="list", project_id=chosen_id)
        listed += _with_ids(reply_of_named)
    repositories = [r for p in listed if p["project_id"] == chosen_id for r in p["repositories"]]
    return Projects(listed, chosen_id, repositories, max(reply["total"] - len(listed), 0))


def _with_ids(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The projects of a reply; the default workspace gets the id that addresses have for it."""
    return [{**p, "project_id": p["project_id"] or DEFAULT_ID} for p in reply["projects"]]


def _last_indexed(listed: list[dict[str, Any]]) -> str:
    times = {
        project["project_id"]: max(r["indexed_at"] or "" for r in project["repositories"])
        for project in listed
        if project["repositories"]
    }
    return max(times, key=lambda name: times[name], default="")
