"""Which tools a client discovers, and how they announce themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.table import TOOLS, TOOLSETS
from codebase_mcp.tools.catalog import toolsets
from codebase_mcp.tools.server import AppHolder, instructions_for, server_of

pytestmark = pytest.mark.anyio


async def refuse() -> Any:
    """Open the product: nothing that only lists tools may do so."""
    raise AssertionError("opened")


def server_with(toolsets: Sequence[str]) -> FastMCP[None]:
    return server_of(AppHolder(Settings.load({}), open_app=refuse), toolsets)


async def test_the_default_toolset_shows_exactly_the_two_tools(client: Client[Any]) -> None:
    assert [tool.name for tool in await client.list_tools()] == ["index_repository", "search_code"]


async def test_every_tool_has_a_title_all_hints_and_a_short_description(mode: Any) -> None:
    async with Client(server_with(TOOLSETS), mode=mode) as client:
        tools = await client.list_tools()
    assert len(tools) == 31
    for tool in tools:
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


async def test_what_only_reads_is_announced_as_reading(mode: Any) -> None:
    async with Client(server_with(TOOLSETS), mode=mode) as client:
        hints = {tool.name: tool.annotations for tool in await client.list_tools()}
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == {
        "search_code", "get_indexing_status", "project", "get_active_project", "list_projects",
        "get_task", "list_tasks", "query_entities", "query_work_items", "get_work_item_hierarchy",
        "find_text", "find_context", "symbol",
    }  # fmt: skip


async def test_the_instructions_are_short_and_reach_the_client(client: Client[Any]) -> None:
    assert client.instructions == instructions_for(["code"])
    assert len(instructions_for(TOOLSETS).encode()) < 2048
    assert all(toolset.instructions in instructions_for(TOOLSETS) for toolset in toolsets())
    assert client.server_info is not None
    assert client.server_info.name == "codebase-mcp"
    assert client.server_info.version == version("codebase-mcp")


async def test_listing_the_tools_opens_neither_database_nor_model(mode: Any) -> None:
    async with Client(server_with(TOOLSETS), mode=mode) as client:
        assert await client.list_tools()


def test_the_handshake_loads_neither_driver_nor_arrays() -> None:
    program = (
        "import sys, codebase_mcp.tools.server, codebase_mcp.tools.catalog as catalog;"
        "catalog.all_tools(); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {"psycopg", "numpy", "tree_sitter", "tokenizers"} & set(done.stdout.split())


def test_names_of_tools_are_unique_across_toolsets() -> None:
    names = [tool.name for toolset in toolsets() for tool in toolset.tools]
    assert len(names) == len(set(names))


def test_the_list_of_toolsets_is_what_their_modules_declare() -> None:
    declared = {toolset.name: tuple(tool.name for tool in toolset.tools) for toolset in toolsets()}
    assert declared == TOOLS


@pytest.mark.parametrize(
    ("name", "nearest", "toolset", "hint"),
    [
        ("serch_code", "search_code", "code", "Did you mean search_code?"),
        (
            "create_entity", "create_entity", "entities",
            "create_entity is in the toolset entities, which this server does not show: start it "
            "with --toolsets code,tasks,entities.",
        ),
        (
            "get_taks", "get_task", "tasks", "Did you mean get_task?",
        ),
        (
            "sesion", "session", "memory",
            "Did you mean session? session is in the toolset memory, which this server does not "
            "show: start it with --toolsets code,tasks,memory.",
        ),
        (
            "make_coffee", None, None,
            "Tools here: index_repository, search_code, create_task, get_task, list_tasks, "
            "update_task. --toolsets all shows all there are.",
        ),
    ],
)  # fmt: skip
async def test_an_unknown_tool_is_answered_with_the_nearest_one_and_its_toolset(
    mode: Any, name: str, nearest: str | None, toolset: str | None, hint: str
) -> None:
    async with Client(server_with(["code", "tasks"]), mode=mode) as client:
        result = await client.call_tool(name, {"any": 1}, raise_on_error=False)
    assert result.is_error
    assert result.structured_content is not None
    error = result.structured_content["error"]
    assert (error["code"], error["type"]) == ("NOT_FOUND", "NotFound")
    assert (error["message"], error["hint"]) == (f"Unknown tool: {name}", hint)
    details = error["details"]
    assert (details["tool"], details.get("nearest"), details.get("toolset")) == (
        name, nearest, toolset,
    )  # fmt: skip
    assert details["jsonrpc_code"] == -32601
    [block] = result.content
    assert json.loads(block.text) == result.structured_content


async def test_the_name_of_an_unknown_tool_is_repeated_in_short(mode: Any) -> None:
    async with Client(server_with(TOOLSETS), mode=mode) as client:
        result = await client.call_tool("x" * 2_000_000, {}, raise_on_error=False)
    assert result.structured_content is not None
    assert len(json.dumps(result.structured_content)) < 4_096
