"""Locks that are only tried, and a watcher whose database goes away."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.waiting import until

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.app.freshness.watcher import IndexUpdate, Watcher
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer

pytestmark = pytest.mark.anyio


async def test_a_try_lock_is_held_until_it_is_released(
    database: Database, project: Project
) -> None:
    async with database.try_locks() as ours, database.try_locks() as theirs:
        assert await ours.acquire(project, "watch a")
        assert await ours.acquire(project, "watch a")
        assert not await theirs.acquire(project, "watch a")
        assert await theirs.acquire(project, "watch b")

        await ours.release(project, "watch a")
        assert await theirs.acquire(project, "watch a")


async def test_try_locks_are_released_with_their_block(
    database: Database, project: Project
) -> None:
    async with database.try_locks() as ours:
        assert await ours.acquire(project, "watch a")
    async with database.try_locks() as theirs:
        assert await theirs.acquire(project, "watch a")


async def test_try_locks_share_one_connection(database: Database, project: Project) -> None:
    count = "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND pid = ANY(%s)"
    pids = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%%pg_try_advisory_lock%%'"
    async with database.try_locks() as ours:
        for number in range(50):
            assert await ours.acquire(project, f"watch {number}")
        async with database.catalogue(readonly=True) as tx:
            found = [row[0] for row in await tx.fetch_all(pids)]
            [row] = await tx.fetch_all(count.replace("%s", "%(pids)s"), pids=found)
    assert row[0] == 1


async def test_try_locks_lost_with_their_connection_can_be_acquired_again(
    own_server: PlainServer, settings: Settings
) -> None:
    async with await App.open(replace(settings, database_url=own_server.url())) as app:
        project, _ = await app.resolver.resolve("claimed", ANONYMOUS, create=True)
        async with app.database.try_locks() as ours, app.database.try_locks() as theirs:
            assert await ours.acquire(project, "watch a")
            with psycopg.connect(own_server.url(), autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                )
            await until(lambda: theirs.acquire(project, "watch a"))

            await ours.check()

            assert not await ours.acquire(project, "watch a")


async def test_a_watcher_goes_on_when_its_database_was_restarted(
    own_server: PlainServer, settings: Settings, make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    said: list[IndexUpdate] = []
    async with await App.open(replace(settings, database_url=own_server.url())) as app:
        project = (await app.index(root, "watched")).project

        async def projects() -> list[Project]:
            return [project]

        async def is_watched() -> bool:
            return (await app.trees.load(project))[0].is_watched

        watcher = asyncio.create_task(
            Watcher(app.database, app.trees, projects, on_update=said.append).run()
        )
        try:
            await until(lambda: bool(said))
            said.clear()
            own_server.stop(signal.SIGINT)
            (root / "src/new.py").write_text("def cancel_invoice():\n    pass\n")
            await until(lambda: any(one.error for one in said))
            (root / "src/auth.py").unlink()
            own_server.start()

            await until(lambda: any(one.run for one in said))

            found = await app.search("cancel invoice", "watched")
            assert "src/new.py" in {hit.file_path for hit in found.answer.hits}
            await until(is_watched)
            (root / "src/newer.py").write_text("def cancel_order():\n    pass\n")
            said.clear()
            await until(lambda: any(one.run and one.run.added for one in said))
        finally:
            watcher.cancel()
            await asyncio.wait([watcher])
