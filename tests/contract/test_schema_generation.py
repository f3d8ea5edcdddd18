"""The published schemas: valid, complete, and changed only on purpose.

After a change on purpose: ``python -m tests.contract.test_schema_generation`` from the root writes
the snapshot anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from jsonschema import Draft202012Validator
from mcp_types import Implementation

from codebase_mcp.settings.loading import PRESETS, TOOLSETS, Settings
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.reply import as_text, output_schema
from codebase_mcp.tools.schemas import PLAIN, types_in
from codebase_mcp.tools.server import AppHolder, server_of

SNAPSHOT = Path(__file__).parent / "schemas.json"


def current() -> dict[str, Any]:
    """The schemas of all tools."""
    return {
        tool.name: {
            "input": tool.input_schema(),
            "listed": tool.model_schema(),
            "output": output_schema(tool.reply),
        }
        for tool in all_tools()
    }


def test_the_schemas_match_the_snapshot() -> None:
    assert current() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_a_schema_is_valid_and_closed(tool: Any) -> None:
    schema = tool.input_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert all(part.get("description") for part in schema["properties"].values())


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_a_listed_schema_names_the_same_parameters_and_allows_no_more_types(tool: Any) -> None:
    checked = tool.input_schema()
    for listed in (tool.listed_schema(), tool.model_schema()):
        Draft202012Validator.check_schema(listed)
        assert listed["properties"].keys() == checked["properties"].keys()
        assert listed.get("required") == checked.get("required")
        for name, part in listed["properties"].items():
            assert part.get("description") or (name in PLAIN and listed is tool.model_schema())
            assert types_in(part) <= types_in(checked["properties"][name])
            wanted = of_value(checked["properties"][name])
            assert part.get("enum") == wanted.get("enum")
            if wanted.get("maximum", 0) <= 1_000:  # beyond that nobody asks for more by chance
                assert part.get("maximum") == wanted.get("maximum")


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_programs_see_every_keyword_that_arguments_are_held_against(tool: Any) -> None:
    listed, checked = tool.listed_schema(), tool.input_schema()
    assert listed["additionalProperties"] is False
    for name, part in listed["properties"].items():
        wanted = of_value(checked["properties"][name])
        for keyword in wanted.keys() - {"description", "properties", "items", "default"}:
            assert of_value(part).get(keyword, False) == wanted[keyword], name


def test_null_is_listed_only_where_it_says_something_else_than_leaving_out() -> None:
    nullable = {
        tool.name: [
            name for name, part in tool.listed_schema()["properties"].items() if "anyOf" in part
        ]
        for tool in all_tools()
    }
    assert {name: parameters for name, parameters in nullable.items() if parameters} == {
        "update_task": [
            "description", "notes", "branch", "commit", "planning_references", "anchors",
        ],
        "update_entity": ["tags", "anchors"],
        "update_work_item": ["description", "anchors"],
    }  # fmt: skip


# What a listing costs a model, in tokens of four characters: of a coding agent, of any program.
MOST_TOKENS = {"code": (430, 680), "agent": (1_300, 2_050), "all": (6_550, 9_000)}


def of_value(schema: dict[str, Any]) -> dict[str, Any]:
    """What a value must be, null aside."""
    return next((o for o in schema.get("anyOf", ()) if o != {"type": "null"}), schema)


@pytest.mark.anyio
@pytest.mark.parametrize("toolsets", list(MOST_TOKENS))
async def test_a_listing_stays_within_its_token_budget(mode: Any, toolsets: str) -> None:
    shown = {"all": TOOLSETS, **PRESETS}.get(toolsets, [toolsets])
    for name, most in zip(("claude-code", "some-program"), MOST_TOKENS[toolsets], strict=True):
        info = Implementation(name=name, version="1")
        server = server_of(AppHolder(Settings.load({}), open_app=refuse), shown)
        async with Client(server, mode=mode, client_info=info) as client:
            tools = await client.list_tools()
        chars = sum(
            len(tool.name) + len(tool.description or "") + len(as_text(tool.input_schema))
            for tool in tools
        )
        assert 0.8 * most < chars / 4 <= most


async def refuse() -> Any:
    """Open the product: nothing that only lists tools may do so."""
    raise AssertionError("opened")


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_an_error_alone_fits_the_output_schema(tool: Any) -> None:
    schema = output_schema(tool.reply)
    assert schema["type"] == "object"
    error = {"code": "NOT_FOUND", "type": "NotFound", "message": "Task not found"}
    Draft202012Validator(schema).validate({"error": error})


@pytest.mark.anyio
async def test_the_client_sees_the_documents_parameters(client: Client[Any]) -> None:
    tools = {tool.name: tool.input_schema for tool in await client.list_tools()}
    assert tools["index_repository"]["required"] == ["repo_path"]
    assert tools["search_code"]["required"] == ["query"]
    limit = tools["search_code"]["properties"]["limit"]
    assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, 50, 10)
    documented = {"repo_path", "project_id", "force_reindex", "name"}
    assert documented <= tools["index_repository"]["properties"].keys()
    documented = {"query", "project_id", "repository_id", "file_type", "directory", "limit"}
    assert documented | {"filter"} <= tools["search_code"]["properties"].keys()


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(current(), indent=1) + "\n", encoding="utf-8")
