"""Which project is a page about, and which others are there?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.pages.site import Site

# How many the tool lists at once; more are found by name in the address.
_MOST = 100


@dataclass(frozen=True, slots=True)
class Projects:
    """The projects that the caller sees, and the one that a page is about, by its id.

    ``repositories`` are those of that one, as the tool ``project`` replies them; ``left_out`` other
    projects are not listed.
    """

    all: list[dict[str, Any]]
    chosen: str
    repositories: list[dict[str, Any]]
    left_out: int = 0

    def repository(self, identity: str) -> dict[str, Any] | None:
        """A repository by its id."""
        return next((one for one in self.repositories if one["id"] == identity), None)

    def root_of(self, identity: str) -> str:
        """The directory of a repository."""
        found = self.repository(identity)
        return found["root"] if found else ""

    def languages(self) -> list[str]:
        """The languages of its files, the most frequent first."""
        counts: dict[str, int] = {}
        for repository in self.repositories:
            for language, count in repository["languages"].items():
                counts[language] = counts.get(language, 0) + count
        return sorted(counts, key=lambda language: -counts[language])


async def projects_of(site: Site, request: Request) -> Projects:
    """The project that the address names; else the caller's, or if nothing is indexed there the
    one that was indexed last.

    Raises:
        ProjectNotFound: the address names one that is not there.
    """
    reply = await site.call(request, "project", operation="list", limit=_MOST)
    listed = reply["projects"]
    for one in listed:
        one["project_id"] = one["project_id"] or DEFAULT_ID
    wanted = request.query_params.get("project", "").strip()
    if not wanted:
        current = reply.get("project_id") or DEFAULT_ID
        wanted = next((p["project_id"] for p in listed if p["project_id"] == current
                       and p["repositories"]), "") or _last_indexed(listed) or current  # fmt: skip
    elif all(one["project_id"] != wanted for one in listed):
        named = await site.call(request, "project", operation="list", project_id=wanted)
        listed += [{**one, "project_id": one["project_id"] or DEFAULT_ID}
                   for one in named["projects"]]  # fmt: skip
    chosen = next((one for one in listed if one["project_id"] == wanted), None)
    repositories = chosen["repositories"] if chosen else []
    return Projects(listed, wanted, repositories, max(reply["total"] - len(listed), 0))


def _last_indexed(listed: list[dict[str, Any]]) -> str:
    times = {
        one["project_id"]: max((r["indexed_at"] or "" for r in one["repositories"]), default="")
        for one in listed
        if one["repositories"]
    }
    return max(times, key=lambda name: times[name], default="")
