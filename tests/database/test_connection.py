"""Transactions, locks and the pool, over the run's embedded server."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psycopg.waiting
import pytest
from psycopg.pq import TransactionStatus
from tests.waiting import until

from codebase_mcp.database import supervisor
from codebase_mcp.database.connection import Database, Embedded, is_recent
from codebase_mcp.database.faults import Advice
from codebase_mcp.database.pool import Connection, Pool, require_recent_server
from codebase_mcp.database.projects import Project, drop_project, ensure_project
from codebase_mcp.database.server import EmbeddedServer
from codebase_mcp.database.transaction import Transaction, committed
from codebase_mcp.errors import Conflict, DatabaseUnavailable, InternalError

from .conftest import postmaster_of

pytestmark = pytest.mark.anyio

T = TypeVar("T")


@pytest.fixture
def embedded(embedded: Embedded) -> Embedded:
    """The run's server without roles of projects, which may not use tables that a test makes."""
    return replace(embedded, project_roles=False)


LOCK_HOLDER = """
import asyncio, datetime, sys
from pathlib import Path
from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.projects import find_project
async def main():
    database = await Database.open(Embedded(Path(sys.argv[1])))
    project = await find_project(database, sys.argv[2])
    async with database.session_locks(project, ["index"]):
        print(True, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def make_table(database: Database, project: Project, word: str) -> None:
    async with database.transaction(project) as transaction:
        await transaction.execute("CREATE TABLE note (id integer PRIMARY KEY, word text)")
        await transaction.execute("INSERT INTO note VALUES (1, %(word)s)", word=word)


async def words(database: Database, project: Project) -> list[str]:
    async with database.transaction(project, readonly=True) as transaction:
        return [row[0] for row in await transaction.fetch_all("SELECT word FROM note ORDER BY id")]


async def test_opening_a_database_starts_nothing(open_folder: Path) -> None:
    database = await Database.open(Embedded(open_folder / "data"))
    await database.close()
    assert not (open_folder / "data").exists()


async def test_check_says_what_there_is(database: Database, embedded: Embedded) -> None:
    facts = await database.check()
    assert facts.embedded
    assert facts.data_dir == embedded.data_dir
    assert facts.server_version.startswith("18.")
    assert is_recent(facts.vector_version)


async def test_what_a_block_did_is_there_afterwards_and_what_failed_is_not(
    database: Database, project: Project
) -> None:
    await make_table(database, project, "kept")
    with pytest.raises(KeyError):
        async with database.transaction(project) as transaction:
            await transaction.execute("INSERT INTO note VALUES (2, 'lost')")
            raise KeyError
    assert await words(database, project) == ["kept"]


async def test_nothing_of_one_project_is_visible_from_another(
    database: Database, project: Project
) -> None:
    other = await ensure_project(database, f"other-{uuid.uuid4().hex[:12]}")
    try:
        await make_table(database, project, "mine")
        with pytest.raises(InternalError):
            await words(database, other)
        await make_table(database, other, "theirs")
        both = await asyncio.gather(words(database, project), words(database, other))
        assert both == [["mine"], ["theirs"]]
    finally:
        await drop_project(database, other)


async def test_a_transaction_that_asks_nothing_takes_no_connection(anyio_backend: str) -> None:
    asked = []

    async def connect() -> Connection:
        asked.append("connection")
        raise DatabaseUnavailable("not here")

    transaction = Transaction(
        Pool(connect, size=1), schema="x", search_path="x", readonly=True, advice=Advice()
    )
    async with committed(transaction):
        assert asked == []
    assert asked == []


async def test_a_reading_transaction_refuses_to_write(database: Database, project: Project) -> None:
    await make_table(database, project, "kept")
    with pytest.raises(InternalError) as caught:
        async with database.transaction(project, readonly=True) as transaction:
            await transaction.execute("DELETE FROM note")
    assert caught.value.details["sqlstate"] == "25006"


async def test_several_statements_travel_together_and_answer_in_order(
    database: Database, project: Project
) -> None:
    await make_table(database, project, "first")
    async with database.transaction(project) as transaction:
        answers = await transaction.fetch_many(
            [
                ("SELECT word FROM note WHERE id = %(id)s", {"id": 1}),
                ("INSERT INTO note VALUES (2, 'second')", {}),
                ("SELECT count(*) FROM note", {}),
            ]
        )
        assert answers == [[("first",)], [], [(2,)]]


async def test_a_commit_can_travel_with_the_last_statements(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        await tx.execute("CREATE TABLE kept (n integer)")
        rows = await tx.fetch_last(
            [("INSERT INTO kept VALUES (1), (2)", {}), ("SELECT n FROM kept", {})]
        )
        assert rows == [[], [(1,), (2,)]]
        async with database.transaction(project, readonly=True) as other:
            assert await other.fetch_one("SELECT count(*) FROM kept") == (2,)
    with pytest.raises(InternalError):
        async with database.transaction(project) as tx:
            await tx.execute("INSERT INTO kept VALUES (3)")
            await tx.fetch_last([("SELECT n / 0 FROM kept", {})])
    async with database.transaction(project, readonly=True) as tx:
        assert await tx.fetch_one("SELECT count(*) FROM kept") == (2,)


async def test_a_lock_can_be_tried_without_waiting(database: Database, project: Project) -> None:
    async with database.transaction(project) as first, database.transaction(project) as second:
        assert await first.lock_if_free("one")
        assert await first.lock_if_free("one")
        assert not await second.lock_if_free("one")
        assert await second.lock_if_free("another")
        await first.commit()
        assert await second.lock_if_free("one")


async def test_copy_takes_binary_rows_in_pieces(database: Database, project: Project) -> None:
    await make_table(database, project, "first")
    row = struct.pack("!hii", 2, 4, 7) + struct.pack("!i", 6) + b"copied"

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"PGCOPY\n\xff\r\n\0" + bytes(8), row, struct.pack("!h", -1)):
            yield piece

    async with database.transaction(project) as transaction:
        await transaction.copy("COPY note FROM STDIN (FORMAT BINARY)", pieces())
    assert await words(database, project) == ["first", "copied"]


async def test_a_value_that_is_there_already_is_a_conflict_and_says_no_sql(
    database: Database, project: Project
) -> None:
    await make_table(database, project, "secret-word")
    with pytest.raises(Conflict) as caught:
        async with database.transaction(project) as transaction:
            await transaction.execute("INSERT INTO note VALUES (1, 'secret-word')")
    assert caught.value.details == {"constraint": "note_pkey"}
    assert "INSERT" not in str(caught.value.as_dict())


async def test_an_unforeseen_error_has_an_id_that_the_log_has_too(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InternalError) as caught:
        async with database.transaction(project) as transaction:
            await transaction.execute("SELECT no_such_column")
    assert "no_such_column" not in str(caught.value.as_dict())
    assert caught.value.details["error_id"] in caplog.text


async def test_a_swallowed_error_does_not_pass_for_a_commit(
    database: Database, project: Project
) -> None:
    await make_table(database, project, "first")
    with pytest.raises(InternalError, match="nothing was stored"):
        async with database.transaction(project) as transaction:
            await transaction.execute("INSERT INTO note VALUES (2, 'lost')")
            with pytest.raises(Conflict):
                await transaction.execute("INSERT INTO note VALUES (1, 'again')")
    assert await words(database, project) == ["first"]


async def test_a_lock_of_a_project_lets_one_transaction_in_at_a_time(
    database: Database, project: Project
) -> None:
    order = []

    async def second() -> None:
        async with database.transaction(project) as transaction:
            await transaction.lock("store")
            order.append("second")

    async with database.transaction(project) as transaction:
        await transaction.lock("store")
        waiting = asyncio.create_task(second())
        async with database.catalogue() as watcher:
            await watcher.lock("store")  # the same key elsewhere is another lock
            blocked = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            await until(lambda: watcher.fetch_all(blocked))
        order.append("first")
    await waiting
    assert order == ["first", "second"]


async def test_a_session_lock_is_held_by_one_until_its_block_ends(
    database: Database, project: Project
) -> None:
    async with database.try_locks() as second:
        async with database.session_locks(project, ["index"]) as first:
            await first.confirm()
            assert not await second.acquire(project, "index")
        assert await second.acquire(project, "index")


async def test_no_session_stays_open_when_the_release_of_its_locks_is_cancelled(
    database: Database, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Connection] = []
    connect = database._connect_directly

    async def connect_and_tell() -> Connection:
        opened.append(await connect())
        return opened[-1]

    monkeypatch.setattr(database, "_connect_directly", connect_and_tell)
    monkeypatch.setattr(database._locks, "_connect", connect_and_tell)
    async with AsyncExitStack() as trying, AsyncExitStack() as holding:
        tried = await trying.enter_async_context(database.try_locks())
        assert await tried.acquire(project, "one")
        await holding.enter_async_context(database.session_locks(project, ["other"]))
        for stack, connection in zip((trying, holding), opened, strict=True):
            leaving = asyncio.create_task(stack.aclose())
            while connection.pgconn.transaction_status != TransactionStatus.ACTIVE:
                assert not leaving.done()
                await asyncio.sleep(0)
            leaving.cancel()
            await asyncio.wait([leaving])
            assert leaving.cancelled()
            assert connection.closed
    with pytest.raises(DatabaseUnavailable):
        await tried.acquire(project, "one")
    assert len(opened) == 2


async def test_a_session_lock_falls_with_the_process_that_holds_it(
    database: Database, project: Project, embedded: Embedded
) -> None:
    assert project.project_id is not None
    command = [sys.executable, "-c", LOCK_HOLDER, str(embedded.data_dir), project.project_id]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(*command, stdout=pipe, env=environment)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"True\n"
    async with database.try_locks() as try_locks:
        assert not await try_locks.acquire(project, "index")
    holder.kill()
    async with database.session_locks(project, ["index"]) as held:
        await held.confirm()
    await holder.communicate()


async def test_a_cancelled_statement_ends_on_the_server_and_its_connection_serves_on(
    database: Database, project: Project
) -> None:
    running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%%'"

    async def sleep() -> None:
        async with database.transaction(project) as transaction:
            await transaction.execute("SELECT pg_sleep(600)")

    task = asyncio.create_task(sleep())

    async def is_running() -> bool:
        async with database.catalogue(readonly=True) as transaction:
            row = await transaction.fetch_one(running + " AND state = 'active'")
        return row != (0,)

    async def has_ended() -> bool:
        return not await is_running()

    await until(is_running)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(has_ended)
    await make_table(database, project, "fine")
    assert await words(database, project) == ["fine"]


@pytest.mark.parametrize("steps", range(8))
async def test_a_call_cancelled_at_any_step_leaves_no_connection_that_returns_nothing(
    database: Database, project: Project, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", -1)  # as if the loop was always busy

    async def ask() -> list[tuple[int, ...]]:
        async with database.transaction(project) as transaction:
            return await transaction.fetch_all("SELECT 1")

    assert await ask() == [(1,)]
    task = asyncio.create_task(ask())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert await ask() == [(1,)]


async def test_nothing_set_for_a_transaction_outlives_it(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as transaction:
        [(inside, backend)] = await transaction.fetch_all(
            "SELECT current_setting('search_path'), pg_backend_pid()"
        )
    assert inside == f'"{project.schema_name}", "public"'
    async with database.catalogue() as transaction:
        [(inside, again)] = await transaction.fetch_all(
            "SELECT current_setting('search_path'), pg_backend_pid()"
        )
    assert (inside, again) == ('"codebase_mcp", "public"', backend)


async def test_a_killed_embedded_server_is_started_again_by_the_next_transaction(
    anyio_backend: str, open_folder: Path
) -> None:
    target = Embedded(open_folder / "data", idle_minutes=0.001, project_roles=False)
    database = await Database.open(target)
    try:
        project = await ensure_project(database, None)
        await make_table(database, project, "kept")
        os.kill(postmaster_of(EmbeddedServer(target)), signal.SIGKILL)
        await asyncio.to_thread(EmbeddedServer(target).wait_until_ended)
        assert await words(database, project) == ["kept"]
    finally:
        await database.close()
    await asyncio.to_thread(EmbeddedServer(target).wait_until_ended)
    assert not supervisor.is_locked(str(open_folder / "data" / supervisor.SUPERVISOR_LOCK))


async def test_a_pool_that_is_all_in_use_says_so(database: Database) -> None:
    pool = Pool(database._connect_embedded, size=1, wait_s=0.01)
    connection, is_new = await pool.acquire()
    assert is_new
    with pytest.raises(DatabaseUnavailable, match="All 1 database connections are in use"):
        await pool.acquire()
    await pool.release(connection)
    again, is_new = await pool.acquire()
    assert (again is connection, is_new) == (True, False)
    await pool.release(again)
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    closing.cancel()  # as a server that is stopped twice
    await asyncio.wait([closing])
    assert connection.closed


async def test_a_closed_database_says_so(anyio_backend: str, embedded: Embedded) -> None:
    database = await Database.open(embedded)
    await database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await database.check()


@pytest.mark.parametrize(("number", "is_enough"), [(140012, False), (150000, True), (180004, True)])
async def test_a_server_before_version_15_is_refused(number: int, is_enough: bool) -> None:
    if is_enough:
        require_recent_server(number)
    else:
        with pytest.raises(DatabaseUnavailable, match="version 15 or later is needed, it is 14"):
            require_recent_server(number)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.7.4", False), ("0.8", True), ("0.8.5", True), ("0.10.0", True), ("1.0.0", True)],
)
async def test_pgvector_is_recent_from_0_8(version: str, expected: bool) -> None:
    assert is_recent(version) is expected
