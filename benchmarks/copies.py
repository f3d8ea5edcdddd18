"""What does it cost PostgreSQL to store what a run sends, and what does each index add to that?

The COPY streams of a run are recorded, then sent again into empty tables like the project's:
without indexes and without a log (the floor), with a log, and with one index at a time. What counts
is the CPU time of the one backend that does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from codebase_mcp.database.connection import Transaction
from processes import cpu_s_of

REPLAY = "bench_replay"

TABLE_OPTIONS = "SELECT reloptions FROM pg_class WHERE oid = to_regclass(%s)"
INDEXES = """
SELECT c.relname, a.amname, pg_get_indexdef(i.indexrelid)
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_am AS a ON a.oid = c.relam
WHERE i.indrelid = to_regclass(%s)
ORDER BY c.relname
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """One COPY of a run: its statement, its table, its bytes."""

    statement: str
    table: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """Core-seconds of storing the rows of one table; ``indexes`` are what each adds."""

    table: str
    megabytes: float
    unlogged_s: float
    plain_s: float
    indexes: dict[str, float]


def record() -> list[Copy]:
    """From now on keep every COPY that a transaction of ours sends."""
    copies: list[Copy] = []
    send = Transaction.copy

    async def copy(tx: Transaction, statement: Any, payload: Any, /) -> int:
        whole = payload if isinstance(payload, bytes) else b"".join(payload)
        named = re.search(r"COPY (\w+)", statement)
        assert named is not None
        copies.append(Copy(statement, named[1], whole))
        return await send(tx, statement, whole)

    Transaction.copy = copy  # type: ignore[method-assign]
    return copies


def replay(conninfo: str, schema: str, copies: Iterable[Copy]) -> list[Cost]:
    """What storing them costs, table by table."""
    by_table: dict[str, list[Copy]] = {}
    for copy in copies:
        by_table.setdefault(copy.table, []).append(copy)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {REPLAY} CASCADE")
        connection.execute(f"CREATE SCHEMA {REPLAY}")
        connection.execute(f"SET search_path = {REPLAY}, {schema}, public")
        costs = [_cost(connection, schema, table, some) for table, some in by_table.items()]
        connection.execute(f"DROP SCHEMA {REPLAY} CASCADE")
    return costs


def _cost(connection: psycopg.Connection[Any], schema: str, table: str, copies: list[Copy]) -> Cost:
    name = f"{schema}.{table}"
    indexes: dict[str, float] = {}
    unlogged_s = _stored(connection, name, copies, unlogged=True)
    plain_s = _stored(connection, name, copies)
    found = connection.execute(INDEXES, [name]).fetchall()
    for index, method, definition in found:
        create = definition.replace(f" ON {name} ", f" ON {REPLAY}.{table} ")
        if method in {"ivfflat", "hnsw"}:  # built when the rows are there
            indexes[index] = _used(connection, partial(connection.execute, create))
        else:
            with_index = _stored(connection, name, copies, create=create, gin=method == "gin")
            indexes[index] = with_index - plain_s
    connection.execute(f"DROP TABLE {REPLAY}.{table}")
    return Cost(table, sum(len(c.payload) for c in copies) / 1e6, unlogged_s, plain_s, indexes)


def _stored(
    connection: psycopg.Connection[Any],
    name: str,
    copies: list[Copy],
    *,
    unlogged: bool = False,
    create: str | None = None,
    gin: bool = False,
) -> float:
    """Core-seconds of filling a new table like the one of this name."""
    table = f"{REPLAY}.{name.rpartition('.')[2]}"
    kind = "UNLOGGED TABLE" if unlogged else "TABLE"
    row = connection.execute(TABLE_OPTIONS, [name]).fetchone()
    assert row is not None
    options = f" WITH ({', '.join(row[0])})" if row[0] else ""
    like = f"LIKE {name} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING IDENTITY"
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute(f"CREATE {kind} {table} ({like}){options}")
    if create is not None:
        connection.execute(create)

    def fill() -> None:
        for copy in copies:
            with connection.cursor().copy(copy.statement) as stream:
                stream.write(copy.payload)
        if gin:  # a run puts the word index in order at its end
            found = connection.execute(INDEXES, [table]).fetchall()
            for index, _, _ in found:
                connection.execute("SELECT gin_clean_pending_list(%s)", [f"{REPLAY}.{index}"])

    return _used(connection, fill)


def _used(connection: psycopg.Connection[Any], work: Callable[[], object]) -> float:
    """Core-seconds that the backend of a connection spends on some work."""
    pid = connection.info.backend_pid
    before = cpu_s_of(pid)
    work()
    return cpu_s_of(pid) - before
