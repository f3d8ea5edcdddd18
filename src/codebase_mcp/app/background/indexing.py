"""How do tools and commands start background indexing, query it and clear an index?

The progress of a repository is computed from its newest run and its jobs.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource
from codebase_mcp.app.app import App
from codebase_mcp.database.naming import DEFAULT_ID, Project
from codebase_mcp.errors import NotFound
from codebase_mcp.index.inventory import count_items, load_repositories
from codebase_mcp.index.progress import Phase, estimate_seconds_left, percent, phase_of
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.index.runs import RunState, load_runs
from codebase_mcp.index.secondary_model import SecondaryModelState, load_state
from codebase_mcp.settings.repository import repository_at, resolve_for

# Indexing an unchanged repository takes less, so the reply can hold its result.
_SHORT_WAIT_S = 0.3
_POLL_S = 0.02

# A script's next command relies on the run, so a command waits this long until it has begun.
_BEGIN_TIMEOUT_S = 10.0


# From the phase with most left to do.
_PHASES: tuple[Phase, ...] = ("waiting", "listing", "indexing", "finishing")


@dataclass(frozen=True, slots=True)
class IndexingProgress:
    """Progress of indexing; ``queued`` if a job waits.

    ``seconds_left`` is None as long as the ``phase`` is waiting or listing. ``last_run`` is the run
    that ended last, or a job that ended before its run began.
    """

    is_indexing: bool = False
    queued: bool = False
    files_done: int = 0
    files_total: int = 0
    current_file: str | None = None
    seconds_left: int | None = 0
    phase: Phase = "idle"
    last_run: RunState | None = None

    @property
    def percent(self) -> float:
        return percent(self.files_done, self.files_total)


@dataclass(frozen=True, slots=True)
class RepositoryProgress:
    """A repository and its progress."""

    repository_id: UUID
    root: str
    progress: IndexingProgress


def by_repository(
    repositories: Iterable[tuple[UUID, str]], runs: Iterable[RunState], jobs: Iterable[IndexJob]
) -> list[RepositoryProgress]:
    """The progress of each repository that is indexed, being indexed or queued; sorted by root.

    ``jobs`` are sorted from oldest to newest.
    """
    roots = dict(repositories)
    run_of: dict[UUID, RunState] = {}
    jobs_of: dict[UUID, list[IndexJob]] = defaultdict(list)
    for run in runs:
        roots.setdefault(run.repository_id, run.root)
        run_of[run.repository_id] = run
    for job in jobs:
        roots.setdefault(job.repository_id, job.root)
        jobs_of[job.repository_id].append(job)
    return sorted(
        (
            RepositoryProgress(number, root, _progress_of(run_of.get(number), jobs_of[number]))
            for number, root in roots.items()
        ),
        key=lambda repository: repository.root,
    )


def combined(repositories: Sequence[RepositoryProgress]) -> IndexingProgress:
    """The total of the repositories being indexed, or else of all, with the run that ended last.

    The phase is that of the repository that has most left to do.
    """
    progress = [repository.progress for repository in repositories]
    going = [p for p in progress if p.is_indexing]
    counted = going or progress
    left = [p.seconds_left for p in going]
    return IndexingProgress(
        is_indexing=bool(going),
        queued=any(p.queued for p in going),
        files_done=sum(p.files_done for p in counted),
        files_total=sum(p.files_total for p in counted),
        current_file=next((p.current_file for p in going if p.current_file), None),
        seconds_left=None if None in left else sum(s for s in left if s is not None),
        phase=min((p.phase for p in going), key=_PHASES.index, default="idle"),
        last_run=_latest([p.last_run for p in progress if p.last_run is not None]),
    )


def _progress_of(run: RunState | None, jobs: Sequence[IndexJob]) -> IndexingProgress:
    """The progress of a repository, from its newest run and its jobs."""
    pending = [job for job in jobs if job.is_pending]
    is_running = run is not None and run.is_running
    counted = run
    if run is not None and pending and not is_running:
        # The job may continue the run of another process; else it begins anew.
        is_same = any(job.operation_id == run.operation_id for job in pending)
        counted = run if is_same else None
    phase = _phase(counted, pending)
    return IndexingProgress(
        is_indexing=is_running or bool(pending),
        queued=any(job.status == "waiting" for job in pending),
        files_done=counted.files_done if counted else 0,
        files_total=counted.files_total if counted else 0,
        current_file=run.current_file if run is not None and is_running else None,
        seconds_left=_seconds_left(phase, run),
        phase=phase,
        last_run=_last_run(run, [job for job in jobs if not job.is_pending]),
    )


def _phase(run: RunState | None, pending: Sequence[IndexJob]) -> Phase:
    """The phase of a run and its jobs; a job goes on after its run has stored all files."""
    if run is not None and run.is_running:
        return phase_of(run.files_done, run.files_total)
    if any(job.status == "waiting" for job in pending):
        return "waiting"
    if not pending:
        return "idle"
    has_stored = run is not None and run.status in ("success", "partial")
    return "finishing" if has_stored else "listing"


def _seconds_left(phase: Phase, run: RunState | None) -> int | None:
    """An estimate of the seconds that are left, None before the files are listed."""
    if phase == "idle":
        return 0
    if run is None or phase in ("waiting", "listing"):
        return None
    seconds = (run.updated_at - run.started_at).total_seconds()
    return estimate_seconds_left(run.files_total - run.files_done, run.files_indexed, seconds)


def _last_run(run: RunState | None, ended: Sequence[IndexJob]) -> RunState | None:
    """The run, or the last job if that ended before its run began, whichever ended last."""
    ends = [] if run is None or run.is_running else [run]
    job = ended[-1] if ended else None
    if (
        job is not None
        and job.status in ("failed", "cancelled")
        and (run is None or run.operation_id != job.operation_id or run.status == "interrupted")
    ):
        ends.append(job.as_run())
    return _latest(ends)


def _latest(ends: Sequence[RunState]) -> RunState | None:
    return max(ends, key=lambda end: end.ended_at.timestamp() if end.ended_at else 0, default=None)


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
