"""The whole product on a PostgreSQL of somebody else's, through MCP: its right and wrong days."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Client[Any]]:
    settings = Settings.load({"DATABASE_URL": url})
    async with Client(server_of(AppHolder(settings), ["code"])) as client:
        yield client


async def call(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert result.structured_content is not None
    return result.structured_content


async def test_a_database_of_somebody_else_serves_as_well(
    plain_server: PlainServer, make_repo: MakeRepo
) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    plain_server.execute(f"CREATE DATABASE {name}")
    async with client_of(plain_server.url(name)) as client:
        indexed = await call(client, "index_repository", repo_path=str(make_repo()))
        assert (indexed["status"], indexed["project_id"]) == ("success", None)
        found = await call(client, "search_code", query="user login", repository_id="all")
        assert found["results"][0]["file_path"] == "src/auth.py"
        assert found["schema_name"] == "project_default"
    plain_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_role_that_may_not_create_a_schema_hears_whom_to_ask(
    plain_server: PlainServer, make_repo: MakeRepo
) -> None:
    name = f"test_{uuid.uuid4().hex[:12]}"
    plain_server.execute(f"CREATE DATABASE {name}", f"CREATE ROLE {name} LOGIN")
    async with client_of(plain_server.url(name)) as client:
        await call(client, "index_repository", repo_path=str(make_repo()))
    plain_server.execute(
        f"GRANT USAGE ON SCHEMA codebase_mcp TO {name}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA codebase_mcp TO {name}",
        database=name,
    )
    async with client_of(plain_server.url(name, name)) as client:
        arguments = {"repo_path": str(make_repo()), "project_id": "client-a"}
        error = (await call(client, "index_repository", **arguments))["error"]
    assert error["code"] == "PERMISSION_DENIED"
    assert error["message"] == "Cannot create project workspace - insufficient permissions"
    assert error["details"]["project_id"] == "client-a"
    assert error["details"]["schema_name"] == "project_client_a"
    action = "Contact administrator to grant CREATE SCHEMA permission"
    assert error["details"]["suggested_action"] == action
    plain_server.execute(f"DROP DATABASE {name} WITH (FORCE)", f"DROP ROLE {name}")


async def test_a_database_that_is_away_is_an_error_without_secrets(make_repo: MakeRepo) -> None:
    url = "postgresql://user:secret-word@127.0.0.1:9/none"
    async with client_of(url) as client:
        for tool, arguments, message in (
            (
                "index_repository",
                {"repo_path": str(make_repo())},
                "Failed to index repository: Database connection failed",
            ),
            ("search_code", {"query": "user login"}, "PostgreSQL database unavailable"),
        ):
            error = (await call(client, tool, **arguments))["error"]
            assert (error["code"], error["type"]) == ("DATABASE_ERROR", "Unavailable")
            assert error["message"] == message
            assert "DATABASE_URL" in error["hint"]
            assert "secret-word" not in str(error)


async def test_a_database_that_dies_in_the_middle_leaves_a_failed_run_and_what_was_stored(
    own_server: PlainServer, make_repo: MakeRepo
) -> None:
    files = {f"m{n}.py": f"def number_{n}():\n    return {n}\n" * 60 for n in range(1500)}
    root = make_repo(files)
    settings = Settings.load({"DATABASE_URL": own_server.url()})
    stored = asyncio.Event()
    async with await App.open(settings) as app:
        run = asyncio.create_task(
            app.index(root, progress=lambda p: stored.set() if p.done else None)
        )
        await stored.wait()
        await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
        failed = (await run).run
        assert failed.status == "failed"
        assert failed.errors[-1].startswith("PostgreSQL database unavailable")
        own_server.start()
        hits = (await app.search("number")).answer.hits
        assert hits
        again = (await app.index(root)).run
        assert again.status == "success"
        assert again.files_indexed + again.files_unchanged == 1500
        assert again.files_unchanged >= failed.files_indexed > 0
