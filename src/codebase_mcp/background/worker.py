"""Who does the jobs? A worker: in a server, beside its calls, or a process of its own.

While nobody wants anything it only listens, and looks into the queue once a minute. While there are
jobs anywhere it looks every three seconds whether one has lost its worker. A job is done by the job
library's worker, which says every five seconds that it is there and asks every second whether the
job is still wanted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from codebase_mcp.app import App
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.queue import HEARTBEAT_S, LOOK_S, QUEUE, SILENT_S, Outlook

if TYPE_CHECKING:
    from codebase_mcp.background.doing import Desk

_log = logging.getLogger(__name__)

# A notification that got lost is made up for after so long …
_IDLE_S = 60.0
# … or sooner, where none can be heard: past a pooler there may be no way.
_DEAF_S = 5.0
_ABORT_POLL_S = 1.0

# Whoever asks how a run ended does so within days.
_KEEP_HOURS = 72
_CLEAN_EVERY_S = 3600.0

# What ends gives its job back; that takes a moment, and no longer than the process may take.
_END_S = 6.0


class Worker:
    """Does jobs, ``slots`` of them at once."""

    def __init__(self, app: App, slots: int) -> None:
        self._app = app
        self._slots = slots
        self._bell = app.jobs.bell()
        self._desk: Desk | None = None
        self._cleaned_at = 0.0

    async def run(self, *, once: bool = False) -> None:
        """Do jobs until cancelled, or ``once``: until none waits or runs anywhere."""
        if once:
            await self._app.jobs.tend()  # where the queue cannot be reached, the caller is told
        is_wanted = True
        while is_wanted:
            async with self._bell.listened_to(), asyncio.TaskGroup() as group:
                for _ in range(self._slots):
                    group.create_task(self._slot(once=once))
            # A command that asked a moment ago saw this worker, and relies on it.
            is_wanted = (await self._app.jobs.tend()).waiting > 0

    def end(self) -> None:
        """What is still to be said about a job has to be said at once: nobody waits any more."""
        if self._desk is not None:
            self._desk.connector.is_patient = False

    async def _slot(self, *, once: bool) -> None:
        is_away = False
        while True:
            ring = self._bell.coming()
            try:
                outlook = await self._app.jobs.tend()
                if outlook.ready:
                    await self._do_jobs()
                    outlook = await self._app.jobs.tend()
                    await self._clean()
            except CodebaseError as error:
                if not is_away:
                    _log.warning("The job queue cannot be reached: %s", error.message)
                is_away = True
                await asyncio.sleep(LOOK_S)
                continue
            is_away = False
            if once and not outlook.waiting and not outlook.running:
                return
            await _first(ring, self._pause(outlook))

    def _pause(self, outlook: Outlook) -> float:
        """How long to wait if nobody rings."""
        if outlook.waiting or outlook.running:
            return min(LOOK_S, outlook.next_in_s or LOOK_S)
        return _IDLE_S if self._bell.is_heard else _DEAF_S

    async def _do_jobs(self) -> None:
        """Do jobs until none is left that could begin; cancelled, give back the one that runs."""
        if self._desk is None:
            self._desk = await asyncio.to_thread(_open_desk, self._app)
        await self._desk.library.run_worker_async(
            queues=[QUEUE],
            concurrency=1,
            wait=False,
            listen_notify=False,
            install_signal_handlers=False,
            update_heartbeat_interval=HEARTBEAT_S,
            stalled_worker_timeout=SILENT_S,
            abort_job_polling_interval=_ABORT_POLL_S,
            shutdown_graceful_timeout=0,
        )

    async def _clean(self) -> None:
        """Forget jobs that ended long ago."""
        if self._desk is None or time.monotonic() - self._cleaned_at < _CLEAN_EVERY_S:
            return
        self._cleaned_at = time.monotonic()
        await self._desk.library.job_manager.delete_old_jobs(
            _KEEP_HOURS, QUEUE, include_failed=True, include_cancelled=True, include_aborted=True
        )


@asynccontextmanager
async def working(app: App, slots: int) -> AsyncIterator[None]:
    """Do jobs for as long as the block runs; at its end the one that runs is given back."""
    if not slots:
        yield
        return
    worker = Worker(app, slots)
    app.jobs.workers_here += slots
    task = asyncio.create_task(worker.run())
    task.add_done_callback(_report)
    try:
        yield
    finally:
        app.jobs.workers_here -= slots
        worker.end()
        task.cancel()
        await asyncio.wait([task], timeout=_END_S)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        _log.error("The job worker ended by an unforeseen error", exc_info=error)


async def _first(ring: asyncio.Event, pause_s: float) -> None:
    """Wait for the ring, but no longer than the pause."""
    try:
        async with asyncio.timeout(pause_s):
            await ring.wait()
    except TimeoutError:
        return


def _open_desk(app: App) -> Desk:
    # The library takes 80 ms to import: only a server that has a job pays for it.
    from codebase_mcp.background.doing import Desk  # noqa: PLC0415

    return Desk.of(app)
