"""Give me a connection, a used one if possible.

No background task: whoever needs a connection opens it and hears at once why that fails, which is
what lets a search answer "database unavailable" instead of waiting for a pool to recover.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from codebase_mcp.errors import DatabaseUnavailable

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

# A server process costs memory, so connections beyond what is in use are kept for bursts only.
_KEEP_IDLE_S = 60.0


class Pool:
    """At most ``size`` connections at once, the last used first; idle ones close after a minute."""

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, size: int, wait_s: float = 30.0
    ) -> None:
        self._connect = connect
        self._seats = asyncio.Semaphore(size)
        self._size = size
        self._wait_s = wait_s
        self._idle: deque[tuple[float, Connection]] = deque()
        self._trimming: asyncio.Task[None] | None = None
        self._closed = False

    async def acquire(self, *, fresh: bool = False) -> tuple[Connection, bool]:
        """A connection outside any transaction, and whether it is newly made.

        ``fresh`` distrusts all idle ones: after a restart of the server each of them is dead.

        Raises:
            DatabaseUnavailable: all are in use for too long, or the pool is closed.
            psycopg.Error: the server refuses, or cannot be reached.
        """
        if self._closed:
            raise DatabaseUnavailable("The database was closed")
        try:
            async with asyncio.timeout(self._wait_s):
                await self._seats.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"All {self._size} database connections are in use",
                hint="Try again, or raise the size of the pool.",
            ) from None
        with ExitStack() as undo:
            undo.callback(self._seats.release)
            if fresh:
                await self._close_idle()
            connection = self._last_used()
            is_new = connection is None
            if connection is None:
                connection = await self._connect()
            undo.pop_all()
            return connection, is_new

    async def release(self, connection: Connection) -> None:
        """Take a connection back; one that is not in order is closed instead."""
        try:
            is_clean = connection.pgconn.transaction_status == TransactionStatus.IDLE
            if self._closed or not is_clean:
                await connection.close()
            else:
                now = asyncio.get_running_loop().time()
                self._idle.append((now, connection))
                if self._trimming is None or self._trimming.done():
                    self._trimming = asyncio.create_task(self._trim())
        finally:
            self._seats.release()

    async def close(self) -> None:
        """Close all idle connections, and those in use when they come back."""
        self._closed = True
        if self._trimming is not None:
            self._trimming.cancel()
            await asyncio.wait([self._trimming])
        await self._close_idle()

    def _last_used(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()[1]
            if not connection.closed:
                return connection
        return None

    async def _trim(self) -> None:
        """Close connections as they become too old, until none is left."""
        clock = asyncio.get_running_loop().time
        while self._idle:
            await asyncio.sleep(self._idle[0][0] + _KEEP_IDLE_S - clock())
            while self._idle and self._idle[0][0] + _KEEP_IDLE_S <= clock():
                await self._idle.popleft()[1].close()

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.popleft()[1].close()
