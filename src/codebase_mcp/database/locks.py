"""Who works on this alone, over many transactions?

An advisory lock belongs to a session, so it has a connection of its own, apart from the pool, and
falls with the process that holds it. Within a process callers wait for each other without one: a
hundred runs on one repository need a single connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from codebase_mcp.database.pool import Connection
from codebase_mcp.database.queries import load_queries

_QUERIES = load_queries("codebase_mcp.database", "locks.sql")

# Who waits for a lock holds a connection too; beyond so many they queue here instead.
_CONNECTIONS = 10


class SessionLocks:
    """The locks that this process holds or waits for."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._seats = asyncio.Semaphore(_CONNECTIONS)
        self._here: dict[int, asyncio.Lock] = {}
        self._users: dict[int, int] = {}

    @asynccontextmanager
    async def hold(self, keys: Sequence[int]) -> AsyncIterator[None]:
        """Wait for all of these locks, and hold them for the block."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):  # always in one order, so that two never wait in a ring
                await stack.enter_async_context(self._alone(key))
            await stack.enter_async_context(self._seats)
            connection = await self._open(stack)
            for key in sorted(set(keys)):
                await connection.execute(_QUERIES["session_lock"], {"key": key})
            yield

    @asynccontextmanager
    async def hold_if_free(self, key: int) -> AsyncIterator[bool]:
        """Hold this lock for the block if nobody has it; was it free?"""
        async with AsyncExitStack() as stack:
            if key in self._users:
                yield False
                return
            await stack.enter_async_context(self._alone(key))
            connection = await self._open(stack)
            query = _QUERIES["try_session_lock"]
            row = await (await connection.execute(query, {"key": key})).fetchone()
            yield row is not None and bool(row[0])

    async def _open(self, stack: AsyncExitStack) -> Connection:
        connection = await self._connect()
        stack.push_async_callback(connection.close)
        await connection.execute(_QUERIES["keep_session"])
        return connection

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
