"""Which tools a client discovers, and how they announce themselves."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.tools.catalog import TOOLSETS
from codebase_mcp.tools.server import INSTRUCTIONS, build_server

pytestmark = pytest.mark.anyio


async def test_the_default_toolset_shows_exactly_the_two_tools(client: Client[Any]) -> None:
    assert [tool.name for tool in await client.list_tools()] == ["index_repository", "search_code"]


async def test_every_tool_has_a_title_all_hints_and_a_short_description(
    client: Client[Any],
) -> None:
    for tool in await client.list_tools():
        assert tool.title
        assert tool.description
        assert len(tool.description.encode()) < 2048
        hints = tool.annotations
        assert hints is not None
        assert None not in (
            hints.read_only_hint,
            hints.destructive_hint,
            hints.idempotent_hint,
            hints.open_world_hint,
        )


async def test_only_searching_is_announced_as_reading(client: Client[Any]) -> None:
    hints = {tool.name: tool.annotations for tool in await client.list_tools()}
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == {"search_code"}


async def test_the_instructions_are_short_and_reach_the_client(client: Client[Any]) -> None:
    assert len(INSTRUCTIONS.encode()) < 2048
    assert client.instructions == INSTRUCTIONS
    assert client.server_info is not None
    assert client.server_info.name == "codebase-mcp"
    assert client.server_info.version == version("codebase-mcp")


async def test_listing_the_tools_opens_neither_database_nor_model() -> None:
    async def refuse() -> Any:
        raise AssertionError("opened")

    for mode in ("auto", "legacy"):
        async with Client(build_server(refuse, ["code"]), mode=mode) as client:
            assert await client.list_tools()


def test_names_of_tools_are_unique_across_toolsets() -> None:
    names = [tool.name for toolset in TOOLSETS for tool in toolset.tools]
    assert len(names) == len(set(names))
