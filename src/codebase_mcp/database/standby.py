"""May a search read a standby?

It may if the standby has replayed all that the primary had written when the search began: then the
standby shows what the primary would show, whatever the search reads. Each read compares the two
positions in the log first, a round trip to each server, and begins on the connection that was
checked. Otherwise it uses the primary, and so do all searches until a check in the background
succeeds. A read that fails on the standby, as by a conflict with its recovery, raises
`StandbyLost`, and the search is made once more on the primary.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import psycopg

from codebase_mcp.database.faults import Advice, is_unavailable
from codebase_mcp.database.pool import (
    PREPARE_AFTER,
    Connection,
    External,
    Pool,
    open_connection,
    read_url,
)
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import CodebaseError

_QUERIES = load_queries("codebase_mcp.database", "standby.sql")
_log = logging.getLogger(__name__)

ADVICE = Advice(is_standby=True)

# How long the standby may take to accept a connection or to answer a check.
_ANSWER_S = 1.0

# How long a search waits for the standby to replay what was just written.
_CATCH_UP_S = 0.05
_CATCH_UP_PAUSE_S = 0.005

# The pauses between checks in the background double. A fault that outlasts them is logged.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 4.0

# Searches do not wait for a connection of the standby, as the primary has some.
_WAIT_S = 0.1

_may_use_standby: ContextVar[bool] = ContextVar("may_use_standby", default=False)


@contextmanager
def may_use_standby(allowed: bool) -> Iterator[None]:
    """Whether bounded reads in the block may use a standby; the block expects `StandbyLost`."""
    before = _may_use_standby.set(allowed)
    try:
        yield
    finally:
        _may_use_standby.reset(before)


class _Unusable(Exception):
    """Why the standby cannot be used, as the rest of a sentence about it."""


@dataclass(frozen=True, slots=True)
class Position:
    """A primary, and how far its log is written."""

    system: int
    database: str
    lsn: str
    timeline: int
    is_citus: bool

    @classmethod
    async def read(cls, connection: Connection) -> Position:
        """The position of a primary now."""
        cursor = await connection.execute(_QUERIES["position"])
        return cls(*(await cursor.fetchone() or ()))


class Standby:
    """The server of DATABASE_READ_URL; ``position`` returns where the primary is now.

    Raises:
        DatabaseUnavailable: the URL is invalid.
    """

    def __init__(
        self, url: str, target: External, position: Callable[[], Awaitable[Position]], keep_s: float
    ) -> None:
        self._conninfo, self._is_pooled = read_url(url, "DATABASE_READ_URL")
        self._position = position
        self._pool = Pool(
            self._connect,
            size=target.pool_size,
            overflow=target.overflow,
            wait_s=_WAIT_S,
            keep_s=keep_s,
            is_measured=False,
        )
        self._returning: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.wait([self._returning])
        await self._pool.close()

    async def lease(self) -> Lease | None:
        """A connection that shows all that the primary shows now; None if the primary must do."""
        if not _may_use_standby.get() or self._returning is not None:
            return None
        try:
            return Lease(self._pool, await self._checked(), self._answers)
        except _Unusable:
            if self._returning is None:  # another search may have found out meanwhile
                self._returning = asyncio.create_task(self._return())
        except CodebaseError:  # all connections are in use, or the primary will say the same again
            pass
        return None

    async def fault(self) -> str | None:
        """Why searches do not use the standby now, as the rest of a sentence; None if they do."""
        try:
            connection = await self._checked()
        except _Unusable as fault:
            return str(fault)
        await self._pool.release(connection)
        return None

    async def _return(self) -> None:
        """Check the standby until it is usable again."""
        pause, is_logged = _FIRST_PAUSE_S, False
        while True:
            await asyncio.sleep(pause)
            try:
                fault = await self.fault()
            except CodebaseError:  # the primary is unavailable
                continue
            if fault is None:
                break
            if pause == _LONGEST_PAUSE_S and not is_logged:
                _log.warning("Searches use the primary: the standby of DATABASE_READ_URL %s", fault)
                is_logged = True
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        if is_logged:
            _log.warning("Searches use the standby again")
        self._returning = None

    async def _connect(self) -> Connection:
        prepare_after = None if self._is_pooled else PREPARE_AFTER
        async with asyncio.timeout(_ANSWER_S):
            return await open_connection(self._conninfo, prepare_after=prepare_after)

    async def _answers(self) -> bool:
        """Whether the standby accepts a connection."""
        try:
            await (await self._connect()).close()
        except (psycopg.Error, TimeoutError):
            return False
        return True

    async def _checked(self) -> Connection:
        """A connection on which all is visible that the primary shows now.

        Raises:
            _Unusable: the standby cannot give one.
            DatabaseUnavailable: all are in use, or the primary is unavailable.
        """
        position = await self._position()
        until = time.monotonic() + _ANSWER_S
        is_retry = False
        while True:
            try:
                connection, is_new = await self._pool.acquire(fresh=is_retry)
            except (psycopg.Error, TimeoutError) as error:
                raise _Unusable("does not accept connections") from error
            try:
                fault = await _caught_up(connection, position)
                if fault is None:
                    return connection
                await self._pool.release(connection)
                raise _Unusable(fault)
            except psycopg.Error as error:
                await self._pool.release(connection)
                # A connection that broke while idle is replaced once.
                if not is_unavailable(error) or is_new or is_retry or time.monotonic() >= until:
                    raise _Unusable(_in_words(error)) from error
            except asyncio.CancelledError:
                await self._pool.release(connection)
                raise
            is_retry = True


class Lease:
    """A connection to the standby for one transaction, which takes it for a pool.

    If the standby no longer answers, the connection is broken, so that nothing waits for it.
    """

    def __init__(
        self, pool: Pool, connection: Connection, answers: Callable[[], Awaitable[bool]]
    ) -> None:
        self._pool = pool
        self._connection = connection
        self._answers = answers
        self._watching = asyncio.create_task(self._watch())

    async def acquire(self, *, fresh: bool = False) -> tuple[Connection, bool]:
        """The connection; it is not replaced, as another has not been checked."""
        return self._connection, True

    async def release(self, connection: Connection) -> None:
        """Nothing: `end` puts it back."""

    async def end(self) -> None:
        """Put the connection back."""
        self._watching.cancel()
        await self._pool.release(self._connection)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_ANSWER_S)
            if not await self._answers():
                _break(self._connection)
                return


async def _caught_up(connection: Connection, position: Position) -> str | None:
    """Wait shortly until a standby has replayed the log up to a position; None once it has."""
    until = time.monotonic() + _CATCH_UP_S
    while True:
        state = await _state(connection, position.lsn)
        fault = _fault(position, *state)
        behind = state[-1] or 0
        if fault is not None or behind <= 0:
            return fault
        if time.monotonic() >= until:
            return f"is {behind:,} bytes of the log behind"
        await asyncio.sleep(_CATCH_UP_PAUSE_S)


async def _state(connection: Connection, lsn: str) -> tuple[Any, ...]:
    """The answer of a server; the connection is broken if it takes too long."""

    async def ask() -> tuple[Any, ...]:
        cursor = await connection.execute(_QUERIES["state"], {"lsn": lsn})
        return await cursor.fetchone() or ()

    asking = asyncio.create_task(ask())
    try:
        await asyncio.wait([asking], timeout=_ANSWER_S)
    finally:
        if not asking.done():  # a cancelled statement would wait for the server
            _break(connection)
    return await asking


def _fault(
    primary: Position,
    in_recovery: bool,
    system: int,
    database: str,
    timeline: int,
    _behind: int | None,
) -> str | None:
    """Why a server is no standby of a primary; None if it is one."""
    if not in_recovery:
        return "is not a standby, or no longer: it is not in recovery"
    if (system, database) != (primary.system, primary.database):
        return "is not a copy of the database of DATABASE_URL"
    if primary.is_citus:
        return "is of a Citus cluster, whose projects have logs of their own"
    if timeline != primary.timeline:
        return f"is on timeline {timeline}, and the primary on {primary.timeline}"
    return None


def _in_words(error: psycopg.Error) -> str:
    return "does not answer" if is_unavailable(error) else f"answers: {error.diag.message_primary}"


def _break(connection: Connection) -> None:
    """Let whatever waits on a connection fail at once."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as link,
    ):
        link.shutdown(socket.SHUT_RDWR)
