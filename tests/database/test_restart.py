"""A PostgreSQL that is restarted under load loses what was in flight, and nothing else."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, External
from codebase_mcp.database.projects import find_project
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

CLIENTS = 24


@dataclass(slots=True)
class Load:
    """Clients that go on asking, and what became of it."""

    app: App
    done: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    lost: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    stored: int = 0
    is_over: bool = False

    async def client(self, number: int) -> None:
        while not self.is_over:
            try:
                if number % 2:
                    await self.app.search("authenticate user", "loaded")
                else:
                    async with self.app.enter("loaded") as here:
                        await create_task(here.tx, f"Task of {number}")
                    self.stored += 1
                self.done[number] += 1
            except DatabaseUnavailable:
                self.lost[number] += 1
                self.is_over |= self.lost[number] > 1

    async def go_on(self) -> None:
        """Until each client has had three more answers."""
        goals = [count + 3 for count in self.done]
        async with asyncio.timeout(120):
            while not self.is_over and any(
                done < goal for done, goal in zip(self.done, goals, strict=True)
            ):
                await asyncio.sleep(0.001)


@pytest.fixture
async def load(
    anyio_backend: str,
    own_server: PlainServer,
    settings: Settings,
    make_repo: Callable[..., Path],
) -> AsyncIterator[Load]:
    async with await App.open(replace(settings, database_url=own_server.url())) as app:
        await app.index(make_repo(), "loaded")
        yield Load(app)


async def patient(server: PlainServer) -> AsyncIterator[Database]:
    database = await Database.open(External(server.url(), wait_s=60))
    yield database
    await database.close()


@pytest.fixture
async def ours(anyio_backend: str, own_server: PlainServer) -> AsyncIterator[Database]:
    """The database as one process has it."""
    async for database in patient(own_server):
        yield database


@pytest.fixture
async def others(anyio_backend: str, own_server: PlainServer) -> AsyncIterator[Database]:
    """The same as another process has it."""
    async for database in patient(own_server):
        yield database


@pytest.mark.parametrize("death", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
async def test_a_restart_under_load_loses_only_what_was_in_flight(
    load: Load, own_server: PlainServer, death: signal.Signals
) -> None:
    clients = [asyncio.create_task(load.client(number)) for number in range(CLIENTS)]
    await load.go_on()
    await asyncio.to_thread(own_server.stop, death)
    await asyncio.to_thread(own_server.start)
    await load.go_on()
    load.is_over = True
    await asyncio.gather(*clients)
    assert max(load.lost) <= 1
    async with load.app.enter("loaded", readonly=True) as here:
        [(stored,)] = await here.tx.fetch_all("SELECT count(*) FROM task")
    assert load.stored <= stored <= load.stored + sum(load.lost)


async def test_who_comes_while_the_server_is_away_waits_for_it(
    anyio_backend: str, own_server: PlainServer
) -> None:
    database = await Database.open(External(own_server.url(), wait_s=60))
    try:
        await find_project(database, None)
        own_server.stop()
        waiting = asyncio.create_task(find_project(database, None))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.2)
        assert not waiting.done()
        await asyncio.to_thread(own_server.start)
        assert (await waiting).schema_name == "project_default"
    finally:
        await database.close()


async def test_a_lock_that_a_restart_took_away_is_taken_again(
    own_server: PlainServer, ours: Database, others: Database
) -> None:
    project = await find_project(ours, None)
    async with others.try_locks() as try_locks:
        async with ours.session_locks(project, ["index"]) as held:
            await asyncio.to_thread(own_server.stop)
            await asyncio.to_thread(own_server.start)
            await held.confirm()
            assert not await try_locks.acquire(project, "index")
        assert await try_locks.acquire(project, "index")


async def test_who_lost_a_lock_to_somebody_else_hears_of_it(
    own_server: PlainServer, ours: Database, others: Database
) -> None:
    project = await find_project(ours, None)
    async with ours.session_locks(project, ["index"]) as held:
        await asyncio.to_thread(own_server.stop)
        await asyncio.to_thread(own_server.start)
        async with others.session_locks(project, ["index"]):
            with pytest.raises(DatabaseUnavailable, match="another run took over"):
                await held.confirm()


async def test_an_index_run_in_which_the_server_is_restarted_loses_a_batch_at_most(
    load: Load, own_server: PlainServer, make_repo: Callable[..., Path]
) -> None:
    files = {f"m{n}.py": f"def function_{n}():\n    return {n}\n" for n in range(1_200)}
    root = make_repo(files, "large")
    is_under_way = asyncio.Event()

    def follow(progress: RunProgress) -> None:
        if progress.done:
            is_under_way.set()

    running = asyncio.create_task(load.app.index(root, "loaded", progress=follow))
    await is_under_way.wait()
    await asyncio.to_thread(own_server.stop)
    await asyncio.to_thread(own_server.start)
    first = (await running).run
    second = (await load.app.index(root, "loaded")).run
    assert first.status == "success" or first.errors
    assert second.status == "success"
    assert second.files_unchanged >= 500
    assert first.files_indexed + second.files_indexed == len(files)


async def test_a_server_that_was_never_there_is_not_waited_for(anyio_backend: str) -> None:
    database = await Database.open(External("postgresql:///x?host=/nowhere", wait_s=600))
    async with asyncio.timeout(60):
        with pytest.raises(DatabaseUnavailable):
            await database.check()
    await database.close()


async def test_a_server_that_stays_away_is_given_up(
    anyio_backend: str, own_server: PlainServer
) -> None:
    database = await Database.open(External(own_server.url(), wait_s=0.2))
    try:
        await find_project(database, None)
        own_server.stop()
        with pytest.raises(DatabaseUnavailable) as caught:
            await find_project(database, None)
        assert "DATABASE_URL" in str(caught.value.hint)
    finally:
        await database.close()
