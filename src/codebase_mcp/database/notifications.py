"""How does a process wake another process? By LISTEN and NOTIFY, on a separate session.

While a session listens it holds a shared advisory lock, which is released when its process ends. So
the number of listeners is the number of holders of that lock, and nothing has to be written.
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

_SQL = load_queries("codebase_mcp.database", "notifications.sql")

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_LEAVE_S = 1.0


class NotificationListener:
    """Wakes its waiters when the channel is notified, and when ``wake`` is called.

    ``is_connected`` is False while the session is down. Where the server is only reachable through
    a pooler it stays False, so waiters have to poll.
    """

    def __init__(self, database: Database, channel: str, presence: str) -> None:
        self._database = database
        self._channel = channel
        self._presence = presence
        self._next = asyncio.Event()
        self.is_connected = False

    def wake(self) -> None:
        """Wake all current waiters."""
        event, self._next = self._next, asyncio.Event()
        event.set()

    def next_event(self) -> asyncio.Event:
        """The event that the next notification sets; get it before checking for work."""
        return self._next

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Listen on the channel while the block runs."""
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
                    await self._listen_once()
                finally:
                    pause = (
                        _FIRST_PAUSE_S if self.is_connected else min(pause * 2, _LONGEST_PAUSE_S)
                    )
                    self.is_connected = False
            _log.debug("Not listening on %s; next try in %.1f s", self._channel, pause)
            await asyncio.sleep(pause)

    async def _listen_once(self) -> None:
        """Listen until the session breaks.

        Raises:
            DatabaseUnavailable: the session broke, or could not be opened.
        """
        async with self._database.own_session() as connection:
            await connection.execute(_SQL["keep_session"])
            key = lock_key(self._database.catalogue_schema, self._presence)
            await connection.execute(_SQL["share_presence_lock"], {"key": key})
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            self.is_connected = True
            self.wake()  # for notifications that were missed
            try:
                await self._follow(connection)
            finally:  # the server needs a moment to notice a closed session
                with suppress(psycopg.Error, TimeoutError):
                    async with asyncio.timeout(_LEAVE_S):
                        await connection.execute(_SQL["release_presence_lock"], {"key": key})

    async def _follow(self, connection: Connection) -> None:
        """Wake the waiters at each notification.

        The driver's own generator wakes up ten times a second, and most servers idle all day.

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
                    self.wake()
        finally:
            loop.remove_reader(socket)


async def count_listeners(database: Database, presence: str) -> int:
    """How many sessions listen under this name, in all processes."""
    key = lock_key(database.catalogue_schema, presence)
    async with database.catalogue(readonly=True) as tx:
        [[count]] = await tx.fetch_all(_SQL["count_listeners"], key=key)
    return int(count)
