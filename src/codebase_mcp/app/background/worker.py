"""How do workers run jobs? A worker runs in a server or in a process of its own.

A command starts such a process for jobs that outlive it. The process ends when no job is left, and
logs to ``worker.log`` in the data folder.

An idle worker waits for notifications and polls the queue once a minute. While there are jobs it
checks every three seconds whether a job has lost its worker. The job library's worker runs a job:
it sends a heartbeat every five seconds and checks every second whether the job was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.app.app import App
from codebase_mcp.database.supervisor import open_file
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.queue import DEAD_AFTER_S, HEARTBEAT_S, POLL_S, QUEUE, QueueState
from codebase_mcp.settings.loading import Settings, environment_for_child

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


LOG = "worker.log"

# A worker starts within two seconds; a busy machine may take longer.
_START_TIMEOUT_S = 30.0
_POLL_S = 0.05

# Enough to explain a failure; older lines are dropped.
_LOG_BYTES = 1 << 20


def allow_worker_start(app: App) -> None:
    """Start a worker when a job is queued and none runs, unless the settings forbid it."""

    async def start(wait: bool) -> bool:
        log = app.settings.data_dir / LOG
        process = _start(app.settings, log)
        if not wait:
            return False
        deadline = time.monotonic() + _START_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            if await app.jobs.workers():
                return True
            await asyncio.sleep(_POLL_S)
        _log.warning("No worker could be started; see %s", log)
        return False

    if app.settings.jobs:
        app.jobs.start_worker = start


def _start(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    """Start a worker in a session of its own and in the root directory, so that it blocks none."""
    log.parent.mkdir(parents=True, exist_ok=True)
    written = open_file(str(log), os.O_WRONLY | os.O_APPEND)
    try:
        if os.fstat(written).st_size > _LOG_BYTES:
            os.ftruncate(written, 0)
        return subprocess.Popen(
            # -P: do not import modules from the directory that the command runs in.
            [sys.executable, "-P", "-m", "codebase_mcp.cli.main", "worker", "--once"],
            cwd="/",
            env=environment_for_child(settings),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    finally:
        os.close(written)
