"""How does the job library reach the database? Over our pool, in the catalogue's schema.

Nothing is held between two statements, so a pooler may stand between and an embedded server may
start again. What a worker says about its job is heard only while the job is still its own: after a
long sleep of the machine somebody else may have it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, LiteralString

from procrastinate.connector import BaseAsyncConnector
from procrastinate.exceptions import NoResult
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from codebase_mcp.database.connection import Database
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import DatabaseUnavailable

_SQL = load_queries("codebase_mcp.database", "jobs.sql")

_PAUSE_S = 1.0


class JobsConnector(BaseAsyncConnector):
    """Runs the library's statements; while the database is away they wait for it, if it is patient.

    A worker has to be: what it could not say about a job would be lost.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_patient = True

    async def open_async(self, pool: Any = None) -> None:
        """There is nothing to open."""

    async def close_async(self) -> None:
        """There is nothing to close."""

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        await self.execute_query_all_async(query, **arguments)

    async def execute_query_one_async(
        self, query: LiteralString, **arguments: Any
    ) -> dict[str, Any]:
        rows = await self.execute_query_all_async(query, **arguments)
        if not rows:
            raise NoResult
        return rows[0]

    async def execute_query_all_async(
        self, query: LiteralString, **arguments: Any
    ) -> list[dict[str, Any]]:
        while True:
            try:
                async with self._database.catalogue() as tx:
                    rows = await tx.fetch_records(query, **arguments)
            except DatabaseUnavailable:
                if not self.is_patient:
                    raise
                await asyncio.sleep(_PAUSE_S)
            else:
                return [_readable(row) for row in rows]


class OwnJobs(JobManager):
    """The library's statements, where a worker must not speak for a job that it has lost."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """The job has ended."""
        await self.connector.execute_query_async(
            query=_SQL["finish_job"], job_id=job.id, worker_id=job.worker_id, status=status.value
        )

    async def retry_job(
        self,
        job: Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """The job goes back to the queue, to be tried again at that time or at once."""
        await self.connector.execute_query_async(
            query=_SQL["return_job"], job_id=job.id, worker_id=job.worker_id, retry_at=retry_at
        )


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its enumerated values as text: in binary results the driver leaves them bytes."""
    return {name: v.decode() if isinstance(v, bytes) else v for name, v in row.items()}
