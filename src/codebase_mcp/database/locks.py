"""Locks that are held over many transactions.

An advisory lock belongs to a session, so it has a connection of its own outside the pool, and is
released when the process ends. Within a process callers wait for each other without a connection: a
hundred runs on a repository need a single connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import psycopg

from codebase_mcp.database.faults import Advice, translated
from codebase_mcp.database.naming import Project
from codebase_mcp.database.pool import Connection
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import lock_key
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable

_QUERIES = load_queries("codebase_mcp.database", "locks.sql")

Connect = Callable[[], Awaitable[Connection]]

# Waiting for a lock also takes a connection; more callers than this queue within the process.
_MAX_CONNECTIONS = 10

# How long releasing locks may take; after that the session is closed anyway.
_RELEASE_TIMEOUT_S = 1.0


class SessionLocks:
    """The locks that this process holds or waits for."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._slots = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._here: dict[int, asyncio.Lock] = {}
        self._users: dict[int, int] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[int], advice: Advice) -> AsyncIterator[HeldLocks]:
        """Wait for all of these locks, and hold them for the block."""
        ordered = sorted(set(keys))  # always in the same order, to avoid deadlocks
        async with AsyncExitStack() as stack:
            with translated(advice):
                for key in ordered:
                    await stack.enter_async_context(self._alone(key))
                await stack.enter_async_context(self._slots)
                held = HeldLocks(self._connect, ordered, advice)
                stack.push_async_callback(held.close)
                await held.acquire()
            yield held

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


class _LockSession:
    """A session that holds locks, opened on first use; when it breaks, all its locks are lost."""

    def __init__(self, connect: Connect, advice: Advice) -> None:
        self._connect = connect
        self._advice = advice
        self._connection: Connection | None = None
        self._held: set[int] = set()
        self._turn = asyncio.Lock()

    async def _ask(self, statement: str, key: int | None = None) -> bool:
        """The answer to a statement.

        Raises:
            DatabaseUnavailable: the server is unavailable, and all locks are lost.
        """
        with translated(self._advice):
            try:
                if self._connection is None:
                    self._connection = await self._connect()
                    await self._connection.execute(_QUERIES["keep_session"])
                cursor = await self._connection.execute(_QUERIES[statement], {"key": key})
                row = await cursor.fetchone()
            except BaseException:  # a cancelled call leaves an unusable connection
                if (connection := self._detach()) is not None:
                    await connection.close()
                raise
        return bool(row and row[0])

    async def close(self) -> None:
        """Release all locks at once, not when the server notices the closed connection."""
        if (connection := self._detach()) is None:
            return
        try:
            with suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_RELEASE_TIMEOUT_S):
                    await connection.execute(_QUERIES["release_all_session_locks"])
        finally:  # also if the caller is cancelled meanwhile
            await connection.close()

    def _detach(self) -> Connection | None:
        connection, self._connection = self._connection, None
        self._held.clear()
        return connection


class HeldLocks(_LockSession):
    """Locks that are held for a while, during which the database may be restarted."""

    def __init__(self, connect: Connect, keys: Sequence[int], advice: Advice) -> None:
        super().__init__(connect, advice)
        self._keys = keys

    async def acquire(self) -> None:
        """Wait for all locks."""
        for key in self._keys:
            await self._ask("session_lock", key)

    async def confirm(self) -> None:
        """Make sure that the locks are held; after a restart they are acquired again.

        Raises:
            DatabaseUnavailable: the server is unavailable, or another process holds a lock now.
        """
        async with self._turn:
            if self._connection is not None:
                with suppress(DatabaseUnavailable):
                    await self._ask("still_there")
                    return
            for key in self._keys:
                if not await self._ask("try_session_lock", key):
                    await self.close()
                    raise DatabaseUnavailable(
                        "The database was restarted, and another run took over",
                        hint="What was stored stays; call again to complete it.",
                    )


class ProjectTryLocks(_LockSession):
    """Locks of projects, tried without waiting, any number of them on a single connection."""

    def __init__(self, connect: Connect, advice: Advice) -> None:
        super().__init__(connect, advice)
        self._is_closed = False

    async def acquire(self, project: Project, name: str) -> bool:
        """Acquire this lock if it is free; whether it is held now.

        Raises:
            DatabaseUnavailable: the server is unavailable, and all locks are lost.
        """
        key = lock_key(project.schema_name, name)
        async with self._turn:
            if self._is_closed:  # nothing would close a new connection
                raise DatabaseUnavailable("The session of these locks was closed")
            if key not in self._held and await self._ask("try_session_lock", key):
                self._held.add(key)
            return key in self._held

    async def release(self, project: Project, name: str) -> None:
        """Release this lock.

        Raises:
            DatabaseUnavailable: the server is unavailable, and all locks are lost.
        """
        key = lock_key(project.schema_name, name)
        async with self._turn:
            if key in self._held:
                self._held.discard(key)
                await self._ask("release_session_lock", key)

    async def check(self) -> None:
        """Check that the locks are still held; lost locks can be acquired again."""
        async with self._turn:
            if self._connection is not None:
                with suppress(CodebaseError):
                    await self._ask("still_there")

    async def close(self) -> None:
        """Release all locks; none can be acquired again."""
        self._is_closed = True
        async with self._turn:
            await super().close()
