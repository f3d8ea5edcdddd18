"""A pool of connections, and how an external server is reached.

Connections are opened by their callers, not by a background task. So a caller gets a connection
error at once, and a search can answer "database unavailable" instead of waiting for the pool.

An external PostgreSQL is reached directly, over TLS if the URL says so, or through a pooler in
transaction mode. Session locks bypass the pooler. If a server that was reachable is lost, a call
waits for a short time: it may be restarting.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PipelineStatus, TransactionStatus

from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.telemetry.metrics import DATABASE_CONNECTIONS_OPENED, pool_state

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


class Connections(Protocol):
    """Where a transaction gets its connection."""

    async def acquire(self, *, fresh: bool = False) -> tuple[Connection, bool]: ...

    async def release(self, connection: Connection) -> None: ...


class Pool:
    """At most ``size + overflow`` connections at once, the last used first.

    Up to ``size`` released connections are kept until they have been idle for ``keep_s``. The
    metrics show the pool that ``is_measured``.
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
        is_measured: bool = True,
    ) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(size + overflow)
        self._size = size
        self._overflow = overflow
        self._wait_s = wait_s
        self._keep_s = keep_s
        self._busy_hint = busy_hint
        self._is_measured = is_measured
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
                DATABASE_CONNECTIONS_OPENED.add()
            undo.pop_all()
            return connection, is_new

    async def release(self, connection: Connection) -> None:
        """Put a connection back; close it if it is not clean or the pool is full."""
        try:
            state = connection.pgconn
            # A call that was cancelled while it entered a pipeline leaves the connection in it, and
            # statements there return no rows.
            is_clean = (
                state.transaction_status == TransactionStatus.IDLE
                and state.pipeline_status == PipelineStatus.OFF
            )
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
        if not self._is_measured:
            return
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


PREPARE_AFTER = 5

# After an outage this long, calls no longer wait: each tries once.
_OUTAGE_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class External:
    """An external PostgreSQL.

    At most ``pool_size + overflow`` connections are open at once. ``?pgbouncer=true`` in the URL
    says that it is a pooler in transaction mode: prepared statements are not used then, and
    ``direct_url`` bypasses it for session locks. ``wait_s`` is how long a call waits for a server
    that was reachable before. ``read_url`` is a standby for searches. With ``project_roles`` each
    project has a database role, if ours may make roles.
    """

    url: str = field(repr=False)
    pool_size: int = 20
    overflow: int = 10
    direct_url: str | None = field(default=None, repr=False)
    read_url: str | None = field(default=None, repr=False)
    wait_s: float = 5.0
    project_roles: bool = True


class ExternalServer:
    """Connects to the server of a URL.

    Raises:
        DatabaseUnavailable: a URL is invalid.
    """

    def __init__(self, target: External) -> None:
        self._conninfo, self._is_pooled = read_url(target.url)
        self._direct: tuple[str, bool] | None = None
        if target.direct_url:
            self._direct = read_url(target.direct_url, "DIRECT_DATABASE_URL")
        self._wait_s = target.wait_s
        self._was_reachable = False
        self._unreachable_since: float | None = None
        self._last_failure = 0.0

    async def connect(self) -> Connection:
        """A connection for transactions."""
        prepare_after = None if self._is_pooled else PREPARE_AFTER
        return await self._connect_with_retries(self._conninfo, prepare_after)

    async def connect_directly(self) -> Connection:
        """A connection with a session of its own.

        Raises:
            DatabaseUnavailable: the server is only reachable through a pooler.
        """
        conninfo, is_pooled = self._direct or (self._conninfo, self._is_pooled)
        if is_pooled:
            raise needs_direct_url()
        async with AsyncExitStack() as undo:
            connection = await self._connect_with_retries(conninfo, PREPARE_AFTER)
            undo.push_async_callback(connection.close)
            if self._direct is None and not await _has_own_session(connection):
                raise needs_direct_url()
            undo.pop_all()
        return connection

    async def _connect_with_retries(self, conninfo: str, prepare_after: int | None) -> Connection:
        """Connect; retry for a while if the server was reachable before."""
        started = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection = await open_connection(conninfo, prepare_after=prepare_after)
            except psycopg.OperationalError:
                if not self._was_reachable or time.monotonic() >= self._deadline(started):
                    raise
            else:
                self._was_reachable, self._unreachable_since = True, None
                return connection
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _deadline(self, started: float) -> float:
        """The time until which to retry after a failed attempt."""
        now = time.monotonic()
        if self._unreachable_since is None or now - self._last_failure > _OUTAGE_S:
            self._unreachable_since = now
        self._last_failure = now
        return min(started + self._wait_s, self._unreachable_since + _OUTAGE_S)


def needs_direct_url() -> DatabaseUnavailable:
    """A pooler gives each transaction another session, so session locks would not work."""
    return DatabaseUnavailable(
        "DATABASE_URL points to a pooler, but indexing needs a session of its own",
        hint="Set DIRECT_DATABASE_URL to a URL of the same database that bypasses the pooler.",
    )


async def _has_own_session(connection: Connection) -> bool:
    """Detect a pooler without pgbouncer=true: the session's backend pid differs."""
    row = await (await connection.execute("SELECT pg_catalog.pg_backend_pid()")).fetchone()
    return row is not None and row[0] == connection.info.backend_pid


def read_url(url: str, variable: str = "DATABASE_URL") -> tuple[str, bool]:
    """The URL in libpq's syntax, and whether its options name a pooler.

    ``postgresql+asyncpg://`` and similar schemes are accepted.

    Raises:
        DatabaseUnavailable: it is not a PostgreSQL URL, or a piece of the password would be parsed
            as host, port or database and shown in errors. The message does not repeat the URL.
    """
    address, mark, query = url.partition("?")
    address = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", address)
    options = query.split("&") if mark else []
    flags = [option for option in options if option.partition("=")[0] == "pgbouncer"]
    kept = [option for option in options if option not in flags]
    conninfo = address + ("?" + "&".join(kept) if kept else "")
    if not _is_understood(conninfo):
        raise DatabaseUnavailable(
            f"PostgreSQL database unavailable: {variable} is invalid",
            hint="Expected postgresql://user:password@host:5432/database; in a password write"
            " @ as %40, / as %2F, : as %3A and ? as %3F.",
        )
    return conninfo, any(flag.partition("=")[2] not in ("false", "0", "no") for flag in flags)


def _is_understood(url: str) -> bool:
    """Whether libpq can parse the URL and finds no part of a password in the wrong fields."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return False
    path = url.partition("?")[0].partition("://")[2].partition("/")[2]
    host, port = str(parts.get("host", "")), str(parts.get("port", ""))
    return "@" not in path and "@" not in host and re.fullmatch(r"[0-9,]*", port) is not None
