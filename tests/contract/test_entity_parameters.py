"""What the tools of the toolset ``entities`` take, and in which words they refuse the rest."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.tools.entities import TOOLSET

pytestmark = pytest.mark.anyio

REGISTER = {"type_name": "T", "schema": {"type": "object"}}
CREATE = {"entity_type": "T", "name": "n", "data": {}}
QUERY = {"entity_type": "T"}
UPDATE = {"entity_id": str(uuid.uuid4()), "data": {}, "version": 1}
DELETE = {"entity_id": str(uuid.uuid4()), "confirmed": True}
CHANGE = {"type_name": "T", "new_schema": {"type": "object"}}
NUL = "must be valid Unicode without NUL characters"


@pytest.fixture
def toolsets() -> list[str]:
    return ["entities"]


@pytest.fixture
async def in_project(app: App, project_id: str) -> str:
    """The id of a project that is there."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


@pytest.mark.parametrize(
    ("tool", "valid", "given", "field", "message"),
    [
        *(
            (tool, valid, {name: value}, name, message)
            for tool, valid, name, label in (
                ("register_entity_type", REGISTER, "type_name", "Type name"),
                ("create_entity", CREATE, "entity_type", "Entity type"),
                ("query_entities", QUERY, "entity_type", "Entity type"),
                ("update_entity_type_schema", CHANGE, "type_name", "Type name"),
            )
            for value, message in (
                ("", f"{label} cannot be empty"),
                (" \n", f"{label} cannot be empty"),
                ("t" * 101, f"{label} must have 1 to 100 characters, got 101"),
                ("a\0b", f"{name} {NUL}"),
                (5, f"{label} must be of type string, got 5"),
                (None, f"{label} must be of type string, got null"),
            )
        ),
        *(
            (tool, valid, {name: value}, name, f"{label} must be of type object, got {shown}")
            for tool, valid, name, label in (
                ("register_entity_type", REGISTER, "schema", "Schema"),
                ("create_entity", CREATE, "data", "Data"),
                ("update_entity", UPDATE, "data", "Data"),
                ("update_entity_type_schema", CHANGE, "new_schema", "New schema"),
            )
            for value, shown in ((True, "true"), ([], "[]"), ("x", '"x"'), (None, "null"))
        ),
        *(
            (tool, valid, {"tags": value}, field, message)
            for tool, valid in (
                ("create_entity", CREATE),
                ("query_entities", QUERY),
                ("update_entity", UPDATE),
            )
            for value, field, message in (
                (["t"] * 21, "tags", "Tags must have 0 to 20 items, got 21"),
                (["t" * 101], "tags.0", "Tags.0 must have 1 to 100 characters, got 101"),
                (["t", " "], "tags.1", "Tags.1 cannot be empty"),
                (["a\0"], "tags.0", f"tags.0 {NUL}"),
            )
        ),
        (
            "register_entity_type", REGISTER, {"description": "d" * 2001}, "description",
            "Description must have 0 to 2000 characters, got 2001",
        ),
        (
            "register_entity_type", REGISTER, {"schema": {"title": "a\0"}}, "schema.title",
            f"schema.title {NUL}",
        ),
        ("create_entity", CREATE, {"name": ""}, "name", "Name cannot be empty"),
        (
            "create_entity", CREATE, {"name": "n" * 201}, "name",
            "Name must have 1 to 200 characters, got 201",
        ),
        ("create_entity", CREATE, {"data": {"a": "\0"}}, "data.a", f"data.a {NUL}"),
        ("create_entity", CREATE, {"data": {"\0": 1}}, "data (a key)", f"data (a key) {NUL}"),
        (
            "create_entity", CREATE, {"data": '{"a": NaN}'}, "data.a",
            "data.a must be a finite number",
        ),
        (
            "create_entity", CREATE, {"data": {"a": "x" * 262_144}}, "data",
            "Entity data must be at most 262,144 bytes as JSON, got 262,152",
        ),
        (
            "create_entity", CREATE, {"data": '{"a": ' + "[" * 64 + "]" * 64 + "}"}, "data",
            "Entity data must not nest deeper than 64 levels",
        ),
        (
            "create_entity", CREATE, {"data": '{"a": ' * 60_000}, "data",
            "Data must be of type object, got ",
        ),
        (
            "create_entity", CREATE, {"anchors": [{}]}, "anchors.0",
            "An anchor must name a file, a symbol or a commit",
        ),
        (
            "query_entities", QUERY, {"filter": [1]}, "filter",
            "Filter must be of type null or object, got [1]",
        ),
        (
            "query_entities", QUERY, {"filter": {"a": "x" * 262_144}}, "filter",
            "Filter must be at most 16,384 bytes as JSON, got 262,152",
        ),
        (
            "query_entities", QUERY, {"filter": {"a": [{"b": n} for n in range(101)]}}, "filter",
            "Filter must have at most 100 list items, got 101",
        ),
        (
            "query_entities", QUERY, {"filter": {"a": [[1] * 60, {"b": [1] * 60}]}}, "filter",
            "Filter must have at most 100 list items, got 122",
        ),
        (
            "query_entities", QUERY, {"filter": json.loads('{"a":' * 65 + "1" + "}" * 65)},
            "filter", "Filter must not nest deeper than 64 levels",
        ),
        ("query_entities", QUERY, {"limit": 0}, "limit", "Limit must be between 1 and 100, got 0"),
        (
            "query_entities", QUERY, {"limit": 101}, "limit",
            "Limit must be between 1 and 100, got 101",
        ),
        (
            "query_entities", QUERY, {"offset": -1}, "offset",
            "Offset must be between 0 and 2147483647, got -1",
        ),
        (
            "query_entities", QUERY, {"cursor": "?"}, "cursor",
            "Cursor is not one that this tool returned",
        ),
        (
            "query_entities", QUERY, {"include_deleted": "maybe"}, "include_deleted",
            'Include deleted must be of type boolean, got "maybe"',
        ),
        (
            "update_entity", UPDATE, {"entity_id": "abc"}, "entity_id",
            "Entity ID is not a valid UUID: abc",
        ),
        (
            "update_entity", UPDATE, {"version": 0}, "version",
            "Version must be between 1 and 2147483647, got 0",
        ),
        (
            "update_entity", UPDATE, {"version": 2**31}, "version",
            "Version must be between 1 and 2147483647, got 2147483648",
        ),
        (
            "update_entity", UPDATE, {"version": "one"}, "version",
            'Version must be of type integer, got "one"',
        ),
        (
            "delete_entity", DELETE, {"entity_id": "abc"}, "entity_id",
            "Entity ID is not a valid UUID: abc",
        ),
        (
            "delete_entity", DELETE, {"confirmed": "yes"}, "confirmed",
            'Confirmed must be of type boolean, got "yes"',
        ),
        ("delete_entity", DELETE, {"id": "x"}, "id", "Unknown parameter: id"),
        (
            "update_entity_type_schema", CHANGE, {"allow_breaking": 1}, "allow_breaking",
            "Allow breaking must be of type boolean, got 1",
        ),
    ],
)  # fmt: skip
async def test_invalid_parameters_are_refused(
    call: Any,
    in_project: str,
    tool: str,
    valid: dict[str, Any],
    given: dict[str, Any],
    field: str,
    message: str,
) -> None:
    error = await call.error(tool, **{**valid, **given}, project_id=in_project)
    assert (error["code"], error["type"]) == ("VALIDATION_ERROR", "InvalidInput")
    assert error["details"]["field"] == field
    assert error["message"].startswith(message)
    if not message.endswith(" "):
        assert error["message"] == message


