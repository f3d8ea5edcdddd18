"""The pages of the index (repositories, index runs, files left out) and of the server's health."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from codebase_mcp.app.background.indexing import indexing_state
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.errors import CodebaseError, ProjectNotFound
from codebase_mcp.index.commits import load_refs
from codebase_mcp.index.inventory import load_details, load_inventory
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.rules import check_repository_id
from codebase_mcp.web.pages.listing import Listed, listed
from codebase_mcp.web.pages.site import DONE, Site, form_of, projects_of, redirect, require

if TYPE_CHECKING:
    from codebase_mcp.access.identity import Identity
    from codebase_mcp.app.app import App
    from codebase_mcp.app.freshness.trees import TreeState
    from codebase_mcp.index.commits import StoredRef
    from codebase_mcp.index.inventory import RepositoryDetails, RepositoryFacts

# The page does not wait longer for the comparison with the files.
_CHECK_S = 0.5
# How often a page gets the progress of a run, and how often it is checked for a new run.
_RUNNING_S, _IDLE_S = 0.4, 2.0
_LANGUAGES = 7
# Repositories on a page, and runs that are shown above them.
_PER_PAGE, _RUNS = 20, 5
_DONE = ("success", "partial")
# The most files that are listed as failed, or as holding secrets.
_FILES = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """A repository as the page shows it, with the size of each language in bytes."""

    facts: RepositoryFacts
    details: RepositoryDetails
    state: TreeState | None
    refs: list[StoredRef]
    sizes: list[tuple[str, int]]


async def index(site: Site, request: Request) -> Response:
    """The repositories of a project, with forms to index, refresh, cancel and remove."""
    require(request, "read")
    projects = await projects_of(site, request)
    app = await site.holder.get()
    try:
        part, shown = await site.run(
            request, "project", lambda app, user: _shown(app, projects.chosen, user, request)
        )
        progress = await _progress(app, projects.chosen, identity_in(request))
    except ProjectNotFound:
        if request.query_params.get("project"):
            raise
        # The default project, never indexed.
        part, shown, progress = Listed([], 0, 0, 1, 1), [], {"state": None}
    return site.page(
        request,
        "index.html",
        projects=projects,
        part=part,
        shown=shown,
        most=_FILES,
        **progress,
    )


async def events(site: Site, request: Request) -> Response:
    """The progress of index runs as server-sent events, each the HTML of a part of the page."""
    require(request, "read")
    projects = await projects_of(site, request)
    app = await site.holder.get()
    identity = identity_in(request)
    await _progress(app, projects.chosen, identity)  # an error is a response of its own

    async def stream() -> AsyncIterator[str]:
        last, was_running = "", False
        wait_s = 0.0
        while not await _is_gone(request, wait_s):
            try:
                # In a task of its own: a stream is cancelled again and again until it stops.
                call = _progress(app, projects.chosen, identity)
                progress = await site.holder.calls.run(call)
            except CodebaseError:
                return  # the browser asks again
            html = site.fragment(request, "progress.html", projects=projects, **progress)
            running = progress["state"].progress.is_indexing
            if html != last:
                yield f"data: {json.dumps(html)}\n\n"
            if was_running and not running:
                yield "event: done\ndata: 1\n\n"
            last, was_running = html, running
            yield ": alive\n\n"  # fails if the client has disconnected
            wait_s = _RUNNING_S if running else _IDLE_S

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)


async def _is_gone(request: Request, wait_s: float) -> bool:
    """Whether the client disconnects, or the server ends, within this time."""
    try:
        async with asyncio.timeout(wait_s):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


async def start(site: Site, request: Request) -> Response:
    """Index a repository, or bring its index up to date, in the background."""
    form = await form_of(request)
    project = form.get("project") or DEFAULT_ID
    reply = await site.call(
        request, "index_codebase", collection=project, repository_path=form.get("path", "")
    )
    status = reply["status"]
    return redirect(request, "/index", project=project, done=status if status in DONE else None)


async def cancel(site: Site, request: Request) -> Response:
    """Cancel the waiting and running jobs of a repository."""
    require(request, "index")
    form = await form_of(request)
    repository = UUID(check_repository_id(form.get("repository", ""), "repository"))
    project = form.get("project") or None
    await site.run(
        request, "index_codebase", lambda app, user: _cancel(app, project, repository, user)
    )
    return redirect(request, "/index", project=project, done="cancelled")


async def remove(site: Site, request: Request) -> Response:
    form = await form_of(request)
    project = form.get("project") or DEFAULT_ID
    # Without an id the tool would clear the whole project.
    repository = check_repository_id(form.get("repository", ""), "repository")
    await site.call(request, "clear_index", collection=project, repository_id=repository)
    return redirect(request, "/index", project=project, done="removed")


async def _cancel(app: App, project_id: str | None, repository: UUID, identity: Identity) -> None:
    project, _ = await app.resolver.resolve(project_id, identity)
    jobs = await app.jobs.jobs(project.schema_name, repository)
    await app.jobs.cancel([job.id for job in jobs if job.is_pending])


async def _shown(
    app: App, project_id: str, identity: Identity, request: Request
) -> tuple[Listed[RepositoryFacts], list[Shown]]:
    """The repositories on the page of the address, and what the page shows of each."""
    async with app.enter(project_id, identity, readonly=True) as opened:
        inventory = await load_inventory(opened.tx)
        part = listed(request, inventory, lambda facts: (facts.name, facts.root), _PER_PAGE)
        details = await load_details(opened.tx, [facts.id for facts in part.items])
        refs = {facts.id: await load_refs(opened.tx, facts.id) for facts in part.items}
    states = await app.freshness.check(opened.project, budget_s=_CHECK_S)
    return part, [
        Shown(
            facts,
            details[facts.id],
            states.get(facts.id),
            refs[facts.id],
            _largest(details[facts.id].sizes),
        )
        for facts in part.items
    ]


async def _progress(app: App, project_id: str, identity: Identity) -> dict[str, Any]:
    """The values of the progress template: index runs, and the repositories with pending jobs."""
    state = await indexing_state(app, project_id, identity=identity)
    jobs = await app.jobs.jobs(state.project.schema_name)
    progress = [(one, one.progress) for one in state.repositories]
    running = [one for one, now in progress if now.is_indexing]
    running.sort(key=lambda one: one.progress.phase == "waiting")
    failed = [
        one
        for one, now in progress
        if not now.is_indexing and now.last_run and now.last_run.status not in _DONE
    ]
    return {
        "state": state,
        "jobs": {job.repository_id for job in jobs if job.is_pending},
        "running": running[:_RUNS],
        "more_running": len(running[_RUNS:]),
        "failed": failed[:_RUNS],
        "more_failed": len(failed[_RUNS:]),
    }


def _largest(sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """The largest languages with their sizes, and the rest."""
    parts = list(sizes.items())
    rest = sum(size for _, size in parts[_LANGUAGES:])
    return [*parts[:_LANGUAGES], *([("others", rest)] if rest else [])]


async def status(site: Site, request: Request) -> Response:
    """The checks of ``doctor``, without its test index."""
    require(request, "read")
    projects = await projects_of(site, request)
    health = await site.call(request, "project", operation="get_health", project_id=projects.chosen)
    return site.page(request, "status.html", projects=projects, health=health)
