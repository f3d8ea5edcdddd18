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

from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.reply import output_schema

SNAPSHOT = Path(__file__).parent / "schemas.json"


def current() -> dict[str, Any]:
    """The schemas of all tools."""
    return {
        tool.name: {"input": tool.input_schema(), "output": output_schema(tool.reply)}
        for tool in all_tools()
    }


def test_the_schemas_are_those_of_the_snapshot() -> None:
    assert current() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_a_schema_is_valid_and_closed(tool: Any) -> None:
    schema = tool.input_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False
    assert all(part.get("description") for part in schema["properties"].values())


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
