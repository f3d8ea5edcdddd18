"""How do workers run jobs? A worker runs in a server or in a process of its own.

An idle worker waits for notifications and polls the queue once a minute. While there are jobs it
checks every three seconds whether a job has lost its worker. The job library's worker runs a job:
it sends a heartbeat every five seconds and checks every second whether the job was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from codebase_mcp.app.app import App
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.queue import DEAD_AFTER_S, HEARTBEAT_S, POLL_S, QUEUE, QueueState

if TYPE_CHECKING:
    from codebase_mcp.app.background.run_job import JobRunner

_log = logging.getLogger(__name__)

# How often an idle worker polls, in case a notification was lost …
_IDLE_S = 60.0
# … and where no notifications arrive, as behind a pooler.
_IDLE_WITHOUT_NOTIFY_S = 5.0
_ABORT_POLL_S = 1.0

# How long ended jobs can be queried.
_KEEP_HOURS = 72
_DELETE_EVERY_S = 3600.0


class Worker:
    """Runs up to ``slots`` jobs at once."""

    def __init__(self, app: App, slots: int) -> None:
        self._app = app
        self._slots = slots
        self._listener = app.jobs.listener()
        self._runner: JobRunner | None = None
        self._deleted_at = 0.0

    async def run(self, *, once: bool = False) -> None:
        """Run jobs until cancelled; with ``once`` until no job waits or runs in any process."""
        if once:
            await self._app.jobs.maintain()  # raises if the queue cannot be reached
        has_waiting = True
        while has_waiting:
            async with self._listener.listening(), asyncio.TaskGroup() as group:
                for _ in range(self._slots):
                    group.create_task(self._slot(once=once))
            # A command that queued a job just now relies on this worker, which was still running.
            has_waiting = (await self._app.jobs.maintain()).waiting > 0

    def stop_waiting(self) -> None:
        """Do not wait for the database any more when the state of a job has to be written."""
        if self._runner is not None:
            self._runner.connector.retries = False

    async def _slot(self, *, once: bool) -> None:
        is_away = False
        while True:
            event = self._listener.next_event()
            try:
                state = await self._app.jobs.maintain()
                if state.ready:
                    await self._run_jobs()
                    state = await self._app.jobs.maintain()
                    await self._delete_old()
            except CodebaseError as error:
                if not is_away:
                    _log.warning("The job queue cannot be reached: %s", error.message)
                is_away = True
                await asyncio.sleep(POLL_S)
                continue
            is_away = False
            if once and not state.waiting and not state.running:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause(state)):
                    await event.wait()

    def _pause(self, state: QueueState) -> float:
        """How long to wait if no notification comes."""
        if state.waiting or state.running:
            return min(POLL_S, state.next_in_s or POLL_S)
        return _IDLE_S if self._listener.is_connected else _IDLE_WITHOUT_NOTIFY_S

    async def _run_jobs(self) -> None:
        """Run jobs until none is ready; on cancellation the running job returns to the queue."""
        if self._runner is None:
            self._runner = await asyncio.to_thread(_open_runner, self._app)
        await self._runner.library.run_worker_async(
            queues=[QUEUE],
            concurrency=1,
            wait=False,
            listen_notify=False,
            install_signal_handlers=False,
            update_heartbeat_interval=HEARTBEAT_S,
            stalled_worker_timeout=DEAD_AFTER_S,
            abort_job_polling_interval=_ABORT_POLL_S,
            shutdown_graceful_timeout=0,
        )

    async def _delete_old(self) -> None:
        if self._runner is None or time.monotonic() - self._deleted_at < _DELETE_EVERY_S:
            return
        self._deleted_at = time.monotonic()
        await self._runner.library.job_manager.delete_old_jobs(
            _KEEP_HOURS, QUEUE, include_failed=True, include_cancelled=True, include_aborted=True
        )


def _open_runner(app: App) -> JobRunner:
    # Importing the library takes 80 ms: only when there is a job.
    from codebase_mcp.app.background.run_job import JobRunner  # noqa: PLC0415

    return JobRunner.of(app)
