"""Transactions in one schema: all statements take effect, or none.

A transaction begins with its first statement: BEGIN, the search path and the statement are sent in
a single round trip, and the commit takes a second. A transaction without statements uses no
connection.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus

from codebase_mcp.database.faults import Advice, is_unavailable, translated
from codebase_mcp.database.pool import Connection, Connections
from codebase_mcp.errors import InternalError
from codebase_mcp.telemetry.stopwatch import round_trip, step

Row = tuple[Any, ...]
Statement = tuple[LiteralString, Mapping[str, object]]
_Cursor = psycopg.AsyncCursor[Row]

# Times are returned in the session's time zone, which the server's configuration may set.
_SETTINGS = """
SELECT pg_catalog.set_config('search_path', %(search_path)s, true),
       pg_catalog.set_config('TimeZone', 'UTC', true)
"""
# Added for a transaction that runs as a role, as SET LOCAL ROLE does, or with a time limit.
_ROLE = ", pg_catalog.set_config('role', %(role)s, true)"
_LIMIT = ", pg_catalog.set_config('statement_timeout', %(limit_ms)s, true)"
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(%(key)s)"
_TRY_LOCK = "SELECT pg_catalog.pg_try_advisory_xact_lock(%(key)s)"
_COMMIT: Statement = ("COMMIT", {})
# Some milliseconds.
_DECODED_AT_ONCE = 2_000
# pg_locks shows a 64-bit key in two halves.
_HELD = """
SELECT asked.key
FROM unnest(%(keys)s::bigint[]) AS asked (key)
WHERE EXISTS (
    SELECT
    FROM pg_catalog.pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (
          SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database()
      )
      AND l.classid::bigint = (asked.key >> 32) & 4294967295
      AND l.objid::bigint = asked.key & 4294967295
)
"""


class Transaction:
    """The interface to the driver. Rows are tuples; parameters are named in the SQL.

    Every method raises our errors only: DatabaseUnavailable, Conflict (a duplicate of a unique
    value), PermissionDenied, InternalError.
    """

    def __init__(
        self,
        pool: Connections,
        *,
        schema: str,
        search_path: str,
        readonly: bool,
        advice: Advice,
        role: str | None = None,
        limit_s: float | None = None,
    ) -> None:
        """``role`` is the database role that it runs as, by default that of the connection.

        ``limit_s`` is how long each statement may take.
        """
        self._pool = pool
        self._schema = schema
        settings, values = _SETTINGS, {"search_path": search_path}
        if role is not None:
            settings, values = settings + _ROLE, {**values, "role": role}
        if limit_s is not None:
            limit_ms = str(max(1, round(limit_s * 1000)))  # 0 would be no limit
            settings, values = settings + _LIMIT, {**values, "limit_ms": limit_ms}
        # A reader sees one snapshot throughout, also while an index is being replaced. A writer
        # sees all that was committed while it waited for a lock.
        begin: LiteralString = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            if readonly
            else "BEGIN ISOLATION LEVEL READ COMMITTED"
        )
        self._has_role = role is not None
        self._opening: list[Statement] = [(begin, {}), (settings, values)]
        self._advice = advice
        self._connection: Connection | None = None

    async def fetch_all(self, query: LiteralString, /, **params: object) -> list[Row]:
        """All rows of a query."""
        [rows] = await self.fetch_many([(query, params)])
        return rows

    async def fetch_records(
        self, query: LiteralString, /, **params: object
    ) -> list[dict[str, Any]]:
        """All rows of a query, by the names of its columns."""
        with translated(self._advice):
            [cursor] = await self._run([(query, params)])
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]

    async def fetch_one(self, query: LiteralString, /, **params: object) -> Row | None:
        """The first row of a query, or None."""
        rows = await self.fetch_all(query, **params)
        return rows[0] if rows else None

    async def execute(self, query: LiteralString, /, **params: object) -> int:
        """Run a statement; the number of rows it affected."""
        with translated(self._advice):
            [cursor] = await self._run([(query, params)])
            return max(cursor.rowcount, 0)

    async def fetch_many(self, statements: Sequence[Statement], /) -> list[list[Row]]:
        """The rows of several independent statements, in a single round trip."""
        with translated(self._advice):
            cursors = await self._run(statements)
            return [await _rows_of(cursor) for cursor in cursors]

    async def copy(self, statement: LiteralString, payload: bytes | AsyncIterable[bytes], /) -> int:
        """Send data to ``COPY … FROM STDIN``, whole or in pieces; the number of rows."""
        with translated(self._advice):
            connection = await self._begun()
            async with connection.cursor() as cursor:
                async with cursor.copy(statement) as copy:
                    if isinstance(payload, bytes):
                        await copy.write(payload)
                    else:
                        async for piece in payload:
                            await copy.write(piece)
                return cursor.rowcount

    async def copy_out(
        self, statement: LiteralString, take: Callable[[bytes], Awaitable[None]], /
    ) -> int:
        """Pass the output of ``COPY … TO STDOUT`` to ``take``, in pieces; the number of rows."""
        with translated(self._advice):
            connection = await self._begun()
            async with connection.cursor() as cursor:
                async with cursor.copy(statement) as copy:
                    async for piece in copy:
                        await take(bytes(piece))
                return cursor.rowcount

    async def run_script(self, script: LiteralString, /) -> None:
        """Run a script of several statements without parameters, such as a migration."""
        with translated(self._advice):
            await (await self._begun()).execute(script)

    async def become_owner(self) -> None:
        """Run the rest as the connection's role, which owns the tables.

        Only the owner may build and drop indexes and gather statistics.
        """
        if self._has_role:
            await self.execute("SET LOCAL role TO DEFAULT")

    async def lock(self, key: str, /) -> None:
        """Wait for the lock of this name in this schema; it is held until the transaction ends."""
        await self.execute(_LOCK, key=lock_key(self._schema, key))

    async def held(self, keys: Iterable[str], /) -> set[str]:
        """Which of these locks in this schema are held, by any process."""
        by_number = {lock_key(self._schema, key): key for key in keys}
        if not by_number:
            return set()
        return {by_number[row[0]] for row in await self.fetch_all(_HELD, keys=list(by_number))}

    async def lock_if_free(self, key: str, /) -> bool:
        """Acquire the lock until the transaction ends, if it is free; whether it is held now."""
        row = await self.fetch_one(_TRY_LOCK, key=lock_key(self._schema, key))
        return row is not None and bool(row[0])

    async def fetch_last(self, statements: Sequence[Statement], /) -> list[list[Row]]:
        """The rows of several statements, committed in the same round trip. Must be the last."""
        with translated(self._advice):
            cursors = await self._run([*statements, _COMMIT])
            return [await _rows_of(cursor) for cursor in cursors[:-1]]

    async def commit(self) -> None:
        """Commit, unless that has been done; only the opener of the transaction calls this.

        Raises:
            InternalError: a statement failed and its error was swallowed: nothing is stored.
        """
        connection = self._connection
        if connection is None:
            return
        status = connection.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            return
        if status == TransactionStatus.INERROR:
            raise InternalError("A statement of this transaction failed, so nothing was stored")
        with translated(self._advice), round_trip(1):
            await connection.execute("COMMIT")

    async def close(self) -> None:
        """Roll back uncommitted changes and release the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with step("connection"):
            try:
                await connection.rollback()
            except psycopg.Error:
                await connection.close()  # the server rolls back
            finally:
                await self._pool.release(connection)

    async def _begun(self) -> Connection:
        """The connection, inside the transaction."""
        if self._connection is None:
            await self._start([])
        assert self._connection is not None
        return self._connection

    async def _run(self, statements: Sequence[Statement]) -> list[_Cursor]:
        """Run statements in a single round trip; the first time together with BEGIN."""
        connection = self._connection
        if connection is None:
            return await self._start(statements)
        with round_trip(len(statements)):
            if len(statements) != 1:
                return await pipelined(connection, statements)
            cursor = connection.cursor(binary=True)
            return [await cursor.execute(*statements[0])]

    async def _start(self, statements: Sequence[Statement]) -> list[_Cursor]:
        """Begin with the first statements; a connection that broke while idle is replaced once.

        That is safe, as nothing of an uncommitted transaction remains.
        """
        opening, is_retry = self._opening, False
        while True:
            with step("connection"):
                self._connection, is_new = await self._pool.acquire(fresh=is_retry)
            try:
                with round_trip(len(statements)):
                    cursors = await pipelined(self._connection, [*opening, *statements])
                    return cursors[len(opening) :]
            except psycopg.Error as error:
                if is_retry or is_new or not is_unavailable(error):
                    raise
            await self.close()
            is_retry = True


