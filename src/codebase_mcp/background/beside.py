"""What does a server do while nobody calls? It begins when the product is open.

Light to import: what it does is imported when the product is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from codebase_mcp.errors import CodebaseError
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
    open_app: Callable[[], Awaitable[object]],
    settings: Settings,
    *,
    over_http: bool = False,
    delay_s: float = 0.0,
) -> AsyncIterator[None]:
    """Open the product though nobody has called yet, if there may be something to do.

    Files are to be followed, or jobs and a second tier may wait for a server that sees to them.
    """

    async def soon() -> None:
        await asyncio.sleep(delay_s)
        try:
            await open_app()
        except CodebaseError as error:  # the next call tries again, and is told
            _log.warning("Nothing is done in the background yet: %s", error.message)

    works = over_http and settings.jobs > 0 and ("index" in settings.toolsets or _grows(settings))
    task = asyncio.create_task(soon()) if settings.watch or works else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def _grows(settings: Settings) -> bool:
    from codebase_mcp.wiring import provider_of  # noqa: PLC0415 - not for the handshake

    return provider_of(settings) != "static"


def share_of(jobs: int, place: int, processes: int) -> int:
    """How many of the jobs that a server does at once fall to one of its processes."""
    return jobs // processes + (place < jobs % processes)
