"""What does a server do while nobody calls? It begins when the product is open.

Light to import: what it does is imported when the product is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.errors import CodebaseError, InvalidInput, PermissionDenied, ProjectNotFound
from codebase_mcp.settings import Settings

if TYPE_CHECKING:
    from codebase_mcp.app import App

_log = logging.getLogger(__name__)


def beside(
    settings: Settings, place: int = 0
) -> Callable[[App], AbstractAsyncContextManager[None]]:
    """What the process at this place does, of those that answer at one address."""

    @asynccontextmanager
    async def going_on(app: App) -> AsyncIterator[None]:
        from codebase_mcp.background.worker import working  # noqa: PLC0415 - not for the handshake

        async with AsyncExitStack() as stack:
            slots = share_of(settings.jobs, place, settings.http_workers)
            await stack.enter_async_context(working(app, slots))
            if slots:
                from codebase_mcp.background.growing import growing  # noqa: PLC0415

                await stack.enter_async_context(growing(app))
            if settings.watch:
                from codebase_mcp.background.watcher import watching  # noqa: PLC0415

                await stack.enter_async_context(watching(app))
            yield

    return going_on


@asynccontextmanager
async def opened_early(
    open_app: Callable[[], Awaitable[App]],
    settings: Settings,
    *,
    over_http: bool = False,
    delay_s: float = 0.0,
) -> AsyncIterator[None]:
    """Open the product though nobody has called yet, if there may be something to do.

    Files are to be followed, jobs and a second tier may wait for a server that sees to them, or a
    client on stdio will soon search.
    """

    async def soon() -> None:
        await asyncio.sleep(delay_s)
        try:
            if not (works or settings.watch or await asyncio.to_thread(may_search, settings)):
                return
            app = await open_app()
            if not over_http:
                await search_once(app)
        except CodebaseError as error:  # the next call tries again, and is told
            _log.warning("Nothing is done in the background yet: %s", error.message)

    works = over_http and settings.jobs > 0 and ("index" in settings.toolsets or _grows(settings))
    task = asyncio.create_task(soon()) if settings.watch or works or not over_http else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def may_search(settings: Settings) -> bool:
    """Whether there is a database already: no server makes one that nobody uses."""
    if "code" not in settings.toolsets:
        return False
    from codebase_mcp.database.placement import is_made  # noqa: PLC0415 - not for the handshake

    return settings.database_url is not None or is_made(settings.data_dir)


async def search_once(app: App) -> None:
    """Search, so that the first question of a client finds connections and tables in memory."""
    from codebase_mcp.projects.identity import Identity  # noqa: PLC0415 - not for the handshake

    directory = app.settings.project_dir or Path.cwd()
    with suppress(ProjectNotFound, PermissionDenied, InvalidInput):  # the next call is told
        await app.search("where does the program begin", identity=Identity(directory=directory))


def _grows(settings: Settings) -> bool:
    from codebase_mcp.wiring import provider_of  # noqa: PLC0415 - not for the handshake

    return provider_of(settings) != "static"


def share_of(jobs: int, place: int, processes: int) -> int:
    """How many of the jobs that a server does at once fall to one of its processes."""
    return jobs // processes + (place < jobs % processes)
