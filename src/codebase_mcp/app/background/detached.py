"""Who runs the jobs of a command that has ended? A worker process that the command starts.

It outlives the command and its terminal, ends when no job is left, and logs to ``worker.log`` in
the data folder.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.database.supervisor import open_file
from codebase_mcp.settings.loading import Settings, environment_for_child

_log = logging.getLogger(__name__)

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