async def _rows_of(cursor: _Cursor) -> list[Row]:
    """The rows of a result; empty for a statement that returns none.

    Many are decoded in pieces, so that the event loop can run other tasks.
    """
    if cursor.pgresult is None or cursor.pgresult.status != ExecStatus.TUPLES_OK:
        return []
    rows = await cursor.fetchmany(_DECODED_AT_ONCE)
    while cursor.rownumber != cursor.rowcount:
        await asyncio.sleep(0)
        rows += await cursor.fetchmany(_DECODED_AT_ONCE)
    return rows


async def pipelined(connection: Connection, statements: Sequence[Statement]) -> list[_Cursor]:
    """Send all statements, then wait for all results, in the binary format, which is faster."""
    cursors: list[_Cursor] = []
    async with connection.pipeline():
        for query, params in statements:
            cursor = connection.cursor(binary=True)
            cursors.append(await cursor.execute(query, params))
    return cursors


@asynccontextmanager
async def committed(transaction: Transaction) -> AsyncIterator[Transaction]:
    """Commit at the end of the block, unless it raises."""
    try:
        yield transaction
        await transaction.commit()
    finally:
        await transaction.close()


def lock_key(schema: str, key: str) -> int:
    """The 64-bit key of the advisory lock for a name within a schema."""
    digest = hashlib.blake2b(f"{schema}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
