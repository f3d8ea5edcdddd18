"""Calls that are answered without the library's own way get the same response, byte for byte."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp_types import CallToolRequestParams
from tests.web.conftest import running

from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.http import asgi_app_of
from codebase_mcp.web.pages.apps import EXTENSION, MIME_TYPE, server_with_apps

pytestmark = pytest.mark.anyio

REVISION = "2026-07-28"
# The library looks for a tool's version in it.
OWN_WAY: dict[str, Any] = {"fastmcp": {}}
APPS = {"extensions": {EXTENSION: {"mimeTypes": [MIME_TYPE]}}}


class Calls(Middleware):
    """Counts the calls that go the library's own way."""

    count = 0

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        self.count += 1
        return await call_next(context)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
async def http(
    anyio_backend: str, settings: Settings, calls: Calls
) -> AsyncIterator[httpx2.AsyncClient]:
    holder = AppHolder(settings)
    server = server_with_apps(holder, TOOLSETS)
    server.add_middleware(calls)
    async with running(asgi_app_of(server, holder, settings)) as client:
        yield client


async def ask(
    http: httpx2.AsyncClient,
    tool: Any,
    arguments: Any,
    client: str = "program",
    capabilities: Any = None,
    **meta: Any,
) -> tuple[int, Any]:
    """The status and the message for a call."""
    meta |= {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": REVISION,
        "MCP-Method": "tools/call",
        "MCP-Name": str(tool),
    }
    response = await http.post("/mcp", content=json.dumps(message), headers=headers)
    return response.status_code, response.json()


@pytest.mark.parametrize("client", ["program", "claude-code"])
async def test_the_response_is_that_of_the_library(
    http: httpx2.AsyncClient, project_id: str, calls: Calls, client: str
) -> None:
    await ask(http, "create_project", {"name": "x", "project_id": project_id})
    task = {"title": "Größer als ✓", "project_id": project_id}
    _, made = await ask(http, "create_task", task)
    assert calls.count == 0
    known = {"task_id": made["result"]["structuredContent"]["id"], "project_id": project_id}
    for tool, arguments, capabilities in (
        ("get_task", known, {}),
        ("list_tasks", {"project_id": project_id}, {}),
        ("list_tasks", {"project_id": project_id}, APPS),
        ("get_task", {"task_id": "none"}, {}),
        ("get_task", {"task_id": float("nan")}, {}),
        ("get_task", {"task_id": "\ud800"}, {}),
        ("search_code", {"query": "x", "limit": 100, "nonsense": ["…"]}, {}),
        ("search_code", {}, {}),
        ("search_code", None, {}),
    ):
        calls.count = 0
        direct = await ask(http, tool, arguments, client, capabilities)
        assert calls.count == 0
        assert await ask(http, tool, arguments, client, capabilities, **OWN_WAY) == direct
        # A request that breaks the protocol reaches no tool.
        assert calls.count == (direct[0] == 200)


@pytest.mark.parametrize(
    ("tool", "arguments", "capabilities"),
    [
        ("serch_code", {}, {}),
        ("search_code", [], {}),
        (["search_code"], {}, {}),
        ("search_code", {}, {"extensions": 1}),
    ],
)
async def test_what_breaks_the_protocol_is_refused_as_by_the_library(
    http: httpx2.AsyncClient, tool: Any, arguments: Any, capabilities: Any
) -> None:
    refused = await ask(http, tool, arguments, capabilities=capabilities)
    assert await ask(http, tool, arguments, capabilities=capabilities, **OWN_WAY) == refused


async def test_after_a_handshake_the_result_is_that_of_the_library(
    http: httpx2.AsyncClient, calls: Calls
) -> None:
    address = StreamableHttpTransport(f"{http.base_url}/mcp")
    async with Client(address, mode="legacy") as client:
        for tool, arguments in (("list_projects", {}), ("get_task", {"task_id": "none"})):
            calls.count = 0
            direct = await client.call_tool_mcp(tool, arguments)
            assert calls.count == 0
            assert await client.call_tool_mcp(tool, arguments, meta=OWN_WAY) == direct
            assert calls.count == 1
