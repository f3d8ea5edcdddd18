"""What we use inside FastMCP: it must be there, and do what we rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from codebase_mcp.tools.server import protocol_server

pytestmark = pytest.mark.anyio


class CountsLists(Middleware):
    """Counts the lists of tools."""

    count = 0

    async def on_list_tools(self, context: Any, call_next: Any) -> Any:
        self.count += 1
        return await call_next(context)


async def greet(name: str) -> str:
    return f"Hello {name}"


def call_of_greet() -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN_PROTOCOL_VERSIONS[-1],
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    params = {"name": "greet", "arguments": {"name": "Ada"}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def test_a_call_over_http_lists_no_tools_if_the_schema_is_known() -> None:
    counts = CountsLists()
    server: FastMCP[None] = FastMCP("test", tools=[greet], middleware=[counts])
    protocol_server(server).get_tool_input_schema = {"greet": {"type": "object"}}.get
    app = server.http_app(stateless_http=True, json_response=True)
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN_PROTOCOL_VERSIONS[-1],
        "Mcp-Method": "tools/call",
        "Mcp-Name": "greet",
    }
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1"
        ) as client,
    ):
        reply = await client.post("/mcp", json=call_of_greet(), headers=headers)
    assert "Hello Ada" in reply.text
    assert counts.count == 0


async def test_it_serves_streams_within_the_lifespan_of_the_whole_server() -> None:
    seen = []

    @asynccontextmanager
    async def lifespan(_: FastMCP[None]) -> AsyncIterator[None]:
        seen.append("opened")
        yield
        seen.append("closed")

    protocol = protocol_server(FastMCP("test", tools=[greet], lifespan=lifespan))
    to_server, messages = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    replies, from_server = anyio.create_memory_object_stream[SessionMessage](1)
    async with anyio.create_task_group() as tasks, from_server:
        tasks.start_soon(protocol.run, messages, replies, protocol.create_initialization_options())
        call = JSONRPCRequest.model_validate(call_of_greet())
        await to_server.send(SessionMessage(call))
        reply = await from_server.receive()
        assert "Hello Ada" in reply.message.model_dump_json()
        assert seen == ["opened"]
        await to_server.aclose()
    assert seen == ["opened", "closed"]
