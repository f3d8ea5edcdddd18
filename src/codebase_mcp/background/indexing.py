"""What do tools and the shell ask of background indexing? To start, to say how far, to clear."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from codebase_mcp.app import App
from codebase_mcp.background.progress import Progress, RepositoryProgress, by_repository, together
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import NotFound
from codebase_mcp.index.holdings import count_holdings, repositories_of
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.index.runs import RunState, load_runs
from codebase_mcp.index.second_tier import TierState, load_state
from codebase_mcp.projects.identity import NOBODY, Identity
from codebase_mcp.projects.resolution import ProjectSource
from codebase_mcp.repository_settings import repository_at
from codebase_mcp.source.root import resolve_root

# An unchanged repository is done sooner: then the answer says so.
_SHORT_S = 0.3
_POLL_S = 0.02

# A shell's next command relies on the run: its worker has so long to begin it.
_BEGIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Started:
    """A job as it is now, and its run if that has begun.

    ``is_attended`` is False where no worker is there to do it.
    """

    job: IndexJob
    run: RunState | None
    project: Project
    project_source: ProjectSource
    is_attended: bool


@dataclass(frozen=True, slots=True)
class IndexingState:
    """How far a project is: in all, and each of its repositories.

    ``is_attended`` is False where jobs wait and no worker is there to do them.
    """

    project: Project
    project_source: ProjectSource
    progress: Progress
    repositories: list[RepositoryProgress]
    second_tier: TierState | None = None
    is_attended: bool = True


async def start_indexing(
    app: App,
    repo_path: str | Path,
    project_id: str | None = None,
    *,
    name: str | None = None,
    force: bool = False,
    depth: int | None = None,
    identity: Identity = NOBODY,
    wait_s: float = _SHORT_S,
) -> Started:
    """Let a worker index a repository; what is done within ``wait_s`` is waited for.

    Raises:
        InvalidInput: the path is no readable directory, the project id is none, or the
            repository's context file is wrong.
        Conflict: the project would share its schema with another.
        PermissionDenied: the project's schema cannot be created.
    """
    root = await asyncio.to_thread(resolve_root, str(repo_path))
    await asyncio.to_thread(repository_at, app.settings, root)
    project, source = await app.resolver.resolve(project_id, identity, repository=root, create=True)
    job = await app.jobs.enqueue(project, root, name=name, force=force, depth=depth)
    is_attended = await app.jobs.see_to_worker()
    started = Started(job, None, project, source, is_attended)
    if is_attended and wait_s and app.jobs.start_worker is not None:
        started = await _followed(app, started, identity, _BEGIN_S, is_enough=_has_begun)
    return await _followed(app, started, identity, wait_s)


async def _followed(
    app: App,
    started: Started,
    identity: Identity,
    wait_s: float,
    *,
    is_enough: Callable[[Started], bool] = lambda _: False,
) -> Started:
    """What has become of a job when it has ended, it is enough, or the time is up."""
    deadline = time.monotonic() + wait_s
    while True:
        found = await app.jobs.jobs(job_id=started.job.id)
        job = found[0] if found else replace(started.job, status="cancelled")  # it was removed
        async with app.enter(_name(started.project), identity) as here:
            runs = await load_runs(here.tx, job.repository_id)
        run = next((run for run in runs if run.operation_id == job.operation_id), None)
        is_attended = started.is_attended or job.status != "waiting"
        started = replace(started, job=job, run=run, is_attended=is_attended)
        if not job.is_pending or is_enough(started) or time.monotonic() >= deadline:
            return started
        await asyncio.sleep(_POLL_S)


def _has_begun(started: Started) -> bool:
    """Whether the run knows its files: from then on what is stored so far can be searched."""
    return started.run is not None and started.run.files_total > 0


async def indexing_state(
    app: App,
    project_id: str | None = None,
    repository_id: UUID | None = None,
    identity: Identity = NOBODY,
) -> IndexingState:
    """How far the indexing of a project is, or of one of its repositories.

    Raises:
        ProjectNotFound: no such project.
        NotFound: no such repository in it.
    """
    async with app.enter(project_id, identity) as here:
        # The jobs first: a run that began after them is seen with its job, or without, not twice.
        jobs = await app.jobs.jobs(here.project.schema_name)
        runs = await load_runs(here.tx)
        known = await repositories_of(here.tx)
        tier = await load_state(
            here.tx,
            app.models.embedder.name if app.models.has_secondary else None,
            None if repository_id is None else [repository_id],
        )
    found = by_repository(known, runs, jobs)
    if repository_id is not None:
        found = [one for one in found if one.repository_id == repository_id]
        if not found:
            raise _no_such_repository(repository_id)
    shown = {one.repository_id for one in found}
    is_pending = any(job.is_pending and job.repository_id in shown for job in jobs)
    is_attended = not is_pending or await app.jobs.is_attended()
    return IndexingState(here.project, here.source, together(found), found, tier, is_attended)


async def clear_index(
    app: App,
    project_id: str | None = None,
    repository_id: UUID | None = None,
    identity: Identity = NOBODY,
) -> tuple[Project, int]:
    """Remove what is indexed of a project, or of one repository; how many items that were.

    What is being indexed is given up first. Records stay.

    Raises:
        ProjectNotFound: no such project.
        NotFound: no such repository in it.
    """
    state = await indexing_state(app, project_id, repository_id, identity)
    project = state.project
    await app.jobs.stop(project.schema_name, repository_id)
    async with app.enter(_name(project), identity, readonly=True) as here:
        indexed = [of for of, _ in await repositories_of(here.tx)]
        wanted = [of for of in indexed if repository_id in (None, of)]
        items = await count_holdings(here.tx, wanted)
    for of in wanted:
        await app.remove(str(of), _name(project), identity)
    return project, items


def _name(project: Project) -> str:
    """What names a project that was found, whoever asks."""
    return project.project_id or DEFAULT_ID


def _no_such_repository(repository_id: UUID) -> NotFound:
    return NotFound(
        f"Repository not found: {repository_id}",
        hint="Leave repository_id out to see all repositories of the collection.",
        details={"repository_id": str(repository_id)},
    )
