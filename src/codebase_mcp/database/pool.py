"""A pool of connections, reused where possible.

Connections are opened by their callers, not by a background task. So a caller gets a connection
error at once, and a search can answer "database unavailable" instead of waiting for the pool.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.telemetry.metrics import connection_opened, pool_state

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

# A server process costs memory, so idle connections are kept for bursts only.
KEEP_IDLE_S = 60.0

_OLDEST_SERVER = 150000

# Keepalives detect connections that a firewall dropped silently.
_DEFAULTS = {
    "connect_timeout": 5,
    "fallback_application_name": "codebase-mcp",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The limits of a pool (``size`` connections are kept, ``overflow`` are not) and its state."""

    size: int
    overflow: int
    in_use: int
    idle: int
    waiting: int


class Pool:
    """At most ``size + overflow`` connections at once, the last used first.

    Up to ``size`` released connections are kept until they have been idle for ``keep_s``.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        *,
        size: int,
        overflow: int = 0,
        wait_s: float = 30.0,
        keep_s: float = KEEP_IDLE_S,
        busy_hint: str = "Try again when fewer calls run at once.",
    ) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(size + overflow)
        self._size = size
        self._overflow = overflow
        self._wait_s = wait_s
        self._keep_s = keep_s
        self._busy_hint = busy_hint
        self._in_use = 0
        self._waiting = 0
        self._idle: deque[tuple[float, Connection]] = deque()
        self._trimming: asyncio.Task[None] | None = None
        self._closed = False

    def facts(self) -> PoolFacts:
        """The state of the pool now."""
        return PoolFacts(
            self._size, self._overflow, self._in_use, len(self._idle), waiting=self._waiting
        )

    async def acquire(self, *, fresh: bool = False) -> tuple[Connection, bool]:
        """A connection outside any transaction, and whether it is newly made.

        ``fresh`` closes all idle connections first: a restart of the server breaks them.

        Raises:
            DatabaseUnavailable: all are in use for too long, or the pool is closed.
            psycopg.Error: the server refuses, or cannot be reached.
        """
        if self._closed:
            raise DatabaseUnavailable("The database was closed")
        await self._acquire_slot()
        with ExitStack() as undo:
            undo.callback(self._release_slot)
            if fresh:
                await self._close_idle()
            connection = self._last_used()
            is_new = connection is None
            if connection is None:
                connection = await self._connect()
                connection_opened()
            undo.pop_all()
            return connection, is_new

    async def release(self, connection: Connection) -> None:
        """Put a connection back; close it if it is not clean or the pool is full."""
        try:
            is_clean = connection.pgconn.transaction_status == TransactionStatus.IDLE
            is_spare = self._in_use + len(self._idle) > self._size
            if self._closed or not is_clean or is_spare:
                await connection.close()
            else:
                now = asyncio.get_running_loop().time()
                self._idle.append((now, connection))
                if self._trimming is None or self._trimming.done():
                    self._trimming = asyncio.create_task(self._trim())
        finally:
            self._release_slot()

    async def close(self) -> None:
        """Close all idle connections, and those in use when they are released."""
        self._closed = True
        await self._close_idle()  # first, as waiting may be cancelled
        if self._trimming is not None:
            self._trimming.cancel()
            await asyncio.wait([self._trimming])

    async def _acquire_slot(self) -> None:
        self._waiting += 1
        if self._slots.locked():
            self._report_state()
        try:
            async with asyncio.timeout(self._wait_s):
                await self._slots.acquire()
        except TimeoutError:
            raise DatabaseUnavailable(
                f"All {self._size + self._overflow} database connections are in use",
                hint=self._busy_hint,
            ) from None
        finally:
            self._waiting -= 1
        self._in_use += 1
        self._report_state()

    def _release_slot(self) -> None:
        self._in_use -= 1
        self._slots.release()
        self._report_state()

    def _report_state(self) -> None:
        """Report the state of the pool to the metrics."""
        pool_state(
            self._size + self._overflow,
            in_use=self._in_use,
            idle=len(self._idle),
            waiting=self._waiting,
        )

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
            await asyncio.sleep(self._idle[0][0] + self._keep_s - clock())
            while self._idle and self._idle[0][0] + self._keep_s <= clock():
                await self._idle.popleft()[1].close()
            self._report_state()

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.popleft()[1].close()


async def open_connection(conninfo: str, *, prepare_after: int | None) -> Connection:
    """A new connection to a server that is recent enough; the conninfo overrides our defaults.

    Raises:
        DatabaseUnavailable: the server is too old.
        psycopg.Error: it refuses, or cannot be reached.
    """
    parameters: dict[str, Any] = {
        **_DEFAULTS,
        **conninfo_to_dict(conninfo),
        "client_encoding": "UTF8",
    }
    connection = await psycopg.AsyncConnection.connect(
        make_conninfo(**parameters), autocommit=True, prepare_threshold=prepare_after
    )
    try:
        require_recent_server(connection.info.server_version)
    except DatabaseUnavailable:
        await connection.close()
        raise
    return connection


def require_recent_server(version_number: int) -> None:
    """Refuse a server that is too old; the number is libpq's, 150004 for 15.4."""
    if version_number < _OLDEST_SERVER:
        raise DatabaseUnavailable(
            "PostgreSQL database unavailable: version 15 or later is needed,"
            f" it is {version_number // 10000}",
            hint="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )
