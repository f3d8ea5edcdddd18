"""How do tools and commands start background indexing, query it and clear an index?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource
from codebase_mcp.app.app import App
from codebase_mcp.app.background.progress import (
    IndexingProgress,
    RepositoryProgress,
    by_repository,
    combined,
)
from codebase_mcp.database.naming import DEFAULT_ID
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import NotFound
from codebase_mcp.index.inventory import count_items, load_repositories
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.index.runs import RunState, load_runs
from codebase_mcp.index.secondary_model import SecondaryModelState, load_state
from codebase_mcp.settings.repository import repository_at, resolve_for

# Indexing an unchanged repository takes less, so the reply can hold its result.
_SHORT_WAIT_S = 0.3
_POLL_S = 0.02

# A script's next command relies on the run, so a command waits this long until it has begun.
_BEGIN_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Started:
    """A job as it is now, and its run if that has begun.

    ``has_worker`` is False if no worker can run it.
    """

    job: IndexJob
    run: RunState | None
    project: Project
    project_source: ProjectSource
    has_worker: bool


@dataclass(frozen=True, slots=True)
class IndexingState:
    """The progress of a project in total and of each of its repositories.

    ``has_worker`` is False if jobs wait and no worker is there to run them.
    """

    project: Project
    progress: IndexingProgress
    repositories: list[RepositoryProgress]
    secondary_model: SecondaryModelState | None = None
    has_worker: bool = True


async def start_indexing(
    app: App,
    repo_path: str | Path,
    project_id: str | None = None,
    *,
    name: str | None = None,
    force: bool = False,
    depth: int | None = None,
    identity: Identity = ANONYMOUS,
    wait_s: float = _SHORT_WAIT_S,
) -> Started:
    """Queue an index run of a repository, and wait up to ``wait_s`` for its end.

    Raises:
        InvalidInput: the path is not a readable directory, the project id is invalid, or the
            repository's context file is.
        Conflict: the project would share its schema with another.
        PermissionDenied: the caller may not name the path, or no schema can be created.
        Overloaded: too many jobs are waiting.
    """
    root = await asyncio.to_thread(resolve_for, identity, app.settings, repo_path)
    await asyncio.to_thread(repository_at, app.settings, root)
    project, source = await app.resolver.resolve(project_id, identity, repository=root, create=True)
    await app.jobs.require_room()
    access = identity.access
    job = await app.jobs.enqueue(
        project,
        root,
        name=name,
        force=force,
        depth=depth,
        in_roots=not access.reads_as_server,
        roots=access.roots,
    )
    has_worker = await app.jobs.ensure_worker()
    started = Started(job, None, project, source, has_worker)
    if has_worker and wait_s and app.jobs.start_worker is not None:
        started = await _wait_for(app, started, identity, _BEGIN_TIMEOUT_S, until=_has_begun)
    return await _wait_for(app, started, identity, wait_s)


async def _wait_for(
    app: App,
    started: Started,
    identity: Identity,
    wait_s: float,
    *,
    until: Callable[[Started], bool] = lambda _: False,
) -> Started:
    """The state of a job when it has ended, ``until`` is true, or the time is up."""
    deadline = time.monotonic() + wait_s
    while True:
        jobs = await app.jobs.jobs(job_id=started.job.id)
        job = jobs[0] if jobs else replace(started.job, status="cancelled")  # it was removed
        async with app.enter(_name(started.project), identity) as entered:
            runs = await load_runs(entered.tx, job.repository_id)
        run = next((run for run in runs if run.operation_id == job.operation_id), None)
        has_worker = started.has_worker or job.status != "waiting"
        started = replace(started, job=job, run=run, has_worker=has_worker)
        if not job.is_pending or until(started) or time.monotonic() >= deadline:
            return started
        await asyncio.sleep(_POLL_S)


def _has_begun(started: Started) -> bool:
    """Whether the run has listed the files: from then on stored files can be searched."""
    return started.run is not None and started.run.files_total > 0


async def indexing_state(
    app: App,
    project_id: str | None = None,
    repository_id: UUID | None = None,
    identity: Identity = ANONYMOUS,
) -> IndexingState:
    """The progress of a project, or of a repository in it.

    Raises:
        ProjectNotFound: no such project.
        NotFound: no such repository in it.
    """
    async with app.enter(project_id, identity) as entered:
        # Jobs before runs, so that a run that begins in between is not counted twice.
        jobs = await app.jobs.jobs(entered.project.schema_name)
        runs = await load_runs(entered.tx)
        begun = await load_repositories(entered.tx)
        secondary = await load_state(
            entered.tx,
            app.models.embedder.name if app.models.has_secondary else None,
            None if repository_id is None else [repository_id],
        )
    repositories = by_repository([(r.id, r.root) for r in begun], runs, jobs)
    if repository_id is not None:
        repositories = [r for r in repositories if r.repository_id == repository_id]
        if not repositories:
            raise NotFound(
                f"Repository not found: {repository_id}",
                hint="Leave repository_id out to see all repositories of the collection.",
                details={"repository_id": str(repository_id)},
            )
    shown = {repository.repository_id for repository in repositories}
    is_pending = any(job.is_pending and job.repository_id in shown for job in jobs)
    return IndexingState(
        entered.project,
        combined(repositories),
        repositories,
        secondary,
        has_worker=not is_pending or await app.jobs.has_worker(),
    )


async def clear_index(
    app: App,
    project_id: str | None = None,
    repository_id: UUID | None = None,
    identity: Identity = ANONYMOUS,
) -> tuple[Project, int]:
    """Remove the index of a project or of a repository in it; returns the number of items removed.

    Running jobs are cancelled first. Records stay.

    Raises:
        ProjectNotFound: no such project.
        NotFound: no such repository in it.
    """
    await app.database.make_room()
    project = (await indexing_state(app, project_id, repository_id, identity)).project
    await app.jobs.stop(project.schema_name, repository_id)
    async with app.enter(_name(project), identity, readonly=True) as entered:
        begun = [repository.id for repository in await load_repositories(entered.tx)]
        removed = [number for number in begun if repository_id in (None, number)]
        items = await count_items(entered.tx, removed)
    for number in removed:
        await app.remove(str(number), _name(project), identity)
    return project, items


def _name(project: Project) -> str:
    """The id under which any caller finds the project."""
    return project.project_id or DEFAULT_ID