@pytest.mark.parametrize(
    ("tool", "needed"),
    [
        ("register_entity_type", {"type_name", "schema"}),
        ("create_entity", {"entity_type", "name", "data"}),
        ("query_entities", {"entity_type"}),
        ("update_entity", {"entity_id", "data", "version"}),
        ("delete_entity", {"entity_id"}),
        ("update_entity_type_schema", {"type_name", "new_schema"}),
    ],
)
async def test_required_parameters_must_be_given(call: Any, tool: str, needed: set[str]) -> None:
    error = await call.error(tool)
    fields = error["details"].get("fields", [error["details"]])
    assert {problem["field"] for problem in fields} == needed


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("register_entity_type", REGISTER),
        ("create_entity", CREATE),
        ("query_entities", QUERY),
        ("update_entity", UPDATE),
        ("delete_entity", DELETE),
        ("update_entity_type_schema", CHANGE),
    ],
)
async def test_a_missing_project_is_not_found(call: Any, tool: str, given: dict[str, Any]) -> None:
    error = await call.error(tool, **given, project_id="never-made")
    assert error["code"] == "PROJECT_NOT_FOUND"


def test_every_tool_says_what_it_does_and_what_comes_next() -> None:
    hints = {
        tool.name: (
            tool.annotations.reads,
            tool.annotations.destroys,
            tool.annotations.repeats,
        )
        for tool in TOOLSET.tools
    }
    assert hints == {
        "register_entity_type": (False, False, False),
        "create_entity": (False, False, False),
        "query_entities": (True, False, True),
        "update_entity": (False, True, False),
        "delete_entity": (False, True, True),
        "update_entity_type_schema": (False, True, True),
    }
    for tool in TOOLSET.tools:
        assert 100 < len(tool.description.encode()) < 2048
        properties = tool.input_schema()["properties"]
        assert all(schema.get("description") for schema in properties.values())
