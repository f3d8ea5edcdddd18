"""When does this process end, and does it surely?

Told to end, it takes no new calls and lets those under way finish. Whoever told it, a service
manager or an MCP client, kills it after ten seconds or so; by then it has ended by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Calls may take so long to finish …
DRAIN_S = 8.0
# … and then what is open is closed; in spite of everything the process ends after this time.
LIMIT_S = 9.8
# What a call replied has to pass some queues before it is on its way.
REPLY_S = 0.1

EXIT_FORCED = 130


class Ending:
    """Whether this process was told to end: by a signal, or as its input has ended.

    ``drain_s`` is how long calls may take to finish then.
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
        """Wait until it begins."""
        await self._begun.wait()

    def begin(self) -> None:
        """End now; once begun, there is no way back."""
        if self.has_begun:
            return
        self._begun.set()
        if self._is_of_process:
            last_resort = threading.Timer(LIMIT_S, _end_at_once, [b"Ended: the time is up.\n", 1])
            last_resort.daemon = True
            last_resort.start()

    @contextmanager
    def of_process(self) -> Iterator[None]:
        """Begin with SIGTERM or SIGINT; a second SIGINT, or the time limit, ends the process."""
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        self._is_of_process = True
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.has_begun and number == signal.SIGINT:
            # Workers and the embedded database see their parent go, and what a transaction has
            # not committed is undone: nothing has to be put in order.
            _end_at_once(b"Ended at once.\n", EXIT_FORCED)
        self._loop.call_soon_threadsafe(self.begin)


def _end_at_once(why: bytes, status: int) -> None:
    os.write(2, why)
    os._exit(status)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
