"""Locks that are held over many transactions.

An advisory lock belongs to a session, so it has a connection of its own outside the pool, and is
released when the process ends. Within a process callers wait for each other without a connection: a
hundred runs on one repository need a single one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import psycopg

from codebase_mcp.database.pool import Connection
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import DatabaseUnavailable

_QUERIES = load_queries("codebase_mcp.database", "locks.sql")

# Waiting for a lock also takes a connection; more callers than this queue within the process.
_MAX_CONNECTIONS = 10

# How long releasing locks may take; after that the session is closed anyway.
_RELEASE_TIMEOUT_S = 1.0


class SessionLocks:
    """The locks that this process holds or waits for."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._here: dict[int, asyncio.Lock] = {}
        self._users: dict[int, int] = {}

    @asynccontextmanager
    async def hold(self, keys: Sequence[int]) -> AsyncIterator[Hold]:
        """Wait for all of these locks, and hold them for the block."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):  # always in the same order, to avoid deadlocks
                await stack.enter_async_context(self._alone(key))
            await stack.enter_async_context(self._slots)
            hold = Hold(self._connect, sorted(set(keys)))
            stack.push_async_callback(hold.close)
            await hold.take()
            yield hold

    def try_locks(self) -> TryLocks:
        """Locks that are tried without waiting."""
        return TryLocks(self._connect)

    @asynccontextmanager
    async def _alone(self, key: int) -> AsyncIterator[None]:
        """Wait until no earlier caller in this process holds the lock or waits for it."""
        lock = self._here.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._here[key]


class Hold:
    """Locks that are held for a while, during which the database may be restarted."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], keys: Sequence[int]) -> None:
        self._connect = connect
        self._keys = keys
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    async def take(self) -> None:
        """Wait for all of them."""
        connection = await self._renewed()
        for key in self._keys:
            await connection.execute(_QUERIES["session_lock"], {"key": key})

    async def confirm(self) -> None:
        """Make sure that they are held; those lost in a restart are acquired again.

        Raises:
            DatabaseUnavailable: another process holds one of them now.
            psycopg.Error: the server is unavailable.
        """
        async with self._turn:
            if self._connection is not None:
                with suppress(psycopg.OperationalError):
                    await self._connection.execute(_QUERIES["still_there"])
                    return
            connection = await self._renewed()
            for key in self._keys:
                cursor = await connection.execute(_QUERIES["try_session_lock"], {"key": key})
                row = await cursor.fetchone()
                if row is None or not row[0]:
                    await self.close()
                    raise DatabaseUnavailable(
                        "The database was restarted, and another run took over",
                        hint="What was stored stays; call again to complete it.",
                    )

    async def close(self) -> None:
        """Release all of them."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await _end_session(connection)

    async def _renewed(self) -> Connection:
        await self.close()
        connection = await self._connect()
        self._connection = connection
        await connection.execute(_QUERIES["keep_session"])
        return connection


class TryLocks:
    """Locks that are tried without waiting, any number of them on one connection.

    All of them are lost when it breaks, which ``check`` detects.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._held: set[int] = set()
        self._turn = asyncio.Lock()
        self._is_closed = False

    async def acquire(self, key: int) -> bool:
        """Acquire this lock if it is free; whether it is held now.

        Raises:
            DatabaseUnavailable: they were closed.
        """
        async with self._turn:
            if self._is_closed:  # nothing would close a new connection
                raise DatabaseUnavailable("The session of these locks was closed")
            if key not in self._held and await self._ask("try_session_lock", key):
                self._held.add(key)
            return key in self._held

    async def release(self, key: int) -> None:
        """Release this lock."""
        async with self._turn:
            if key in self._held:
                self._held.discard(key)
                await self._ask("release_session_lock", key)

    async def check(self) -> None:
        """Check that the locks are still held; lost ones can be acquired again."""
        async with self._turn:
            if self._connection is not None:
                try:
                    await self._connection.execute(_QUERIES["still_there"])
                except psycopg.Error:
                    await self._drop()

    async def close(self) -> None:
        """Release all of them; none can be acquired again."""
        self._is_closed = True
        async with self._turn:
            connection, self._connection = self._connection, None
            self._held.clear()
            if connection is not None:
                await _end_session(connection)

    async def _ask(self, name: str, key: int) -> bool:
        try:
            if self._connection is None:
                self._connection = await self._connect()
                await self._connection.execute(_QUERIES["keep_session"])
            cursor = await self._connection.execute(_QUERIES[name], {"key": key})
            row = await cursor.fetchone()
        except BaseException:  # a cancelled call leaves an unusable connection
            await self._drop()
            raise
        return row is not None and bool(row[0])

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._held.clear()
        if connection is not None:
            await connection.close()


async def _end_session(connection: Connection) -> None:
    """Release the locks at once, not when the server notices the closed connection; close it."""
    try:
        with suppress(psycopg.Error, TimeoutError):
            async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                await connection.execute(_QUERIES["release_all_session_locks"])
    finally:  # also if the caller is cancelled meanwhile
        await connection.close()
