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
from collections.abc import Sequence
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
    """Keep the workers running until shutdown, then stop them.

    Raises:
        InternalError: they exit right after their start.
    """
    shared = Path(tempfile.mkdtemp(prefix="codebase-mcp-metrics-"))
    share_metrics_in(shared)
    workers = _Workers(settings, sockets, shared)
    try:
        workers.start()
        while not shutdown.has_begun:
            await asyncio.to_thread(connection.wait, workers.sentinels, _POLL_S)
            if not shutdown.has_begun:
                workers.replace_dead()
    finally:
        shutdown.begin()
        await asyncio.to_thread(workers.end)
        share_metrics_in(None)
        shutil.rmtree(shared, ignore_errors=True)


class _Workers:
    """The worker processes, by number."""

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket], shared: Path) -> None:
        self._settings = settings
        self._sockets = sockets
        self._shared = shared
        self._processes: list[SpawnProcess] = []
        self._started: list[float] = []
        self._short_lives = 0

    @property
    def sentinels(self) -> list[int]:
        return [process.sentinel for process in self._processes]

    def start(self) -> None:
        """Start all of them."""
        for _ in range(self._settings.http_workers):
            self._processes.append(self._new(len(self._processes)))
            self._started.append(time.monotonic())

    def replace_dead(self) -> None:
        """Replace each worker that has exited.

        Raises:
            InternalError: too many exit right after their start.
        """
        for index, process in enumerate(self._processes):
            if process.exitcode is None:
                continue
            self._forget(process)
            _log.warning(
                "worker %s exited with %s; starting another", process.pid, process.exitcode
            )
            is_short = time.monotonic() - self._started[index] < _SHORT_LIFE_S
            self._short_lives = self._short_lives + 1 if is_short else 0
            if self._short_lives >= _SHORT_LIVES:
                raise InternalError(
                    "The HTTP workers exit right after their start",
                    hint="See the log; CODEBASE_MCP_HTTP_WORKERS=1 runs without workers.",
                )
            self._processes[index] = self._new(index)
            self._started[index] = time.monotonic()

    def end(self) -> None:
        """Terminate them, and kill those that do not exit in time."""
        deadline = time.monotonic() + _END_S
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()

    def _new(self, place: int) -> SpawnProcess:
        # Not daemonic, as daemonic processes may not have children, which index runs start.
        process = get_context("spawn").Process(
            target=_work, args=(self._settings, self._sockets, self._shared, place)
        )
        with block_sigint_in_children():  # we terminate them ourselves
            process.start()
        return process

    def _forget(self, process: SpawnProcess) -> None:
        assert process.pid is not None
        telemetry.process_ended(self._shared, process.pid)


def _work(settings: Settings, sockets: Sequence[socket.socket], shared: Path, place: int) -> None:
    """The main function of a worker process."""
    telemetry.start(
        settings.log_level,
        settings.log_format,
        secrets=settings.secrets(),
        otlp_endpoint=settings.otlp_endpoint,
    )
    telemetry.enable(shared)
    try:
        asyncio.run(_serve(settings, sockets, place))
    finally:
        telemetry.end()


async def _serve(settings: Settings, sockets: Sequence[socket.socket], place: int) -> None:
    shutdown = Shutdown()
    on_parent_exit(lambda: _stop_after_parent(shutdown))
    with shutdown.handle_signals():
        holder = AppHolder(settings, background_lifespan(settings, place))
        server = server_with_apps(holder, settings.toolsets)
        app = asgi_app_of(server, holder, settings)
        await serve_http(app, holder, sockets, shutdown, settings)


def _stop_after_parent(shutdown: Shutdown) -> None:
    if shutdown.has_begun:
        os._exit(EXIT_FORCED)  # the parent requested it, and then did not wait
    os.kill(os.getpid(), signal.SIGTERM)
