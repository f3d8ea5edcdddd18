"""The form of replies over HTTP: a client's name counts there too, and plain calls stay JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp_types import Implementation
from tests.web.conftest import running, serving

from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.http import make_asgi_app

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("name", "is_text"), [("claude-code", True), ("program", False)])
async def test_an_agent_gets_text_over_http(
    settings: Settings, mode: Any, name: str, is_text: bool
) -> None:
    info = Implementation(name=name, version="1")
    async with serving(settings) as server:
        address = StreamableHttpTransport(f"{server.address}/mcp")
        async with Client(address, mode=mode, client_info=info) as client:
            tools = await client.list_tools()
            asked = {"query": "x", "project_id": "no-such"}
            result = await client.call_tool("search_code", asked, raise_on_error=False)
    assert all((tool.output_schema is None) is is_text for tool in tools)
    assert (result.structured_content is None) is is_text


async def test_a_plain_call_is_json_whatever_is_chosen(settings: Settings) -> None:
    async with running(make_asgi_app(replace(settings, replies="text"))) as client:
        refused = await client.post("/tools/search_code", json={"query": ""})
    assert refused.json()["error"]["code"] == "VALIDATION_ERROR"
