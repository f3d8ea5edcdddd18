"""The OpenAPI document ``/openapi.json``, generated from the tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import models_json_schema

from codebase_mcp.embedding.providers import PROVIDERS
from codebase_mcp.tools.reply import ErrorShape
from codebase_mcp.tools.rules import PROJECT_ID_PATTERN
from codebase_mcp.tools.server import NAME
from codebase_mcp.tools.toolset import ToolSpec
from codebase_mcp.web.calling import IN_QUERY

Schema = dict[str, Any]

_FAILURES = {
    "400": "VALIDATION_ERROR: the body is no JSON object, or a parameter breaks its rule",
    "401": "PERMISSION_DENIED: the key is missing, wrong, expired or revoked",
    "403": "PERMISSION_DENIED; or as plain text: a page of another origin calls",
    "404": "PROJECT_NOT_FOUND or NOT_FOUND",
    "409": "CONFLICT: a stale version, or a name that is taken",
    "413": "The body is too large",
    "415": "The content type is not application/json",
    "421": "As plain text: the Host is not an allowed one",
    "429": "RUNTIME_ERROR: too many requests in a minute; try again",
    "500": "INDEXING_ERROR or RUNTIME_ERROR",
    "503": "DATABASE_ERROR or EMBEDDING_ERROR; or the server is overloaded, or shutting down",
}
_ALSO_TEXT = ("403", "421")
_TEXT: Schema = {"text/plain": {"schema": {"type": "string"}}}


def describe(tools: Iterable[ToolSpec]) -> Schema:
    """The OpenAPI document of a server with these tools."""
    shown = tuple(tools)
    replies, schemas = _replies(shown)
    calls = {spec.name: _tool(spec, replies[spec.name]) for spec in shown}
    components: Schema = {
        "schemas": schemas | _HEALTH,
        "parameters": {"ProjectId": _project_id()},
        "responses": {status: _failure(status) for status in _FAILURES},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": NAME,
            "version": version(NAME),
            "description": "Code search for AI coding agents: the tools of the MCP server, for"
            " callers who speak HTTP and JSON.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "tags": [
            {"name": "tools", "description": "As over MCP: the same arguments, replies, errors."},
            {"name": "operation", "description": "For load balancers and monitoring."},
        ],
        "security": [{"key": []}, {}],  # the server's own user needs none
        "paths": {f"/tools/{name}": {"post": call} for name, call in calls.items()} | _OPERATION,
        "components": components,
    }


def _replies(shown: Sequence[ToolSpec]) -> tuple[dict[str, Schema], dict[str, Schema]]:
    """References to the schemas of the replies by tool, and all schemas."""
    references, definitions = models_json_schema(
        [(spec.reply, "serialization") for spec in shown] + [(ErrorShape, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    schemas: dict[str, Schema] = definitions["$defs"]
    replies = {spec.name: references[spec.reply, "serialization"] for spec in shown}
    for reply in replies.values():
        # Over HTTP an error is a response of its own, not a field of the reply.
        schemas[reply["$ref"].rpartition("/")[2]]["properties"].pop("error", None)
    schemas["Error"] = _object(error=references[ErrorShape, "serialization"])
    return replies, schemas


def _tool(spec: ToolSpec, reply: Schema) -> Schema:
    return {
        "operationId": spec.name,
        "tags": ["tools"],
        "summary": spec.title,
        "description": spec.description,
        "parameters": [{"$ref": "#/components/parameters/ProjectId"}],
        "requestBody": {"required": True, "content": _json(spec.input_schema())},
        "responses": {
            "200": {"description": "The tool's reply", "content": _json(reply)},
            **_refer(_FAILURES),
        },
    }


def _project_id() -> Schema:
    pattern = {"pattern": PROJECT_ID_PATTERN, "minLength": 1, "maxLength": 50}
    return {
        "name": IN_QUERY,
        "in": "query",
        "required": False,
        "schema": {"type": "string", **pattern},
        "description": "As in the body.",
    }


def _failure(status: str) -> Schema:
    content = {} if status == "421" else _json({"$ref": "#/components/schemas/Error"})
    if status in _ALSO_TEXT:
        content |= _TEXT
    failure: Schema = {"description": _FAILURES[status], "content": content}
    if status in ("429", "503"):
        wait = {"description": "Seconds to wait.", "schema": {"type": "integer"}}
        failure["headers"] = {"Retry-After": wait}
    return failure


def _refer(statuses: Iterable[str]) -> Schema:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _reads(name: str, summary: str, *, is_open: bool = False, **answers: Schema) -> Schema:
    """A path for GET, with its responses by status (``_200``); ``is_open`` if it needs no key."""
    described = {
        status[1:]: {"description": summary, "content": content}
        for status, content in answers.items()
    }
    return {
        "get": {
            "operationId": name,
            "tags": ["operation"],
            "summary": summary,
            "responses": described | _refer(_ALSO_TEXT if is_open else ("401", *_ALSO_TEXT)),
            **({"security": []} if is_open else {}),
        }
    }


def _health_content(name: str) -> Schema:
    return _json({"$ref": f"#/components/schemas/{name}"})


_CONNECTED: Schema = {"type": "string", "enum": ["connected", "disconnected"]}
_HEALTH: dict[str, Schema] = {
    "Health": {
        **_object(
            status={"type": "string", "enum": ["healthy", "degraded", "unhealthy"]},
            database=_CONNECTED,
            embedder=_object(provider={"type": "string"}, status=_CONNECTED),
            version={"type": "string"},
            uptime_seconds={"type": "integer", "minimum": 0},
        )
    },
    "Liveness": _object(status={"type": "string", "const": "alive"}),
    "Readiness": _object(
        status={"type": "string", "enum": ["ready", "not ready"]},
        reasons={"type": "array", "items": {"type": "string"}},
    ),
}
_HEALTH["Health"]["properties"] |= {
    entry.health_field: _CONNECTED
    | {"description": f"Only where {provider.capitalize()} is the embedder."}
    for provider, entry in PROVIDERS.items()
    if entry.health_field
}
_OPERATION: Schema = {
    "/health": _reads(
        "health",
        "What works: 503 where nothing does",
        _200=_health_content("Health"),
        _503=_health_content("Health"),
    ),
    "/health/live": _reads(
        "live", "The process answers", is_open=True, _200=_health_content("Liveness")
    ),
    "/health/ready": _reads(
        "ready",
        "Requests can be sent here: 503 with the reasons where they cannot",
        is_open=True,
        _200=_health_content("Readiness"),
        _503=_health_content("Readiness"),
    ),
    "/metrics": _reads("metrics", "Metrics for Prometheus", _200=_TEXT),
    "/openapi.json": _reads("openapi", "This document", _200=_json({"type": "object"})),
}
