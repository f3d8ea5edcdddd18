"""The limits that ``tools/list`` names for each parameter of each tool are those that are enforced.

What a schema cannot say is in `BEYOND_SCHEMAS`, with what decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from fastmcp import Client

from codebase_mcp.settings.loading import TOOLSETS
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.toolset import ToolSpec

pytestmark = pytest.mark.anyio

# Longer than anything that is written on purpose, and than what an index of PostgreSQL can hold.
LONG = 100_000
SAMPLE_ID = str(UUID(int=4))

BEYOND_SCHEMAS = {
    "repo_path": "must be absolute, and exist",
    "repository_path": "must be absolute, and exist",
    "repository_id": "a UUID, or all where a search may mean all repositories",
    "place": "PATH:LINE",
    "cursor": "must come from a reply",
    "since": "an ISO date or time",
    "until": "an ISO date or time",
    "directory": "must be relative",
    "ref": "must exist",
    "branch": "of a search: must exist",
    "branches": "must exist",
    "branch_a": "must exist",
    "branch_b": "must exist",
    "commit": "must exist",
    "schema": "must be a JSON Schema of an object",
    "new_schema": "must be a JSON Schema of an object",
    "anchors": "must name a file, a symbol or a commit",
    "confirmed": "must be true",
    "vcs limit": "of a search: as many as search_code gives",
}


class Parameter(NamedTuple):
    """A parameter of a tool, what is published of it, and the other arguments of a call."""

    tool: str
    name: str
    schema: dict[str, Any]
    others: dict[str, Any]


def options_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [option for option in schema.get("anyOf", [schema]) if option != {"type": "null"}]


def sample(schema: dict[str, Any]) -> Any:
    """A short value that a schema allows."""
    [option] = options_of(schema)
    if "enum" in option:
        return option["enum"][0]
    if option.get("format") == "uuid":
        return SAMPLE_ID
    if "a-f0-9" in option.get("pattern", ""):
        return "a" * 40
    samples = {"integer": option.get("minimum", 1), "number": 1, "boolean": True, "string": "x"}
    return samples.get(option["type"], [] if option["type"] == "array" else {})


OF_OTHER_TYPES: dict[str, list[Any]] = {
    "integer": ["5", 5.5, True],
    "number": ["5", True],
    "boolean": ["true", 1],
    "string": [5, True],
    "array": ["x", {}],
    "object": ["x", []],
}
BEYOND: dict[str, Callable[[Any, dict[str, Any]], Iterable[Any]]] = {
    "type": lambda name, _: OF_OTHER_TYPES[name],
    "minimum": lambda limit, _: [limit - 1],
    "maximum": lambda limit, _: [limit + 1],
    "minLength": lambda limit, _: ["x" * (limit - 1)] if limit else [],
    "maxLength": lambda limit, _: ["x" * (limit + 1)],
    "minItems": lambda limit, option: [[sample(option["items"])] * (limit - 1)] if limit else [],
    "maxItems": lambda limit, option: [[sample(option["items"])] * (limit + 1)],
    "pattern": lambda _, __: [" "],
    "format": lambda _, __: ["x"],
    "enum": lambda names, _: [f"{names[0]} "],
    "items": lambda inner, _: [[value] for value in beyond(inner)],
    "properties": lambda parts, _: [
        {name: value} for name, part in parts.items() for value in beyond(part)
    ],
}


def beyond(schema: dict[str, Any]) -> Iterator[Any]:
    """Values just beyond each limit."""
    [option] = options_of(schema)
    for keyword, limit in option.items():
        if keyword in BEYOND:
            yield from BEYOND[keyword](limit, option)


def within(schema: dict[str, Any]) -> Iterator[Any]:
    """Values that the limits just allow, and the most that they allow where there is none."""
    [option] = options_of(schema)
    match option["type"]:
        case "string" if "enum" in option:
            yield from option["enum"]
        case "string" if "format" in option or "a-f0-9" in option.get("pattern", ""):
            yield sample(option)
        case "string":
            yield "x" * max(1, option.get("minLength", 1))
            yield "x" * option.get("maxLength", LONG)
            if "pattern" not in option:
                yield " " * max(0, option.get("minLength", 0))
                yield "\u00e9 \u4e2d'\"%_*[](\\"
        case "integer" | "number":
            yield option["minimum"]
            yield option.get("maximum", 10**400)
        case "boolean":
            yield from (True, False)
        case "array":
            inner = list(within(option["items"]))
            yield [inner[0]] * option.get("minItems", 0)
            yield (inner * option["maxItems"])[: option["maxItems"]]
        case "object":
            yield {}
            for name, part in option.get("properties", {}).items():
                yield from ({name: value} for value in within(part))


@pytest.fixture
def toolsets() -> list[str]:
    return list(TOOLSETS)


@pytest.fixture
async def parameters(client: Client[Any], existing: str) -> list[Parameter]:
    """All parameters of all tools, as the server lists them."""
    specs = {spec.name: spec for spec in all_tools()}
    return [
        Parameter(
            tool.name, name, schema, others_of(specs[tool.name], name, tool.input_schema, existing)
        )
        for tool in await client.list_tools()
        for name, schema in tool.input_schema["properties"].items()
    ]


def others_of(spec: ToolSpec, name: str, schema: dict[str, Any], project_id: str) -> dict[str, Any]:
    """What a call needs beside a parameter: a project that exists, and what is required."""
    properties = schema["properties"]
    needed = set(schema.get("required", ()))
    operations = spec.operations
    values = {}
    if "operation" in properties and name != "operation":
        values["operation"] = next(
            (key for key, operation in operations.items() if name in operation.parameters),
            properties["operation"]["enum"][0],
        )
        operation = operations.get(values["operation"])
        needed |= set(operation.required if operation else ())
    for project in {"project_id", "collection"} & properties.keys():
        values[project] = project_id
    for field in needed - values.keys() - {name}:
        values[field] = sample(properties[field])
    values.pop(name, None)
    return values


async def problem(client: Client[Any], parameter: Parameter, value: Any) -> dict[str, Any] | None:
    """What is wrong with the value of a parameter; None where it is accepted."""
    arguments = {**parameter.others, parameter.name: value}
    result = await client.call_tool(parameter.tool, arguments, raise_on_error=False)
    if not result.is_error:
        return None
    assert result.structured_content is not None
    error = result.structured_content["error"]
    assert error["code"] not in ("RUNTIME_ERROR", "DATABASE_ERROR"), (parameter, value, error)
    details = error.get("details", {})
    for field in details.get("fields", [{**details, "message": error["message"]}]):
        if str(field.get("field", "")).partition(".")[0] == parameter.name:
            assert error["code"] == "VALIDATION_ERROR"
            return {"message": error["message"], **field}
    return None


async def test_a_value_just_beyond_a_published_limit_is_refused_by_name(
    client: Client[Any], parameters: list[Parameter]
) -> None:
    accepted = [
        (parameter.tool, parameter.name, str(value)[:40])
        for parameter in parameters
        for value in beyond(parameter.schema)
        if await problem(client, parameter, value) is None
    ]
    assert not accepted, "\n".join(map(str, accepted))


async def test_a_value_within_the_published_limits_is_refused_only_for_what_no_schema_says(
    client: Client[Any], parameters: list[Parameter]
) -> None:
    refused = [
        (parameter.tool, parameter.name, str(value)[:40], wrong["message"][:100])
        for parameter in parameters
        if BEYOND_SCHEMAS.keys().isdisjoint({parameter.name, f"{parameter.tool} {parameter.name}"})
        for value in within(parameter.schema)
        if (wrong := await problem(client, parameter, value)) is not None
    ]
    assert not refused, "\n".join(map(str, refused))
