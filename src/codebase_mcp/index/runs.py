"""What is the state of the newest index run of each repository?

A run stores its progress, so that every process can read it. A killed process cannot store that it
ended, but the lock of its repository is released with it: a run without the lock is interrupted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import CodebaseError

if TYPE_CHECKING:
    from codebase_mcp.index.plan import RunRequest

_SQL = load_queries("codebase_mcp.index", "runs.sql")

# How many errors of a run are stored; its own result has all of them.
MAX_ERRORS = 100

RunStatus = Literal["running", "interrupted", "success", "partial", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class RunState:
    """The newest run of a repository.

    An ``interrupted`` run has lost its caller or process; a user ended a ``cancelled`` run.

    ``files_done`` of ``files_total`` are compared, and read if needed; ``files_indexed`` and
    ``chunks_created`` are new in the index. ``current_file`` is the last file that an active run
    has stored.
    """

    repository_id: UUID
    operation_id: UUID
    root: str
    status: RunStatus
    files_total: int
    files_done: int
    files_indexed: int
    chunks_created: int
    current_file: str | None
    errors: tuple[str, ...]
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> RunState:
        return cls(*[*row[:9], tuple(json.loads(row[9])), *row[10:]])


@dataclass(slots=True)
class RunRecord:
    """Stores the progress of a run, from ``begin`` on."""

    database: Database
    request: RunRequest
    _is_begun: bool = False
    _total: int = 0
    _done: int = 0

    async def begin(self, tx: Transaction) -> None:
        """Replace the record of the previous run."""
        await tx.execute(
            _SQL["begin"],
            repository_id=self.request.repository_id,
            operation_id=self.request.operation_id,
            root=str(self.request.root),
            total=self._total,
            done=self._done,
        )
        self._is_begun = True

    async def plan(self, tx: Transaction, total: int, done: int, *, has_work: bool) -> None:
        """Store how many files there are, and how many of them are unchanged."""
        self._total, self._done = total, done
        if has_work or self._is_begun:
            await self.begin(tx)

    async def advance(
        self, tx: Transaction, done: int, indexed: int, chunks: int, current_file: str | None
    ) -> None:
        """Store the progress by a batch, in the transaction that stores the batch."""
        if not self._is_begun and not indexed:
            self._done += done
            return
        if not self._is_begun:
            await self.begin(tx)
        await tx.execute(
            _SQL["advance"],
            repository_id=self.request.repository_id,
            done=done,
            indexed=indexed,
            chunks=chunks,
            current_file=current_file,
        )

    async def end(self, status: RunStatus, errors: Sequence[str] = ()) -> None:
        """Store how the run ended, if possible; otherwise the released lock shows that it ended."""
        if self._is_begun:
            with suppress(CodebaseError):
                async with self.database.transaction(self.request.project) as tx:
                    await tx.execute(
                        _SQL["end"],
                        repository_id=self.request.repository_id,
                        status=status,
                        errors=json.dumps(list(errors[:MAX_ERRORS])),
                    )


@asynccontextmanager
async def recorded(record: RunRecord, *, is_requested: bool) -> AsyncIterator[None]:
    """Record a run that holds the repository's lock, and how it ended if it fails.

    The record of a run that no user requested begins when the run has something to do.
    """
    if is_requested:
        async with record.database.transaction(record.request.project) as tx:
            await record.begin(tx)
    try:
        yield
    except asyncio.CancelledError:
        await record.end("interrupted")
        raise
    except CodebaseError as error:
        await record.end("failed", [error.message])
        raise
    except Exception:
        await record.end("failed", ["The run ended with an unexpected error; see the log"])
        raise


async def load_runs(tx: Transaction, repository_id: UUID | None = None) -> list[RunState]:
    """The newest run of each repository, or of ``repository_id``, by root.

    ``tx`` must not be read-only, so that it sees commits between its statements. A run is
    interrupted if it had begun before its lock was found free, and has not ended since.
    """
    begun = {(row[0], row[1]) for row in await tx.fetch_all(_SQL["running"])}
    held = await tx.held([index_lock(number) for number, _ in begun])
    runs = []
    for row in await tx.fetch_all(_SQL["runs"], repository_id=repository_id):
        run = RunState.from_row(row)
        was_begun = (run.repository_id, run.operation_id) in begun
        if run.is_running and was_begun and index_lock(run.repository_id) not in held:
            run = replace(run, status="interrupted")
        runs.append(run)
    return runs


async def mark_cancelled(tx: Transaction, operation_id: UUID) -> None:
    """Store that a user cancelled this run."""
    await tx.execute(_SQL["cancel"], operation_id=operation_id)


async def forget_run(tx: Transaction, repository_id: UUID) -> None:
    await tx.execute(_SQL["forget"], repository_id=repository_id)
