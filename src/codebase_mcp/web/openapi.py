"""The OpenAPI document ``/openapi.json``, generated from the tools.

The file ``openapi.json`` has what is the same for all tools; empty texts in it are filled in here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from pydantic.json_schema import models_json_schema

from codebase_mcp.embedding.providers import PROVIDERS
from codebase_mcp.tools.reply import ErrorShape
from codebase_mcp.tools.rules import PROJECT_ID_PATTERN
from codebase_mcp.tools.server import NAME
from codebase_mcp.tools.toolset import ToolSpec

Schema = dict[str, Any]


def describe(tools: Iterable[ToolSpec]) -> Schema:
    """The OpenAPI document of a server with these tools."""
    text = files("codebase_mcp.web").joinpath("openapi.json").read_text(encoding="utf-8")
    document: Schema = json.loads(text)
    document["info"]["version"] = version(NAME)
    components = document["components"]
    components["parameters"]["ProjectId"]["schema"]["pattern"] = PROJECT_ID_PATTERN
    health = components["schemas"]["Health"]["properties"]
    for name, provider in PROVIDERS.items():
        if provider.health_field:
            only = {"description": f"Only where {name.capitalize()} is the embedder."}
            health[provider.health_field] = health["database"] | only
    shown = tuple(tools)
    references, definitions = models_json_schema(
        [(spec.reply, "serialization") for spec in shown] + [(ErrorShape, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas = definitions["$defs"]
    failures = {
        status: {"$ref": f"#/components/responses/{status}"} for status in components["responses"]
    }
    calls: Schema = {}
    for spec in shown:
        reply = references[spec.reply, "serialization"]
        # Over HTTP an error is a response of its own, not a field of the reply.
        schemas[reply["$ref"].rpartition("/")[2]]["properties"].pop("error", None)
        calls[f"/tools/{spec.name}"] = {"post": _call(spec, reply, failures)}
    error = {"error": references[ErrorShape, "serialization"]}
    schemas["Error"] = {"type": "object", "properties": error, "required": ["error"]}
    components["schemas"] = schemas | components["schemas"]
    document["paths"] = calls | document["paths"]
    return document


def _call(spec: ToolSpec, reply: Schema, failures: Schema) -> Schema:
    """How a tool is called, and what it answers."""
    return {
        "operationId": spec.name,
        "tags": ["tools"],
        "summary": spec.title,
        "description": spec.description,
        "parameters": [{"$ref": "#/components/parameters/ProjectId"}],
        "requestBody": {"required": True, "content": _json(spec.input_schema())},
        "responses": {
            "200": {"description": "The tool's reply", "content": _json(reply)},
            **failures,
        },
    }


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}
