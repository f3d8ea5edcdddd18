"""MCP Apps: what clients get that show HTML, and that others get nothing else than before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.client.extension import advertise
from mcp_types import Implementation

from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of
from codebase_mcp.web.pages.apps import EXTENSION, HTML_KEY, MIME_TYPE, server_with_apps

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Connect = Callable[..., AbstractAsyncContextManager[Client[Any]]]

SHOWN = {
    "search_code": "ui://codebase-mcp/search_code.html",
    "list_tasks": "ui://codebase-mcp/list_tasks.html",
}
TOOLS = ("code", "tasks")


@pytest.fixture
def connect(mode: Any, settings: Settings) -> Connect:
    """A client that shows apps of these types, or none, on a server with or without apps."""

    @asynccontextmanager
    async def connect(
        *types: str, serve: Any = server_with_apps, name: str = "some-program"
    ) -> AsyncIterator[Client[Any]]:
        server = serve(AppHolder(settings), TOOLS)
        info = Implementation(name=name, version="1")
        shows = [advertise(EXTENSION, {"mimeTypes": list(types)})] if types else []
        async with Client(server, mode=mode, client_info=info, extensions=shows) as client:
            yield client

    return connect


async def everything_seen(client: Client[Any], project_id: str) -> dict[str, Any]:
    """All that a client learns of a server, as it is sent."""
    asked = {"query": "authenticate user", "project_id": project_id}
    found = await client.call_tool_mcp("search_code", asked)
    if found.structured_content is not None:
        for name in ("latency_ms", "index"):
            del found.structured_content[name]
        found.content = []
    seen = {
        "server": client.server_capabilities,
        "tools": await client.list_tools_mcp(),
        "resources": await client.list_resources_mcp(),
        "found": found,
        "tasks": await client.call_tool_mcp("list_tasks", {"project_id": project_id}),
        "error": await client.call_tool_mcp("search_code", {"query": ""}),
    }
    return {
        name: value.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, value in seen.items()
        if value is not None
    }


@pytest.mark.parametrize("name", ["some-program", "claude-code"])
async def test_a_client_that_shows_no_apps_gets_what_it_got_before(
    connect: Connect, make_repo: MakeRepo, project_id: str, name: str
) -> None:
    seen = []
    async with connect(name=name) as client:
        arguments = {"repo_path": str(make_repo()), "project_id": project_id}
        await client.call_tool("index_repository", arguments)
        await client.call_tool("create_task", {"title": "Mend it", "project_id": project_id})
        seen.append(await everything_seen(client, project_id))
    async with connect("text/html", name=name) as client:  # an app of a type that we do not have
        seen.append(await everything_seen(client, project_id))
    async with connect(serve=server_of, name=name) as client:
        before = await everything_seen(client, project_id)
    assert before["tasks"]["content"]
    assert "src/auth.py" in str(before["found"])
    assert seen == [before, before]


@pytest.mark.parametrize("name", ["claude-ai", "Visual Studio Code"])
async def test_a_client_that_shows_apps_finds_them_at_their_tools(
    connect: Connect, make_repo: MakeRepo, project_id: str, name: str
) -> None:
    async with connect(MIME_TYPE, name=name) as client:
        tools = {tool.name: tool.meta for tool in await client.list_tools()}
        assert {name: meta["ui"] for name, meta in tools.items() if "ui" in (meta or {})} == {
            tool: {"resourceUri": uri} for tool, uri in SHOWN.items()
        }
        listed = await client.list_resources()
        assert {(str(one.uri), one.mime_type) for one in listed} == {
            (uri, MIME_TYPE) for uri in SHOWN.values()
        }
        for uri in SHOWN.values():
            [document] = await client.read_resource(uri)
            assert document.mime_type == MIME_TYPE
            assert "csp" not in document.meta["ui"]  # so that no other host is asked
            assert document.text.startswith("<!doctype html>")
            for leads_away in ("://", "@import", "url(", "src=", ' href="', "fetch("):
                assert leads_away not in document.text

        arguments = {"repo_path": str(make_repo()), "project_id": project_id}
        indexed = await client.call_tool_mcp("index_repository", arguments)
        assert HTML_KEY not in (indexed.meta or {})
        asked = {"query": "authenticate user", "project_id": project_id}
        found = await client.call_tool_mcp("search_code", asked)
        assert "src/" in found.meta[HTML_KEY] and "authenticate" in found.meta[HTML_KEY]
        for at in ("href=", "<script", "<style", " src=", " style="):
            assert at not in found.meta[HTML_KEY]
        failed = await client.call_tool_mcp("search_code", {"query": ""})
        assert HTML_KEY not in (failed.meta or {})

        none = await client.call_tool_mcp("list_tasks", {"project_id": project_id})
        assert "No tasks." in none.meta[HTML_KEY]
        for title in ("Mend <b>it</b>", "Other"):
            await client.call_tool("create_task", {"title": title, "project_id": project_id})
        tasks = await client.call_tool_mcp("list_tasks", {"project_id": project_id, "limit": 1})
        assert "Other" in tasks.meta[HTML_KEY]
        assert "1 further ones match." in tasks.meta[HTML_KEY]
        tasks = await client.call_tool_mcp("list_tasks", {"project_id": project_id})
        assert "Mend &lt;b&gt;it&lt;/b&gt;" in tasks.meta[HTML_KEY]


async def test_a_reply_that_cannot_be_shown_is_whole(
    connect: Connect, existing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> Any:
        raise OSError(f"{name} cannot be read")

    monkeypatch.setattr("codebase_mcp.web.pages.apps._template", fail)
    async with connect(MIME_TYPE) as client:
        made = {"title": "Mend it", "project_id": existing}
        await client.call_tool("create_task", made)
        tasks = await client.call_tool_mcp("list_tasks", {"project_id": existing})
        assert tasks.structured_content is not None
        assert tasks.structured_content["total_count"] == 1
        assert HTML_KEY not in (tasks.meta or {})
