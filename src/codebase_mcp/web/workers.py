"""Runs several server processes on one address; they share its sockets.

Each worker is a complete server with its own database connections, and is replaced when it dies.
Workers do not share sessions, so older revisions of the protocol are served without them, and SSE
is not available.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import MutableSequence, Sequence
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

from codebase_mcp import telemetry
from codebase_mcp.app.background.lifespan import background_lifespan
from codebase_mcp.errors import InternalError
from codebase_mcp.processes import block_sigint_in_children, on_parent_exit
from codebase_mcp.settings.loading import Settings, share_metrics_in
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.http import asgi_app_of
from codebase_mcp.web.listening import serve_http
from codebase_mcp.web.pages.apps import server_with_apps
from codebase_mcp.web.sharing import ABSENT, Share, SharedListener
from codebase_mcp.web.shutdown import EXIT_FORCED, LIMIT_S, Shutdown

_log = logging.getLogger(__name__)

_POLL_S = 0.2
# The rest of the time limit is for workers that have to be killed.
_END_S = LIMIT_S - 0.5
# A worker that exits sooner has failed to start; after this many in a row the server gives up.
_SHORT_LIFE_S = 10.0
_SHORT_LIVES = 3


async def serve_with_workers(
    settings: Settings, sockets: Sequence[socket.socket], shutdown: Shutdown
) -> None:
    """Keep the workers running until shutdown, then stop them."""
    shared = Path(tempfile.mkdtemp(prefix="codebase-mcp-metrics-"))
    share_metrics_in(shared)
    workers: list[_Worker] = []
    short_lives = 0
    try:
        counts = get_context("spawn").RawArray("i", settings.http_workers)
        workers.extend(
            _Worker(settings, sockets, shared, counts, number)
            for number in range(settings.http_workers)
        )
        while not shutdown.has_begun:
            sentinels = [worker.process.sentinel for worker in workers]
            await asyncio.to_thread(connection.wait, sentinels, _POLL_S)
            for worker in workers:
                if worker.process.exitcode is None or shutdown.has_begun:
                    continue
                short_lives = (
                    short_lives + 1 if time.monotonic() - worker.started < _SHORT_LIFE_S else 0
                )
                _forget(worker.process, shared)
                if short_lives >= _SHORT_LIVES:
                    raise InternalError(
                        "The HTTP workers exit right after their start",
                        hint="See the log; CODEBASE_MCP_HTTP_WORKERS=1 runs without workers.",
                    )
                worker.start()
    finally:
        shutdown.begin()
        await asyncio.to_thread(_end, [worker.process for worker in workers])
        share_metrics_in(None)
        shutil.rmtree(shared, ignore_errors=True)


class _Worker:
    """A worker, whose process is started again when it dies; ``number`` stays the same."""

    def __init__(
        self,
        settings: Settings,
        sockets: Sequence[socket.socket],
        shared: Path,
        counts: MutableSequence[int],
        number: int,
    ) -> None:
        self._arguments = (settings, sockets, shared, counts, number)
        self._counts, self._number = counts, number
        self.start()

    def start(self) -> None:
        self._counts[self._number] = ABSENT
        # Not daemonic, as daemonic processes may not have children, which index runs start.
        self.process = get_context("spawn").Process(target=_work, args=self._arguments)
        self.started = time.monotonic()
        with block_sigint_in_children():  # we terminate them ourselves
            self.process.start()


def _forget(process: SpawnProcess, shared: Path) -> None:
    """Log the end of a process, and leave its gauges out of the sums."""
    assert process.pid is not None
    telemetry.process_ended(shared, process.pid)
    _log.warning("worker %s exited with %s; starting another", process.pid, process.exitcode)


def _end(processes: Sequence[SpawnProcess]) -> None:
    """Terminate the processes, and kill those that do not exit in time."""
    deadline = time.monotonic() + _END_S
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            process.join()


def _work(
    settings: Settings,
    sockets: Sequence[socket.socket],
    shared: Path,
    counts: MutableSequence[int],
    number: int,
) -> None:
    """The main function of a worker process; ``counts`` are the open connections of each."""
    telemetry.start(
        settings.log_level,
        settings.log_format,
        secrets=settings.secrets(),
        otlp_endpoint=settings.otlp_endpoint,
    )
    telemetry.enable(shared)
    try:
        share = Share(counts, number)
        listeners = [SharedListener(listener, share) for listener in sockets]
        asyncio.run(_serve(settings, listeners, number))
    finally:
        telemetry.end()


async def _serve(settings: Settings, sockets: Sequence[socket.socket], number: int) -> None:
    shutdown = Shutdown()
    on_parent_exit(lambda: _stop_after_parent(shutdown))
    with shutdown.handle_signals():
        holder = AppHolder(settings, background_lifespan(settings, number))
        server = server_with_apps(holder, settings.toolsets)
        app = asgi_app_of(server, holder, settings)
        await serve_http(app, holder, sockets, shutdown, settings)


def _stop_after_parent(shutdown: Shutdown) -> None:
    if shutdown.has_begun:
        os._exit(EXIT_FORCED)  # the parent requested it, and then did not wait
    os.kill(os.getpid(), signal.SIGTERM)
