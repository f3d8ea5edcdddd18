"""How does the newest index run of each repository go, or how did it end?

The run writes it down as it goes, so that any process can tell. That it still goes on nobody can
write down for good: a killed process says nothing. But the lock of its repository falls with it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import CodebaseError

_SQL = load_queries("codebase_mcp.index", "runs.sql")

# Of the errors of a run, so many are kept; all of them are in its own answer.
MAX_ERRORS = 100

RunStatus = Literal["running", "interrupted", "success", "partial", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class RunState:
    """The newest run of a repository.

    ``interrupted`` is one whose caller or process went before it ended, ``cancelled`` one that
    somebody wanted to end.

    ``files_done`` of ``files_total`` are compared, and read where need be; ``files_indexed`` and
    ``chunks_created`` are what is new in the index. Of a run that goes on ``current_file`` is the
    last file that was stored.
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
        """Whether it goes on."""
        return self.status == "running"

    @classmethod
    def from_row(cls, row: Sequence[object]) -> RunState:
        """From the columns of the statement ``runs``."""
        values = list(row)
        values[9] = tuple(json.loads(str(values[9])))
        return cls(*values)  # type: ignore[arg-type]


class RunRecord:
    """What one run writes down about itself, once it has begun to."""

    def __init__(
        self, database: Database, project: Project, repository_id: UUID, root: Path, operation: UUID
    ) -> None:
        self._database = database
        self._project = project
        self._repository_id = repository_id
        self._root = root
        self._operation_id = operation
        self._is_begun = False
        self._total = self._done = 0

    async def begin(self, tx: Transaction) -> None:
        """Take the place of the run before it."""
        await tx.execute(
            _SQL["begin"],
            repository_id=self._repository_id,
            operation_id=self._operation_id,
            root=str(self._root),
            total=self._total,
            done=self._done,
        )
        self._is_begun = True

    async def plan(self, tx: Transaction, total: int, done: int, *, has_work: bool) -> None:
        """How many files there are, and how many of them need nothing."""
        self._total, self._done = total, done
        if has_work or self._is_begun:
            await self.begin(tx)

    async def advance(
        self, tx: Transaction, done: int, indexed: int, chunks: int, current_file: str | None
    ) -> None:
        """By how much a batch brings it forward, as part of the transaction that stores it."""
        if not self._is_begun and not indexed:
            self._done += done
            return
        if not self._is_begun:
            await self.begin(tx)
        await tx.execute(
            _SQL["advance"],
            repository_id=self._repository_id,
            done=done,
            indexed=indexed,
            chunks=chunks,
            current_file=current_file,
        )

    async def end(self, status: RunStatus, errors: Sequence[str] = ()) -> None:
        """How it ended, if that can be written down; the fallen lock tells that it did."""
        if not self._is_begun:
            return
        with suppress(CodebaseError):
            async with self._database.transaction(self._project) as tx:
                await tx.execute(
                    _SQL["end"],
                    repository_id=self._repository_id,
                    status=status,
                    errors=json.dumps(list(errors[:MAX_ERRORS])),
                )


@asynccontextmanager
async def recorded(
    database: Database,
    project: Project,
    repository_id: UUID,
    root: Path,
    operation_id: UUID,
    *,
    is_asked: bool,
) -> AsyncIterator[RunRecord]:
    """The record of a run that holds the repository's lock; one that breaks off says so.

    A run that nobody asked for begins its record when it finds something to do.
    """
    record = RunRecord(database, project, repository_id, root, operation_id)
    if is_asked:
        async with database.transaction(project) as tx:
            await record.begin(tx)
    try:
        yield record
    except asyncio.CancelledError:
        await record.end("interrupted")
        raise
    except CodebaseError as error:
        await record.end("failed", [error.message])
        raise
    except Exception:
        await record.end("failed", ["The run ended by an unforeseen error, which the log has"])
        raise


async def load_runs(tx: Transaction, repository_id: UUID | None = None) -> list[RunState]:
    """The newest run of each repository, or of one, by root.

    ``tx`` is one that may also write: it sees what was committed between its statements. A run that
    had begun before its lock was found free, and has not ended after that, will never do so.
    """
    begun = {(row[0], row[1]) for row in await tx.fetch_all(_SQL["running"])}
    held = await tx.held([index_lock(of) for of, _ in begun])
    found = []
    for row in await tx.fetch_all(_SQL["runs"], repository_id=repository_id):
        run = RunState.from_row(row)
        if (run.repository_id, run.operation_id) in begun and run.is_running:
            is_held = index_lock(run.repository_id) in held
            run = run if is_held else replace(run, status="interrupted")
        found.append(run)
    return found


async def mark_cancelled(tx: Transaction, operation_id: UUID) -> None:
    """Somebody wanted this run to end."""
    await tx.execute(_SQL["cancel"], operation_id=operation_id)


async def forget_run(tx: Transaction, repository_id: UUID) -> None:
    """What is known of the runs of a repository goes with it."""
    await tx.execute(_SQL["forget"], repository_id=repository_id)
