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
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import CodebaseError

_SQL = load_queries("codebase_mcp.index", "runs.sql")

# How many errors of a run are stored; its own result has all of them.
MAX_ERRORS = 100

RunStatus = Literal["running", "interrupted", "success", "partial", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class RunState:
    """The newest run of a repository.

    The caller or process of an ``interrupted`` run is gone; a ``cancelled`` one was ended by a
    user.

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
        """Whether it is active."""
        return self.status == "running"

    @classmethod
    def from_row(cls, row: Sequence[object]) -> RunState:
        """From the columns of the statement ``runs``."""
        values = list(row)
        values[9] = tuple(json.loads(str(values[9])))
        return cls(*values)  # type: ignore[arg-type]


class RunRecord:
    """Stores the progress of one run, from ``begin`` on."""

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
        """Replace the record of the previous run."""
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
        """Store how many files there are, and how many of them are unchanged."""
        self._total, self._done = total, done
        if has_work or self._is_begun:
            await self.begin(tx)

    async def advance(
        self, tx: Transaction, done: int, indexed: int, chunks: int, current_file: str | None
    ) -> None:
        """Store the progress by one batch, in the transaction that stores the batch."""
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
        """Store how the run ended, if possible; otherwise the released lock shows that it ended."""
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
    is_requested: bool,
) -> AsyncIterator[RunRecord]:
    """The record of a run that holds the repository's lock; stores how the run ended.

    The record of a run that no user requested begins when the run has something to do.
    """
    record = RunRecord(database, project, repository_id, root, operation_id)
    if is_requested:
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
        await record.end("failed", ["The run ended with an unexpected error; see the log"])
        raise


async def load_runs(tx: Transaction, repository_id: UUID | None = None) -> list[RunState]:
    """The newest run of each repository, or of one, by root.

    ``tx`` must not be read-only, so that it sees what is committed between its statements. A run
    that had begun before its lock was found free, and has not ended after that, is interrupted.
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
    """Store that a user cancelled this run."""
    await tx.execute(_SQL["cancel"], operation_id=operation_id)


async def forget_run(tx: Transaction, repository_id: UUID) -> None:
    """Delete the run of a repository."""
    await tx.execute(_SQL["forget"], repository_id=repository_id)
