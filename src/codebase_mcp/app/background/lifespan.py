"""What does a server do in the background while it is open?

Light to import: the parts that do the work are imported when the app opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebase_mcp.errors import CodebaseError, InvalidInput, PermissionDenied, ProjectNotFound
from codebase_mcp.settings.loading import Settings

if TYPE_CHECKING:
    from codebase_mcp.app.app import App

_log = logging.getLogger(__name__)

# How long a worker that stops may take to return its job to the queue.
_END_S = 6.0


def background_lifespan(
    settings: Settings, process: int = 0
) -> Callable[[App], AbstractAsyncContextManager[None]]:
    """The background work of a process; ``process`` is its number among those of an address."""

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            slots = job_slots(settings.jobs, process, settings.http_workers)
            if slots:
                await stack.enter_async_context(working(app, slots))
                await stack.enter_async_context(backfilling(app))
                await stack.enter_async_context(refreshing(app))
            if settings.watch:
                await stack.enter_async_context(watching(app))
            yield

    return lifespan


@asynccontextmanager
async def running(
    work: Coroutine[Any, Any, None], name: str, end_s: float | None = None
) -> AsyncIterator[None]:
    """Run ``work`` during the block; then cancel it and wait for its end, at most ``end_s``."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda task: _report(task, name))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=end_s)


@asynccontextmanager
async def working(app: App, slots: int) -> AsyncIterator[None]:
    """Run up to ``slots`` jobs at once; at the end running jobs go back to the queue."""
    from codebase_mcp.app.background.worker import Worker  # noqa: PLC0415 - not for the handshake

    worker = Worker(app, slots)
    app.jobs.workers_here += slots
    async with running(worker.run(), "The job worker", _END_S):
        try:
            yield
        finally:
            app.jobs.workers_here -= slots
            worker.stop_waiting()


@asynccontextmanager
async def backfilling(app: App) -> AsyncIterator[None]:
    """Backfill the vectors of the secondary model, if there is one."""
    if not app.models.has_secondary:
        yield
        return
    from codebase_mcp.app.background.backfill import Backfill  # noqa: PLC0415 - not for the handshake

    backfill = Backfill(app.database, app.models)
    async with running(backfill.run_forever(), "The backfill of the secondary model"):
        yield


@asynccontextmanager
async def refreshing(app: App) -> AsyncIterator[None]:
    """Queue updates of clones that are older than the setting allows, if it does."""
    if not app.settings.refresh_minutes:
        yield
        return
    from codebase_mcp.app.background.refresh import refresh_forever  # noqa: PLC0415 - seldom used

    async with running(refresh_forever(app), "The refresh of clones"):
        yield


@asynccontextmanager
async def watching(app: App) -> AsyncIterator[None]:
    """Watch every repository on this machine."""
    # Not for the handshake.
    from codebase_mcp.app.freshness.watcher import Watcher  # noqa: PLC0415
    from codebase_mcp.database.projects import list_projects  # noqa: PLC0415

    watcher = Watcher(app.database, app.trees, lambda: list_projects(app.database))
    async with running(watcher.run(), "The watcher"):
        yield


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
            if has_jobs or settings.watch or await asyncio.to_thread(has_database, settings):
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
    if settings.watch or has_jobs or not over_http:
        async with running(open_soon(), "The start of background work"):
            yield
    else:
        yield


def has_database(settings: Settings) -> bool:
    """Whether a database for searches exists; a warm start must not create it."""
    if "code" not in settings.toolsets:
        return False
    from codebase_mcp.database.placement import has_cluster  # noqa: PLC0415 - not for the handshake

    return settings.database_url is not None or has_cluster(settings.data_dir)


def prepare_to_index(settings: Settings) -> None:
    """Start the slowest preparations of the first index run on a machine."""
    # Not for the handshake, nor before a database is started.
    from codebase_mcp.secrets.detect import load_rules_early  # noqa: PLC0415
    from codebase_mcp.settings.repository import apply_to_process  # noqa: PLC0415

    apply_to_process(settings)
    load_rules_early()


async def warm_up_search(app: App) -> None:
    """Run a search, so that the client's first search finds open connections and cached tables."""
    # Not for the handshake.
    from codebase_mcp.access.identity import Identity  # noqa: PLC0415
    from codebase_mcp.search.memory_indexes import return_freed_memory  # noqa: PLC0415

    directory = app.settings.project_dir or Path.cwd()
    with suppress(ProjectNotFound, PermissionDenied, InvalidInput):  # the next call gets the error
        await app.search(
            "where does the program begin", identity=Identity(directory=directory), may_index=False
        )
    await asyncio.to_thread(return_freed_memory)


def job_slots(jobs: int, process: int, processes: int) -> int:
    """How many of a server's concurrent jobs this process runs."""
    return jobs // processes + (process < jobs % processes)


def _has_secondary_model(settings: Settings) -> bool:
    from codebase_mcp.settings.choices import provider_of  # noqa: PLC0415 - not for the handshake

    return provider_of(settings) != "static"


def _report(task: asyncio.Task[None], name: str) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log.error("%s ended with an unexpected error", name, exc_info=error)
