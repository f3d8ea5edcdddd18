"""Too many calls, and searches that take too long, get an error; the server is well afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from fastmcp import Client
from tests.waiting import until
from tests.web.conftest import Hold, serving

from codebase_mcp.access.identity import Access
from codebase_mcp.access.keys import create_key
from codebase_mcp.app.app import App
from codebase_mcp.app.background.indexing import start_indexing
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project, find_project
from codebase_mcp.errors import Overloaded, TimeLimitExceeded
from codebase_mcp.index import queue
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools import running

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


async def test_calls_beyond_the_queue_are_refused_at_once_and_searches_go_on(
    settings: Settings,
    make_repo: MakeRepo,
    project_id: str,
    held: Hold,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "_WAITING_PER_SLOT", 1)
    root = make_repo()
    index = {"repo_path": str(root), "project_id": project_id}
    search = {"query": "user login", "project_id": project_id}
    async with (
        serving(replace(settings, calls=2)) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=None) as http,
        Client(f"{server.address}/mcp") as client,
    ):
        await http.post("/tools/index_repository", json=index)
        before = (await http.post("/tools/search_code", json=search)).json()["results"]
        async with held(root, project_id):
            calls = [
                asyncio.create_task(http.post("/tools/index_repository", json=index))
                for _ in range(2)
            ]
            await until(lambda: server.holder._index_runs.is_full)
            refused = await http.post("/tools/index_repository", json=index)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
            error = refused.json()["error"]
            assert error["message"] == "The server is overloaded: 1 index runs are waiting"
            over_mcp = await client.call_tool("index_repository", index, raise_on_error=False)
            assert over_mcp.is_error
            assert over_mcp.structured_content["error"]["details"]["retry_after_seconds"] == 2
            assert over_mcp.structured_content["error"]["hint"] == error["hint"]
            during = await http.post("/tools/search_code", json=search)
            assert during.status_code == 200
        assert [(await call).status_code for call in calls] == [200, 200]
        after = (await http.post("/tools/search_code", json=search)).json()["results"]
        assert after == before != []


async def test_while_the_queue_is_full_calls_are_refused_at_the_door(
    settings: Settings,
    make_repo: MakeRepo,
    app: App,
    database: Database,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "_WAITING_PER_SLOT", 1)
    await app.index(make_repo(), project_id)
    project = await find_project(database, project_id)
    search = {"query": "user login", "project_id": project_id}
    small = replace(settings, calls=1, search_memory_mb=0, check_ms=0)
    async with (
        serving(small) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=None) as http,
        Client(f"{server.address}/mcp") as client,
    ):
        async with database.transaction(project) as tx:
            await tx.execute("LOCK TABLE chunk IN ACCESS EXCLUSIVE MODE")
            calls = [
                asyncio.create_task(http.post("/tools/search_code", json=search)) for _ in range(2)
            ]
            await until(lambda: server.holder.queue.is_full)
            refused = await http.post("/tools/search_code", json=search)
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert refused.headers["retry-after"] == "2"
            error = refused.json()["error"]
            assert error["message"] == "The server is overloaded: 1 calls are waiting"
            over_mcp = await client.call_tool("search_code", search, raise_on_error=False)
            assert over_mcp.is_error
            assert over_mcp.structured_content["error"]["hint"] == error["hint"]
            for body in (b"[" * 9_000, b"12", b"x" * 70_000, b'{"id":1,"method":"ping"}'):
                assert (await http.post("/mcp", content=body)).status_code == 503
            assert (await http.get("/health/live")).status_code == 200
        assert [(await call).status_code for call in calls] == [200, 200]
        assert not (await client.call_tool("search_code", search)).is_error


async def test_slow_calls_of_one_caller_keep_no_other_from_searching(
    settings: Settings,
    make_repo: MakeRepo,
    app: App,
    database: Database,
    project_id: str,
) -> None:
    await app.index(make_repo(), project_id)
    project = await find_project(database, project_id)
    headers = []
    for owner in ("alice", "bob"):
        access = Access(frozenset({"read"}), reads_as_server=False)
        _, key = await create_key(database, f"{owner} of {project_id}", access)
        headers.append({"Authorization": f"Bearer {key}"})
    query = {"entity_type": "t", "project_id": project_id}
    search = {"query": "user login", "project_id": project_id}
    async with (
        serving(replace(settings, require_keys=True, calls=4)) as server,
        httpx2.AsyncClient(base_url=server.address, headers=headers[0], timeout=None) as alice,
        httpx2.AsyncClient(base_url=server.address, headers=headers[1], timeout=None) as bob,
    ):
        async with database.transaction(project) as tx:
            await tx.execute("LOCK TABLE entity IN ACCESS EXCLUSIVE MODE")
            slow = [
                asyncio.create_task(alice.post("/tools/query_entities", json=query))
                for _ in range(40)
            ]
            refused, _ = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
            assert {call.result().status_code for call in refused} == {503}
            found = await bob.post("/tools/search_code", json=search)
            assert (found.status_code, len(found.json()["results"]) > 0) == (200, True)
        assert {(await call).status_code for call in slow} == {503, 404}


async def test_a_search_that_takes_too_long_is_stopped_and_the_next_one_is_well(
    settings: Settings,
    make_repo: MakeRepo,
    app: App,
    database: Database,
    project_id: str,
) -> None:
    await app.index(make_repo(), project_id)
    project = await find_project(database, project_id)
    # Not from memory, and without a look at the files, so that it asks the database for chunks.
    hasty = replace(settings, search_timeout_s=0.05, search_memory_mb=0, check_ms=0)
    search = {"query": "user login", "project_id": project_id}
    async with (
        serving(hasty) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=None) as http,
    ):
        async with database.transaction(project) as tx:
            await tx.execute("LOCK TABLE chunk IN ACCESS EXCLUSIVE MODE")
            late = await http.post("/tools/search_code", json=search)
        error = late.json()["error"]
        assert (late.status_code, error["type"]) == (503, "Unavailable")
        assert error["message"] == "The database stopped a statement that took too long"
        assert "CODEBASE_MCP_SEARCH_TIMEOUT" in error["hint"]
        (await server.holder.get()).database.search_limit_s = 60.0
        assert (await http.post("/tools/search_code", json=search)).json()["results"]


async def test_only_searches_have_a_time_limit(database: Database, project: Project) -> None:
    database.search_limit_s = 0.01
    with pytest.raises(TimeLimitExceeded):
        async with database.bounded_read(project) as tx:
            await tx.fetch_one("SELECT pg_sleep(300)")
    async with database.transaction(project) as tx:  # on the same connection
        assert await tx.fetch_one("SHOW statement_timeout") == ("0",)


async def test_a_full_queue_of_jobs_takes_no_more(
    app: App, make_repo: MakeRepo, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_WAITING", 0)
    with pytest.raises(Overloaded) as refused:
        await start_indexing(app, make_repo(), project_id)
    assert "index jobs are waiting" in refused.value.message
