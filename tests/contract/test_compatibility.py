"""Every tool, parameter and result of the documents behind the contract has a place with us.

``documents.json`` is what the documents say. ``docs/compatibility.md`` is made of it and of our
schemas: ``python -m tests.contract.test_compatibility`` from the root writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from codebase_mcp.tools.arguments import ALIASES
from codebase_mcp.tools.catalog import toolsets
from codebase_mcp.tools.reply import output_schema
from codebase_mcp.tools.schemas import input_schema
from codebase_mcp.tools.toolset import ToolSpec

HERE = Path(__file__).parent
DOCUMENTS: Mapping[str, Mapping[str, Any]] = json.loads(
    (HERE / "documents.json").read_text(encoding="utf-8")
)
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
TOOLS = {tool.name: (toolset.name, tool) for toolset in toolsets() for tool in toolset.tools}


# Where we ask for less, or for something else, on purpose; the contract says why.
DEPARTURES = {
    ("codebase-mcp v1 (003)", "index_repository", "path"): "up to 4,096 characters",
    ("codebase-mcp v1 (003)", "index_repository", "name"): "optional; the directory's name",
    ("codebase-mcp v2.0 (001, 002)", "index_repository", "project_id"): (
        "omitted: the current project, else the default workspace"
    ),
    ("codebase-mcp v2.0 (001, 002)", "search_code", "project_id"): (
        "omitted: the current project, else the default workspace"
    ),
}

INTRODUCTION = """\
# Compatibility

How each tool and parameter of the original documents of codebase-mcp is supported. Generated from
`tests/contract/documents.json` and our schemas by `python -m tests.contract.test_compatibility`; a
test keeps it up to date. Results hold every field that the documents name, and more. How to
migrate: [migration.md](migration.md).

A tool with the canonical name of a parameter accepts the other names too: {aliases}. Unknown
parameters are refused by name.

Ids of repositories and chunks are UUIDs of version 5, where 001 and 002 say version 4: they are
made from project and path, and from the text. So they are the same for ever, also after an index
was cleared or rebuilt.
"""


def documented() -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Document, tool, and what the one says of the other."""
    for document, tools in DOCUMENTS.items():
        for name, facts in tools.items():
            yield document, name, facts


SERVED = list(documented())
PARAMETERS = [
    (document, tool, name, facts)
    for document, tool, of_tool in SERVED
    for name, facts in of_tool["parameters"].items()
]


def ours(tool: ToolSpec, name: str, asked: Collection[str] = ()) -> tuple[str, Mapping[str, Any]]:
    """Our name of a parameter, and its schema for callers that give these parameters."""
    schema = input_schema(tool.arguments_for(asked))["properties"]
    canonical = name if name in schema else ALIASES.get(name, name)
    return canonical, schema[canonical]


def of_value(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a value must be, null aside."""
    options = [o for o in schema.get("anyOf", [schema]) if o.get("type") != "null"]
    return {**schema, **options[0]} if options else schema


@pytest.mark.parametrize(("document", "name", "facts"), SERVED, ids=lambda v: str(v)[:40])
def test_documented_tools_exist_with_their_results(
    document: str, name: str, facts: Mapping[str, Any]
) -> None:
    reply = output_schema(TOOLS[name][1].reply)
    assert set(facts["returns"]) <= reply["properties"].keys()
    for field, wanted in facts.get("items", {}).items():
        shown = json.dumps(reply["properties"][field])
        assert all(f'"{key}"' in shown for key in wanted)


@pytest.mark.parametrize(
    ("document", "tool", "name", "facts"), PARAMETERS, ids=lambda v: str(v)[:30]
)
def test_what_a_document_allows_is_allowed(
    document: str, tool: str, name: str, facts: Mapping[str, Any]
) -> None:
    spec = TOOLS[tool][1]
    canonical, schema = ours(spec, name, DOCUMENTS[document][tool]["parameters"])
    value = of_value(schema)
    assert facts["type"] in (value.get("type"), schema.get("type"))
    if canonical in spec.input_schema().get("required", ()):
        assert facts.get("required")
    if "default" in facts and not facts.get("required"):
        assert schema.get("default") in (facts["default"], None)
    for low in ("minimum", "minLength"):
        assert value.get(low, 0) <= facts.get(low, value.get(low, 0))
    for high in ("maximum", "maxLength", "maxItems"):
        if high in facts:
            assert schema_limit(value, high) >= facts[high]
    if "enum" in facts:
        assert set(facts["enum"]) <= set(value["enum"])
    if "pattern" in facts:
        assert value["pattern"] == facts["pattern"]


def schema_limit(value: Mapping[str, Any], name: str) -> float:
    """An upper limit, or none."""
    limit = value.get(name, float("inf"))
    return float(limit)


def test_the_page_matches_the_schemas() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def page() -> str:
    """docs/compatibility.md."""
    aliases = ", ".join(f"`{alias}` for `{name}`" for alias, name in ALIASES.items())
    lines = [INTRODUCTION.format(aliases=aliases)]
    for document, tools in DOCUMENTS.items():
        lines += [f"## {document}\n", "| tool | parameter | ours | toolset |", "|---|---|---|---|"]
        for name, facts in tools.items():
            lines += rows(document, name, facts)
        lines.append("")
    lines.append("## Beyond the documents\n")
    lines += ["| tool | toolset | parameters that no document names |", "|---|---|---|"]
    for name, (toolset, tool) in TOOLS.items():
        named = {
            ours(tool, parameter)[0]
            for _, documented_tool, of_tool in documented()
            if documented_tool == name
            for parameter in of_tool["parameters"]
        }
        more = [p for p in tool.input_schema()["properties"] if p not in named]
        lines.append(f"| `{name}` | `{toolset}` | {', '.join(f'`{p}`' for p in more) or '-'} |")
    return "\n".join(lines) + "\n"


def rows(document: str, name: str, facts: Mapping[str, Any]) -> list[str]:
    """A tool's lines of the table."""
    toolset, tool = TOOLS[name]
    if not facts["parameters"]:
        return [f"| `{name}` | described in words only | see below | `{toolset}` |"]
    found = []
    for parameter in facts["parameters"]:
        canonical, schema = ours(tool, parameter, facts["parameters"])
        note = DEPARTURES.get((document, name, parameter), limits(schema))
        served = f"`{canonical}`" + (f": {note}" if note else "")
        found.append(f"| `{name}` | `{parameter}` | {served} | `{toolset}` |")
    return found


def limits(schema: Mapping[str, Any]) -> str:
    """What we ask of a value, in short."""
    value = of_value(schema)
    parts = []
    if "enum" in value:
        parts.append(" · ".join(map(str, value["enum"])))
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        if high in value:
            parts.append(f"{value.get(low, 0)} to {value[high]}{unit}")
    if schema.get("default") is not None:
        parts.append(f"default {json.dumps(schema['default'])}")
    return ", ".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
