"""What does a server do in the background while it is open?

Light to import: the parts that do the work are imported when the app opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.errors import CodebaseError, InvalidInput, PermissionDenied, ProjectNotFound
from codebase_mcp.settings.loading import Settings

if TYPE_CHECKING:
    from codebase_mcp.app.app import App

_log = logging.getLogger(__name__)


def background_lifespan(
    settings: Settings, process: int = 0
) -> Callable[[App], AbstractAsyncContextManager[None]]:
    """The background work of one process; ``process`` numbers those that share an address."""

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        from codebase_mcp.background.worker import working  # noqa: PLC0415 - not for the handshake

        async with AsyncExitStack() as stack:
            slots = job_slots(settings.jobs, process, settings.http_workers)
            await stack.enter_async_context(working(app, slots))
            if slots:
                from codebase_mcp.background.backfill import backfilling  # noqa: PLC0415

                await stack.enter_async_context(backfilling(app))
            if settings.watch:
                from codebase_mcp.background.watcher import watching  # noqa: PLC0415

                await stack.enter_async_context(watching(app))
            yield

    return lifespan


@asynccontextmanager
async def warm_start(
    open_app: Callable[[], Awaitable[App]],
    settings: Settings,
    *,
    over_http: bool = False,
    delay_s: float = 0.0,
) -> AsyncIterator[None]:
    """Open the app before the first call, if it may have work to do.

    That is the case where files are watched, where jobs or a backfill may be waiting, or where a
    client on stdio is likely to search soon.
    """

    async def open_soon() -> None:
        await asyncio.sleep(delay_s)
        if "code" in settings.toolsets and not over_http:
            await asyncio.to_thread(prepare_to_index, settings)
        try:
            if not (has_jobs or settings.watch or await asyncio.to_thread(has_database, settings)):
                return
            app = await open_app()
            if not over_http:
                await warm_up_search(app)
        except CodebaseError as error:  # the next call tries again and gets the error
            _log.warning("Background work has not started: %s", error.message)

    has_jobs = (
        over_http
        and settings.jobs > 0
        and ("index" in settings.toolsets or _has_secondary_model(settings))
    )
    task = asyncio.create_task(open_soon()) if settings.watch or has_jobs or not over_http else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def has_database(settings: Settings) -> bool:
    """Whether a database for searches exists; a warm start must not create one."""
    if "code" not in settings.toolsets:
        return False
    from codebase_mcp.database.placement import has_cluster  # noqa: PLC0415 - not for the handshake

    return settings.database_url is not None or has_cluster(settings.data_dir)


def prepare_to_index(settings: Settings) -> None:
    """Start at once what the first index run on a machine would wait for longest."""
    # Not for the handshake, nor before a database is started.
    from codebase_mcp.app.process_wide import apply_to_process  # noqa: PLC0415
    from codebase_mcp.secrets.detect import load_rules_early  # noqa: PLC0415

    apply_to_process(settings)
    load_rules_early()


async def warm_up_search(app: App) -> None:
    """Run one search, so that the client's first one finds open connections and cached tables."""
    # Not for the handshake.
    from codebase_mcp.projects.identity import Identity  # noqa: PLC0415
    from codebase_mcp.search.memory_indexes import return_freed_memory  # noqa: PLC0415

    directory = app.settings.project_dir or Path.cwd()
    with suppress(ProjectNotFound, PermissionDenied, InvalidInput):  # the next call gets the error
        await app.search(
            "where does the program begin", identity=Identity(directory=directory), may_index=False
        )
    await asyncio.to_thread(return_freed_memory)


def _has_secondary_model(settings: Settings) -> bool:
    from codebase_mcp.settings.choices import provider_of  # noqa: PLC0415 - not for the handshake

    return provider_of(settings) != "static"


def job_slots(jobs: int, process: int, processes: int) -> int:
    """How many of a server's concurrent jobs one of its processes runs."""
    return jobs // processes + (process < jobs % processes)
