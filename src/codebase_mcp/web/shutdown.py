"""Graceful shutdown of a process.

After a request to shut down, new calls are refused and running calls may finish. A service manager
or an MCP client kills the process after about ten seconds; it exits before that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# How long running calls may take to finish …
DRAIN_S = 8.0
# … and how long the whole shutdown may take before the process exits by force.
LIMIT_S = 9.8
# A reply passes some queues before it is sent.
REPLY_S = 0.1

EXIT_FORCED = 130


class Shutdown:
    """The state of the shutdown, which a signal or the end of the input begins.

    ``drain_s`` is how long running calls may take to finish.
    """

    def __init__(self, drain_s: float = DRAIN_S) -> None:
        self.drain_s = drain_s
        self._loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()
        self._is_of_process = False

    @property
    def has_begun(self) -> bool:
        return self._begun.is_set()

    async def wait(self) -> None:
        """Wait until the shutdown begins."""
        await self._begun.wait()

    def begin(self) -> None:
        """Begin the shutdown; it cannot be undone."""
        if self.has_begun:
            return
        self._begun.set()
        if self._is_of_process:
            last_resort = threading.Timer(LIMIT_S, _exit_now, [b"Shutdown timed out.\n", 1])
            last_resort.daemon = True
            last_resort.start()

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Begin at SIGTERM or SIGINT; exit at a second SIGINT or at the time limit."""
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        self._is_of_process = True
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.has_begun and number == signal.SIGINT:
            # No clean-up is needed: workers and the embedded database notice that their parent is
            # gone, and open transactions are rolled back.
            _exit_now(b"Exited at once.\n", EXIT_FORCED)
        self._loop.call_soon_threadsafe(self.begin)


def _exit_now(why: bytes, status: int) -> None:
    os.write(2, why)
    os._exit(status)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
