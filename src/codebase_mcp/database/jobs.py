"""How does the job library reach the database? Through our pool, in the catalogue's schema.

Each statement is a transaction of its own, so a pooler works and the embedded server may restart. A
worker may only change a job that is still its own: after a suspend of the machine another worker
may have taken it.
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
    """Runs the library's statements; retries while the database is unavailable, if ``retries``.

    A worker has to, as otherwise the state of its job would be lost.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.retries = True

    async def open_async(self, pool: Any = None) -> None:
        """Nothing to open."""

    async def close_async(self) -> None:
        """Nothing to close."""

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
                if not self.retries:
                    raise
                await asyncio.sleep(_PAUSE_S)
            else:
                return [_readable(row) for row in rows]


class OwnJobs(JobManager):
    """The library's job manager, in which a worker only changes jobs that are still its own."""

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Store that the job has ended."""
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
        """Return the job to the queue, to be retried at that time or at once."""
        await self.connector.execute_query_async(
            query=_SQL["return_job"], job_id=job.id, worker_id=job.worker_id, retry_at=retry_at
        )


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its enum values as text: the driver returns them as bytes in binary results."""
    return {name: v.decode() if isinstance(v, bytes) else v for name, v in row.items()}
