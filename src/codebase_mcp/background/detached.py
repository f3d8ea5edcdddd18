"""Who does the jobs that a command asked for, once it has ended? A worker of its own, if need be.

It outlives the command and its terminal, ends when no job is left, and says in ``worker.log`` of
the data folder what it did.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

from codebase_mcp.app import App
from codebase_mcp.database.supervisor import open_file
from codebase_mcp.settings import Settings, environment_for_child

_log = logging.getLogger(__name__)

LOG = "worker.log"

# It is there within two seconds; a busy machine has time.
_PATIENCE_S = 30.0
_POLL_S = 0.05

# The log is evidence for a fault, not history.
_LOG_BYTES = 1 << 20


def let_work_begin(app: App) -> None:
    """Where a job is asked for and no worker is there, start one; unless the settings want none."""

    async def start() -> bool:
        log = app.settings.data_dir / LOG
        process = _start(app.settings, log)
        deadline = time.monotonic() + _PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            if await app.jobs.workers():
                return True
            await asyncio.sleep(_POLL_S)
        _log.warning("No worker could be started; %s says why", log)
        return False

    if app.settings.jobs:
        app.jobs.start_worker = start


def _start(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    """A worker in a session of its own, which keeps no directory busy."""
    log.parent.mkdir(parents=True, exist_ok=True)
    written = open_file(str(log), os.O_WRONLY | os.O_APPEND)
    try:
        if os.fstat(written).st_size > _LOG_BYTES:
            os.ftruncate(written, 0)
        return subprocess.Popen(
            # -P: the directory that the command runs in may hold modules of any name.
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
