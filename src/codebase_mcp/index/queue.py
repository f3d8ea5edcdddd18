"""Which index runs are queued, which are running, and how did they end?

The queue is the job library's: a table in the catalogue that every process sees. Here jobs are
added, listed, cancelled and taken back from dead workers; ``background`` runs them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project, index_lock
from codebase_mcp.database.notifications import NotificationListener, count_listeners
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import CodebaseError, IndexingFailed, Overloaded
from codebase_mcp.index.identity import repository_id_of
from codebase_mcp.index.runs import RunState

_SQL = load_queries("codebase_mcp.index", "queue.sql")

QUEUE = "codebase_mcp"
TASK = "index"
_CHANNEL = f"procrastinate_queue_v1#{QUEUE}"
_PRESENCE = "job worker"

# A worker without a heartbeat for three intervals is dead; polling detects that within 20 seconds.
HEARTBEAT_S = 5.0
DEAD_AFTER_S = 15.0
POLL_S = 3.0

# Each repository has at most one waiting job, so this is far more than a server needs.
MAX_WAITING = 1000
_RETRY_AFTER_S = 60

# A job that has killed this many workers has failed.
MAX_CRASHES = 3

_CRASHED = IndexingFailed(
    f"The worker process ended {MAX_CRASHES} times in the middle of the run",
    hint="What was stored is searchable. Check the log of codebase-mcp worker or of the server,"
    " and the memory of the machine; then call index_codebase again.",
)

NO_WORKER = (
    "Index jobs are queued, but no worker is running. Run codebase-mcp worker, or a server with"
    " CODEBASE_MCP_JOBS of 1 or more"
)

# Cancelled jobs end within two seconds, unless their worker was killed.
_STOP_S = 5.0
_STOP_POLL_S = 0.05

JobStatus = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class IndexJob:
    """A queued index run; ``error`` is the error object of replies."""

    id: int
    operation_id: UUID
    project_id: str | None
    schema_name: str
    repository_id: UUID
    root: str
    status: JobStatus
    is_cancelling: bool
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def is_pending(self) -> bool:
        return self.status in ("waiting", "running")

    def as_run(self) -> RunState:
        """The run of a failed or cancelled job that ended before the run began."""
        return RunState(
            self.repository_id,
            self.operation_id,
            self.root,
            "failed" if self.status == "failed" else "cancelled",
            files_total=0,
            files_done=0,
            files_indexed=0,
            chunks_created=0,
            current_file=None,
            errors=(str(self.error["message"]),) if self.error else (),
            started_at=self.created_at,
            updated_at=self.created_at,
            ended_at=self.ended_at,
        )

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> IndexJob:
        return cls(*[*row[:8], json.loads(row[8] or "null"), *row[9:]])


@dataclass(frozen=True, slots=True)
class QueueState:
    """How many jobs are ready to start, waiting in total, and running."""

    ready: int
    waiting: int
    running: int
    next_in_s: float | None


@dataclass(slots=True)
class JobQueue:
    """The jobs of all projects of one database.

    ``workers_here`` counts the workers of this process. ``start_worker(wait)`` starts a worker; if
    ``wait`` it waits until that runs. It returns whether a worker is running.
    """

    database: Database
    workers_here: int = 0
    start_worker: Callable[[bool], Awaitable[bool]] | None = None

    async def require_room(self) -> None:
        """Check that the queue can take another job; concurrent callers may exceed it a little.

        Raises:
            Overloaded: too many are waiting.
        """
        if await self._count("count_waiting", queue=QUEUE, most=MAX_WAITING) >= MAX_WAITING:
            raise Overloaded(
                f"The server is overloaded: {MAX_WAITING} index jobs are waiting",
                hint="Nothing was queued; call again when some have ended.",
                retry_after_s=_RETRY_AFTER_S,
            )

    async def enqueue(
        self,
        project: Project,
        root: Path,
        *,
        name: str | None = None,
        force: bool = False,
        depth: int | None = None,
        in_roots: bool = False,
        roots: Sequence[str] | None = None,
    ) -> IndexJob:
        """Queue an index run; a waiting job of the same repository is updated instead.

        ``depth`` is how many commits of history it reads; None leaves that as it is. With
        ``in_roots`` the root must lie below an allowed root when the job begins, and below one of
        ``roots`` if they are given.
        """
        options = {"name": name, "depth": depth, "in_roots": in_roots or None, "roots": roots}
        lock, arguments = _job_of(project, root, force=force, **options)
        async with self.database.catalogue() as tx:
            [[job_id]] = await tx.fetch_all(
                _SQL["enqueue"],
                queue=QUEUE,
                task=TASK,
                lock=lock,
                args=arguments,
            )
        [job] = await self.jobs(job_id=job_id)
        return job

    async def enqueue_fetches(self, clones: Sequence[tuple[Project, Path]], minutes: int) -> int:
        """Queue a fetch and an index run of each clone; returns the number of new jobs.

        Clones that had a job within the last ``minutes``, or have one that is waiting or running,
        are left out, so that several processes may call this.
        """
        jobs = [_job_of(project, root, fetch=True) for project, root in clones]
        async with self.database.catalogue() as tx:
            await tx.lock("queue fetches")
            return await tx.execute(
                _SQL["enqueue_fetches"],
                queue=QUEUE,
                task=TASK,
                locks=[lock for lock, _ in jobs],
                args=[arguments for _, arguments in jobs],
                minutes=minutes,
            )

    async def jobs(
        self,
        schema_name: str | None = None,
        repository_id: UUID | None = None,
        *,
        job_id: int | None = None,
    ) -> list[IndexJob]:
        """The jobs of a project, of a repository, or all; ended jobs are kept for some days."""
        async with self.database.catalogue(readonly=True) as tx:
            rows = await tx.fetch_all(
                _SQL["jobs"],
                queue=QUEUE,
                id=job_id,
                schema_name=schema_name,
                repository_id=None if repository_id is None else str(repository_id),
            )
        return [IndexJob.from_row(row) for row in rows]

    async def cancel(self, ids: Collection[int]) -> None:
        """Remove waiting jobs from the queue and request running jobs to stop."""
        async with self.database.catalogue() as tx:
            await tx.fetch_all(_SQL["cancel"], ids=list(ids))

    async def stop(self, schema_name: str, repository_id: UUID | None = None) -> None:
        """Cancel all jobs of a project or a repository, wait for their end, and delete them.

        The wait is limited, as a job whose worker was killed does not end.
        """
        jobs = await self.jobs(schema_name, repository_id)
        ids = [job.id for job in jobs if job.is_pending]
        if ids:
            await self.cancel(ids)
            with suppress(TimeoutError):
                async with asyncio.timeout(_STOP_S):
                    while await self._count("count_running", ids=ids) > 0:  # noqa: ASYNC110 - in another process
                        await asyncio.sleep(_STOP_POLL_S)
        if jobs:
            async with self.database.catalogue() as tx:
                await tx.execute(_SQL["forget"], ids=[job.id for job in jobs])

    async def _count(self, statement: str, **parameters: object) -> int:
        async with self.database.catalogue(readonly=True) as tx:
            [[count]] = await tx.fetch_all(_SQL[statement], **parameters)
        return int(count)

    async def note_error(self, job_id: int, error: CodebaseError) -> None:
        """Store why a job failed, or has to be retried."""
        async with self.database.catalogue() as tx:
            await tx.execute(_SQL["note_error"], id=job_id, error=json.dumps(error.as_dict()))

    async def maintain(self) -> QueueState:
        """Return jobs of dead workers to the queue; the state of the queue after that."""
        async with self.database.catalogue() as tx:
            await tx.lock("tend jobs")  # earlier versions use this key too
            dead = {"queue": QUEUE, "dead_after_s": DEAD_AFTER_S}
            error = json.dumps(_CRASHED.as_dict())
            await tx.fetch_all(_SQL["end_crashed"], **dead, max_crashes=MAX_CRASHES, error=error)
            await tx.fetch_all(_SQL["return_crashed"], **dead)
            [state] = await tx.fetch_all(_SQL["state"], queue=QUEUE)
        return QueueState(*state)

    async def workers(self) -> int:
        """How many workers run in all processes, busy or idle."""
        return await count_listeners(self.database, _PRESENCE)

    async def has_worker(self) -> bool:
        """Whether a worker runs in this process or another."""
        return self.workers_here > 0 or await self.workers() > 0

    async def ensure_worker(self, *, wait: bool = True) -> bool:
        """Whether a worker runs, after starting one if needed and if this process may."""
        if await self.has_worker():
            return True
        return self.start_worker is not None and await self.start_worker(wait)

    async def request(self, project: Project, root: Path, *, wait: bool = False) -> None:
        """Queue an index run, and start a worker if needed; with ``wait`` until it runs."""
        await self.enqueue(project, root)
        await self.ensure_worker(wait=wait)

    def listener(self) -> NotificationListener:
        """Notifies a worker of new jobs; each connected listener is counted as a worker."""
        return NotificationListener(self.database, _CHANNEL, _PRESENCE)


def _job_of(
    project: Project, root: Path, *, force: bool = False, **options: Any
) -> tuple[str, str]:
    """The lock of a repository's jobs, and the arguments of a job; options of None are left out."""
    repository_id = repository_id_of(project, root)
    arguments = {
        "operation_id": str(uuid4()),
        "project_id": project.project_id,
        "schema_name": project.schema_name,
        "repository_id": str(repository_id),
        "root": str(root),
        "force": force,
    } | {key: value for key, value in options.items() if value is not None}
    return f"{project.schema_name} {index_lock(repository_id)}", json.dumps(arguments)
