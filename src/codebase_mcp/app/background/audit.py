"""Who called what, when, and how did it end?

Entries hold no arguments and no content. Calls do not wait for them: they are collected in memory
and written in batches, at most one transaction a second. If the database is unavailable until the
memory for them is full, further entries are dropped and counted, and the log says how many.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, LiteralString

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.background.lifespan import running
from codebase_mcp.errors import CodebaseError
from codebase_mcp.telemetry import metrics

if TYPE_CHECKING:
    from codebase_mcp.app.app import App
    from codebase_mcp.database.connection import Database

_log = logging.getLogger(__name__)

MAX_WAITING = 10_000
_WRITE_EVERY_S = 1.0
_PAUSE_AFTER_FAILURE_S = 5.0
_LAST_WRITE_S = 2.0
_DELETE_EVERY_S = 3600.0


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A call; ``outcome`` is ok, cancelled, or the code of an error."""

    at: datetime
    owner: str | None
    key_id: str | None
    peer: str | None
    tool: str
    operation: str | None
    project_id: str | None
    outcome: str
    duration_ms: float


@dataclass(slots=True)
class AuditedCall:
    """A call that has not ended; ``operation`` and ``projects`` are added while it runs."""

    tool: str
    identity: Identity
    log: AuditLog | None
    operation: str | None = None
    projects: list[str] = field(default_factory=list)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def end(self, outcome: str, seconds: float) -> None:
        """Add the call to the log, if there is a log."""
        if self.log is not None:
            caller = self.identity
            project = next(iter(self.projects), None)
            self.log.add(
                AuditEntry(
                    self.at,
                    caller.owner,
                    caller.key_id,
                    caller.peer,
                    self.tool,
                    self.operation,
                    project,
                    outcome,
                    seconds * 1000,
                )
            )


class AuditLog:
    """Collects entries and writes them to the catalogue, where they stay for ``keep_days``."""

    def __init__(self, keep_days: int, *, max_waiting: int = MAX_WAITING) -> None:
        self._keep_days = keep_days
        self._max_waiting = max_waiting
        self._waiting: list[AuditEntry] = []
        self._dropped = 0
        self._has_entries = asyncio.Event()
        self._deleted_at = float("-inf")

    def add(self, entry: AuditEntry) -> None:
        """Collect an entry; it is dropped if too many wait."""
        if len(self._waiting) >= self._max_waiting:
            self._dropped += 1
            metrics.AUDIT_ENTRIES_DROPPED.add()
            return
        self._waiting.append(entry)
        self._has_entries.set()

    @asynccontextmanager
    async def writing(self, open_app: Callable[[], Awaitable[App]]) -> AsyncIterator[None]:
        """Write entries while the block runs, and the rest at its end."""
        try:
            async with running(self._run(open_app), "The audit log"):
                yield
        finally:
            if self._waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_WRITE_S):
                        await self._try_to_write(open_app)
            if self._waiting:
                _log.warning("%d entries of the audit log are lost", len(self._waiting))

    async def _run(self, open_app: Callable[[], Awaitable[App]]) -> None:
        while True:
            await self._has_entries.wait()
            await asyncio.sleep(_WRITE_EVERY_S)
            if not await self._try_to_write(open_app):
                await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)

    async def _try_to_write(self, open_app: Callable[[], Awaitable[App]]) -> bool:
        """Write the waiting entries; if that fails they stay."""
        batch = self._waiting
        self._waiting = []
        self._has_entries.clear()
        try:
            await self._write((await open_app()).database, batch)
        except BaseException as error:
            self._waiting = batch + self._waiting
            self._has_entries.set()
            if not isinstance(error, CodebaseError):
                raise
            _log.warning("The audit log cannot be written: %s", error.message)
            return False
        if self._dropped:
            _log.warning("%d entries of the audit log were dropped", self._dropped)
            self._dropped = 0
        return True

    async def _write(self, database: Database, batch: Sequence[AuditEntry]) -> None:
        queries = _queries()
        # Not astuple, which copies each value deeply: it took as long as the rest of the entry.
        rows = {
            column.name: [getattr(entry, column.name) for entry in batch]
            for column in fields(AuditEntry)
        }
        async with database.catalogue() as tx:
            await tx.execute(queries["add"], **rows)
            if time.monotonic() - self._deleted_at >= _DELETE_EVERY_S:
                await tx.execute(queries["delete_old"], days=self._keep_days)
                self._deleted_at = time.monotonic()


async def load_entries(
    database: Database, *, since: datetime, owner: str | None, project_id: str | None, limit: int
) -> list[AuditEntry]:
    """The newest ``limit`` entries since a time, from old to new; of an owner or project, or all.

    Raises:
        DatabaseUnavailable: the database is unavailable.
    """
    async with database.catalogue(readonly=True) as tx:
        rows = await tx.fetch_all(
            _queries()["entries"], since=since, owner=owner, project_id=project_id, limit=limit
        )
    return [AuditEntry(*row) for row in rows]


def _queries() -> Mapping[str, LiteralString]:
    from codebase_mcp.database.queries import load_queries  # noqa: PLC0415 - not for the start

    return load_queries("codebase_mcp.app.background", "audit.sql")
