"""Who works on this alone, over many transactions?

An advisory lock belongs to a session, so it has a connection of its own, apart from the pool, and
falls with the process that holds it. Within a process callers wait for each other without one: a
hundred runs on one repository need a single connection.
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

# Who waits for a lock holds a connection too; beyond so many they queue here instead.
_CONNECTIONS = 10

# Who gives locks back waits so long for the server's word; it ends the session anyway.
_GIVING_S = 1.0


class SessionLocks:
    """The locks that this process holds or waits for."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._seats = asyncio.Semaphore(_CONNECTIONS)
        self._here: dict[int, asyncio.Lock] = {}
        self._users: dict[int, int] = {}

    @asynccontextmanager
    async def hold(self, keys: Sequence[int]) -> AsyncIterator[Hold]:
        """Wait for all of these locks, and hold them for the block."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):  # always in one order, so that two never wait in a ring
                await stack.enter_async_context(self._alone(key))
            await stack.enter_async_context(self._seats)
            hold = Hold(self._connect, sorted(set(keys)))
            stack.push_async_callback(hold.close)
            await hold.take()
            yield hold

    def claims(self) -> Claims:
        """Locks that are only tried."""
        return Claims(self._connect)

    @asynccontextmanager
    async def _alone(self, key: int) -> AsyncIterator[None]:
        """Wait until nobody else in this process has the lock or waits for it before us."""
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
    """Locks that are held for some time, in which the database may be restarted."""

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
        """Make sure that they are held; what a restart took away is taken again.

        Raises:
            DatabaseUnavailable: somebody else has one of them now.
            psycopg.Error: the server is away.
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
                        hint="What was stored stays; call again to see that nothing is missing.",
                    )

    async def close(self) -> None:
        """Let go of all of them."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await _end_session(connection)

    async def _renewed(self) -> Connection:
        await self.close()
        connection = await self._connect()
        self._connection = connection
        await connection.execute(_QUERIES["keep_session"])
        return connection


class Claims:
    """Locks that are only tried, never waited for: any number of them on one connection.

    All of them fall when it breaks, which ``check`` finds out.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._held: set[int] = set()
        self._turn = asyncio.Lock()

    async def take(self, key: int) -> bool:
        """Hold this lock from now on if nobody else has it; is it ours?"""
        async with self._turn:
            if key not in self._held and await self._ask("try_session_lock", key):
                self._held.add(key)
            return key in self._held

    async def give(self, key: int) -> None:
        """Hold this lock no more."""
        async with self._turn:
            if key in self._held:
                self._held.discard(key)
                await self._ask("give_session_lock", key)

    async def check(self) -> None:
        """Find out whether what was taken is still held; if not, it can be taken again."""
        async with self._turn:
            if self._connection is not None:
                try:
                    await self._connection.execute(_QUERIES["still_there"])
                except psycopg.Error:
                    await self._drop()

    async def close(self) -> None:
        """Give up all of them."""
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
        except BaseException:  # a call that was broken off leaves a connection nobody can use
            await self._drop()
            raise
        return row is not None and bool(row[0])

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._held.clear()
        if connection is not None:
            await connection.close()


async def _end_session(connection: Connection) -> None:
    """Close a connection; its locks are free at once, not when the server sees that it is gone."""
    with suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(_GIVING_S):
            await connection.execute(_QUERIES["give_all_session_locks"])
    await connection.close()
