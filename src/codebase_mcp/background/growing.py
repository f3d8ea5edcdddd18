"""Who adds the stronger model's vectors? Of the processes that have it, one for each project.

A server does it beside its calls, and so does a worker. Every few seconds it looks whether a
project has new chunks. A model that is away is asked again, after a longer pause each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from codebase_mcp.app import App
from codebase_mcp.database.connection import ProjectClaims
from codebase_mcp.database.naming import grow_lock
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.errors import CodebaseError, EmbeddingUnavailable
from codebase_mcp.index.second_tier import chunks_state

_log = logging.getLogger(__name__)

POLL_S = 3.0

# After the first failure, doubled with each further one.
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0


class Growth:
    """Sees to the second tier of all projects, until it is cancelled."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._database = app.jobs.database
        self._done: dict[str, Hashable] = {}
        self._pause_s = 0.0

    async def run(self) -> None:
        """Look, grow what has something to grow, and wait."""
        async with self._database.claims() as claims:
            while True:
                try:
                    await self._round(claims)
                    self._pause_s = 0.0
                except EmbeddingUnavailable as error:
                    self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
                    _log.warning(
                        "The second tier waits, for %.0f s: %s", self._pause_s, error.message
                    )
                except CodebaseError as error:
                    _log.info("Projects cannot be looked at: %s", error.message)
                await asyncio.sleep(self._pause_s or POLL_S)

    async def _round(self, claims: ProjectClaims) -> None:
        await claims.check()
        for project in await list_projects(self._database):
            try:
                await self._see_to(claims, project)
            except EmbeddingUnavailable:
                raise  # it is away for all of them
            except CodebaseError as error:  # such as a project that was dropped
                _log.info("%s is left alone: %s", project.schema_name, error.message)

    async def _see_to(self, claims: ProjectClaims, project: Project) -> None:
        async with self._database.transaction(project, readonly=True) as tx:
            state = await chunks_state(tx)
        if not state or self._done.get(project.schema_name) == state:
            return
        if not await claims.take(project, grow_lock()):
            return
        try:
            await self._app.grower.grow(project)
        finally:
            await claims.give(project, grow_lock())
        self._done[project.schema_name] = state


@asynccontextmanager
async def growing(app: App) -> AsyncIterator[None]:
    """See to the second tier for as long as the block runs, if there is one."""
    if not app.models.has_secondary:
        yield
        return
    task = asyncio.create_task(Growth(app).run())
    task.add_done_callback(_report)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log.error("The second tier does not grow any more", exc_info=error)
