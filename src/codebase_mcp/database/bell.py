"""Did anything happen meanwhile, in any process? PostgreSQL rings, on a session of our own.

While it is listened to, the session shows that somebody is there: it shares a lock, which falls
with its process. Whoever wants to know counts the lock's holders; nothing has to be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
from psycopg import sql

from codebase_mcp.database.connection import Database
from codebase_mcp.database.pool import Connection
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import lock_key
from codebase_mcp.errors import DatabaseUnavailable

_SQL = load_queries("codebase_mcp.database", "bell.sql")

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_LEAVE_S = 1.0


class Bell:
    """Wakes whoever waits, when the channel is notified and whenever ``ring`` is called.

    ``is_heard`` is False while the session is down, and for good where only a pooler leads to the
    server: then whoever waits has to look now and then.
    """

    def __init__(self, database: Database, channel: str, presence: str) -> None:
        self._database = database
        self._channel = channel
        self._presence = presence
        self._next = asyncio.Event()
        self.is_heard = False

    def ring(self) -> None:
        """Wake everybody who waits now."""
        rung, self._next = self._next, asyncio.Event()
        rung.set()

    def coming(self) -> asyncio.Event:
        """What is set by the next ring; to be taken before one looks whether there is anything."""
        return self._next

    @asynccontextmanager
    async def listened_to(self) -> AsyncIterator[None]:
        """Hear the channel for as long as the block runs."""
        listening = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            listening.cancel()
            await asyncio.wait([listening])

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            with suppress(DatabaseUnavailable):
                try:
                    await self._hear()
                finally:
                    pause = _FIRST_PAUSE_S if self.is_heard else min(pause * 2, _LONGEST_PAUSE_S)
                    self.is_heard = False
            _log.debug("%s is not heard for %.1f s", self._channel, pause)
            await asyncio.sleep(pause)

    async def _hear(self) -> None:
        """Ring until the session breaks.

        Raises:
            DatabaseUnavailable: it did, or there is none to be had.
        """
        async with self._database.own_session() as connection:
            await connection.execute(_SQL["keep_session"])
            key = lock_key(self._database.catalogue_schema, self._presence)
            await connection.execute(_SQL["be_present"], {"key": key})
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            self.is_heard = True
            self.ring()  # for what was missed
            try:
                await self._follow(connection)
            finally:  # by itself the server takes a moment to see that a session has gone
                with suppress(psycopg.Error, TimeoutError):
                    async with asyncio.timeout(_LEAVE_S):
                        await connection.execute(_SQL["be_absent"], {"key": key})

    async def _follow(self, connection: Connection) -> None:
        """Ring with each notification.

        Not by the driver's own way, which wakes up ten times a second: most servers idle all day.

        Raises:
            psycopg.OperationalError: the session broke.
        """
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        socket = connection.fileno()
        loop.add_reader(socket, readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                connection.pgconn.consume_input()
                while connection.pgconn.notifies() is not None:
                    self.ring()
        finally:
            loop.remove_reader(socket)


async def present(database: Database, presence: str) -> int:
    """How many sessions listen under this name, in all processes."""
    key = lock_key(database.catalogue_schema, presence)
    async with database.catalogue(readonly=True) as tx:
        row = await tx.fetch_one(_SQL["count_present"], key=key)
    assert row is not None
    return int(row[0])
