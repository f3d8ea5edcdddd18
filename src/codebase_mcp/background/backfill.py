"""Who adds the vectors of the secondary model? One process at a time for each project.

A server does it next to its calls, and so does a worker. It looks for new chunks every few seconds.
A model that is unavailable is tried again, after a longer pause each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import ProjectTryLocks
from codebase_mcp.database.naming import backfill_lock
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.errors import CodebaseError, EmbeddingUnavailable
from codebase_mcp.index.secondary_model import chunks_state

_log = logging.getLogger(__name__)

POLL_S = 3.0

# After the first failure; doubled with each further one.
MIN_PAUSE_S = 5.0
MAX_PAUSE_S = 300.0


class BackfillLoop:
    """Backfills the vectors of the secondary model in all projects, until it is cancelled."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._database = app.database
        self._done: dict[str, Hashable] = {}
        self._pause_s = 0.0

    async def run(self) -> None:
        """Backfill every project with new chunks, wait, and repeat."""
        async with self._database.try_locks() as locks:
            while True:
                try:
                    await self._round(locks)
                    self._pause_s = 0.0
                except EmbeddingUnavailable as error:
                    self._pause_s = min(max(2 * self._pause_s, MIN_PAUSE_S), MAX_PAUSE_S)
                    _log.warning(
                        "The secondary model is unavailable; next try in %.0f s: %s",
                        self._pause_s,
                        error.message,
                    )
                except CodebaseError as error:
                    _log.info("Projects cannot be listed: %s", error.message)
                await asyncio.sleep(self._pause_s or POLL_S)

    async def _round(self, locks: ProjectTryLocks) -> None:
        await locks.check()
        for project in await list_projects(self._database):
            try:
                await self._backfill(locks, project)
            except EmbeddingUnavailable:
                raise  # the model is unavailable for every project
            except CodebaseError as error:  # such as a project that was dropped
                _log.info("%s is skipped: %s", project.schema_name, error.message)

    async def _backfill(self, locks: ProjectTryLocks, project: Project) -> None:
        async with self._database.transaction(project, readonly=True) as tx:
            state = await chunks_state(tx)
        if not state or self._done.get(project.schema_name) == state:
            return
        if not await locks.acquire(project, backfill_lock()):
            return
        try:
            await self._app.backfill.run(project)
        finally:
            await locks.release(project, backfill_lock())
        self._done[project.schema_name] = state


@asynccontextmanager
async def backfilling(app: App) -> AsyncIterator[None]:
    """Backfill while the block runs, if a secondary model is configured."""
    if not app.models.has_secondary:
        yield
        return
    task = asyncio.create_task(BackfillLoop(app).run())
    task.add_done_callback(_report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log.error("The backfill of the secondary model has stopped", exc_info=error)
