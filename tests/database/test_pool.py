"""The pool: how many connections there are, who waits for one, and that none waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, External
from codebase_mcp.database.pool import Connection, Pool, PoolFacts, open_connection
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def make_pool(
    anyio_backend: str, plain_server: PlainServer
) -> AsyncIterator[Callable[..., Pool]]:
    """Make pools of connections to the plain server."""
    made: list[Pool] = []

    async def connect() -> Connection:
        return await open_connection(plain_server.url(), prepare_after=None)

    def make(size: int, overflow: int = 0, **given: float) -> Pool:
        made.append(Pool(connect, size=size, overflow=overflow, **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pool in made:
        await pool.close()


async def test_what_exceeds_the_size_is_closed_when_it_comes_back(
    make_pool: Callable[..., Pool],
) -> None:
    pool = make_pool(2, 1)
    taken = [(await pool.acquire())[0] for _ in range(3)]
    assert pool.facts() == PoolFacts(size=2, overflow=1, in_use=3, idle=0, waiting=0)
    for connection in taken:
        await pool.release(connection)
    assert pool.facts() == PoolFacts(size=2, overflow=1, in_use=0, idle=2, waiting=0)
    assert sum(connection.closed for connection in taken) == 1


async def test_who_waits_is_counted_and_served_when_one_comes_back(
    make_pool: Callable[..., Pool],
) -> None:
    pool = make_pool(1)
    first, _ = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    while not pool.facts().waiting:
        await asyncio.sleep(0)
    assert pool.facts() == PoolFacts(size=1, overflow=0, in_use=1, idle=0, waiting=1)
    await pool.release(first)
    second, is_new = await waiting
    assert (second is first, is_new) == (True, False)
    await pool.release(second)


async def test_waiting_is_bounded_and_names_the_settings(
    anyio_backend: str, plain_server: PlainServer
) -> None:
    database = await Database.open(External(plain_server.url(), pool_size=1, overflow=1))
    pool = database._pool
    pool._wait_s = 0.01
    try:
        taken = [(await pool.acquire())[0] for _ in range(2)]
        with pytest.raises(DatabaseUnavailable, match="All 2 database connections") as caught:
            await database.check()
        assert "DB_POOL_SIZE" in str(caught.value.hint)
        assert "DB_MAX_OVERFLOW" in str(caught.value.hint)
        for connection in taken:
            await pool.release(connection)
        await database.check()
    finally:
        await database.close()


async def test_idle_connections_are_closed_after_a_while(make_pool: Callable[..., Pool]) -> None:
    pool = make_pool(2, keep_s=0.001)
    connection, _ = await pool.acquire()
    await pool.release(connection)
    async with asyncio.timeout(60):
        while pool.facts().idle:
            await asyncio.sleep(0)
    assert connection.closed


async def test_one_connection_is_enough_for_everybody_at_once(
    plain_server: PlainServer,
    settings: Settings,
    make_repo: Callable[..., Path],
    database_name: str,
) -> None:
    url = plain_server.url(database_name)
    narrow = replace(settings, database_url=url, db_pool_size=1, db_max_overflow=0)
    roots = [make_repo(name=f"repo{number}") for number in range(12)]

    async def write(number: int) -> None:
        async with app.enter("busy") as here:
            await create_task(here.tx, f"Task {number}")

    async with await App.open(narrow) as app, asyncio.timeout(120):
        await app.index(roots[0], "busy")
        reports = await asyncio.gather(*(app.index(root, "busy") for root in roots + roots))
        assert {report.run.status for report in reports} == {"success"}
        jobs = [app.search("authenticate", "busy", with_notes=True) for _ in range(20)]
        answers, *_ = await asyncio.gather(
            asyncio.gather(*jobs),
            asyncio.gather(*(write(number) for number in range(20))),
            asyncio.gather(
                *(app.index(root, f"new-{number}") for number, root in enumerate(roots))
            ),
            asyncio.gather(*(app.remove(root, "busy") for root in roots[6:])),
        )
        assert all(report.answer.hits for report in answers)
        facts = app.database.pool_facts()
    assert (facts.in_use, facts.idle, facts.waiting) == (0, 1, 0)


async def test_many_runs_on_one_repository_wait_with_one_connection(
    anyio_backend: str, plain_server: PlainServer, database_name: str
) -> None:
    database = await Database.open(External(plain_server.url(database_name)))
    counted = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%advisory_lock%%'"
    order: list[int] = []

    async def run(number: int) -> None:
        async with database.session_locks(project, ["index"]):
            async with database.catalogue(readonly=True) as transaction:
                row = await transaction.fetch_one(counted + " AND pid <> pg_backend_pid()")
            assert row is not None
            order.append(row[0])

    try:
        project = await ensure_project(database, None)
        await asyncio.gather(*(run(number) for number in range(40)))
    finally:
        await database.close()
    assert len(order) == 40
    assert max(order) <= 2  # the one that ends, and the one that begins
