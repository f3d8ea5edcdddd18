"""Several processes accept the connections of one socket; each gets its share.

The kernel wakes all of them, and the first one would take every connection of a burst: of eight
callers of two processes, one process got all eight.
"""

from __future__ import annotations

import socket
import time
from collections.abc import MutableSequence
from typing import Any
from weakref import WeakSet

# A free process accepts within a millisecond, or ten on a busy machine. One that takes longer loses
# its turn.
_TURN_S = 0.02
ABSENT = 2**31 - 1
"""The count of a process that does not accept connections yet."""


class Share:
    """The part of the open connections that a process has; ``counts`` has that of each process."""

    def __init__(self, counts: MutableSequence[int], number: int) -> None:
        self._counts = counts
        self._number = number
        self._open: WeakSet[socket.socket] = WeakSet()
        self._seen: list[int] = []
        self._began = 0.0

    def is_anothers_turn(self) -> bool:
        """Whether a process with fewer connections should accept the next."""
        self._count()
        if len(self._open) <= min(self._counts):
            return False
        counts = list(self._counts)
        if counts != self._seen:  # a turn ends when its connection is accepted
            self._seen, self._began = counts, time.monotonic()
        return time.monotonic() - self._began < _TURN_S

    def add(self, connection: socket.socket) -> None:
        """Count a connection until it is closed."""
        self._open.add(connection)
        self._count()

    def _count(self) -> None:
        self._counts[self._number] = len(self._open)


class SharedListener(socket.socket):
    """A listening socket that has nothing to accept while it is another process's turn."""

    def __init__(self, listener: socket.socket, share: Share) -> None:
        super().__init__(fileno=listener.detach())
        self._share = share

    def accept(self) -> tuple[socket.socket, Any]:
        if self._share.is_anothers_turn():
            raise BlockingIOError
        connection, address = super().accept()
        self._share.add(connection)
        return connection, address
