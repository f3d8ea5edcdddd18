"""The HTTP server as an ASGI app.

    /mcp                      MCP, streamable HTTP, every revision of the protocol
    /sse, /messages/          the older SSE transport of MCP, if enabled
    /tools/{name}             each tool, with JSON in and out
    /openapi.json             the description of /tools/
    /health, /health/live, /health/ready, /metrics
    /, /search, /file, /index, …  pages for people

Host and Origin headers are checked for all of them, then who calls (not for live and ready).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from fastmcp import FastMCP
from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from codebase_mcp import telemetry
from codebase_mcp.app.background.audit import AuditLog
from codebase_mcp.app.background.lifespan import background_lifespan, warm_start
from codebase_mcp.database.connection import Database
from codebase_mcp.embedding.providers import PROVIDERS
from codebase_mcp.settings.choices import provider_of
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.catalog import tools_of
from codebase_mcp.tools.reply import ErrorShape
from codebase_mcp.tools.rules import PROJECT_ID_PATTERN
from codebase_mcp.tools.server import NAME, AppHolder
from codebase_mcp.tools.toolset import ToolSpec
from codebase_mcp.web.answers import Json, refuse
from codebase_mcp.web.authentication import Callers
from codebase_mcp.web.calling import ToolEndpoint
from codebase_mcp.web.door import Door, guard_of
from codebase_mcp.web.health import HealthEndpoints
from codebase_mcp.web.limits import LoadShedding, RequestBodies
from codebase_mcp.web.pages.apps import server_with_apps
from codebase_mcp.web.pages.routes import page_routes
from codebase_mcp.web.pages.site import Site

Schema = dict[str, Any]


def make_asgi_app(settings: Settings | None = None) -> Starlette:
    """The server as an ASGI app, to be served, or mounted in another app.

    An app that mounts it has to run its lifespan: ``Starlette(routes=[Mount("/code", app)],
    lifespan=app.router.lifespan_context)``.
    """
    settings = settings or Settings.load()
    telemetry.enable()
    holder = AppHolder(settings, background_lifespan(settings))
    return asgi_app_of(server_with_apps(holder, settings.toolsets), holder, settings)


def asgi_app_of(server: FastMCP[None], holder: AppHolder, settings: Settings) -> Starlette:
    """The ASGI app with all endpoints, those of the MCP server included."""
    if settings.audit:
        holder.audit = AuditLog(settings.audit_days)
    # The guard of the whole app checks requests before this app.
    mcp_app = server.http_app(
        path="/mcp", stateless_http=not holder.keeps_sessions, host_origin_protection=False
    )
    parts = [mcp_app]
    routes: list[BaseRoute] = [Route("/mcp", mcp_app)]
    if settings.sse:
        sse_app = server.http_app(path="/sse", transport="sse", host_origin_protection=False)
        parts.append(sse_app)
        routes += [Route("/sse", sse_app), Route("/messages/", sse_app)]
    tools = tools_of(settings.toolsets)
    health = HealthEndpoints(holder, provider_of(settings))
    endpoint = ToolEndpoint(holder, {spec.name: spec for spec in tools})

    async def database() -> Database:
        return (await holder.get()).database

    callers = Callers(settings, database)
    routes += [
        Route("/tools/{name}", endpoint.answer, methods=["POST"]),
        _description(tools),
        Route("/health", health.health),
        Route("/health/live", health.live),
        Route("/health/ready", health.ready),
        Route("/metrics", _metrics),
        *page_routes(Site(holder, callers, settings)),
    ]
    if callers.tokens is not None:
        routes += callers.tokens.routes

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in parts:
                await stack.enter_async_context(part.lifespan(part))
            stack.push_async_callback(health.close)
            early = warm_start(holder.get, settings, over_http=True)
            await stack.enter_async_context(early)
            if holder.audit is not None:
                await stack.enter_async_context(holder.audit.writing(holder.get))
            yield

    return Starlette(
        routes=routes,
        middleware=[
            Middleware(RequestBodies),
            guard_of(settings),
            Middleware(LoadShedding, holder.queue),
            Middleware(Door, callers, settings.requests_per_minute),
        ],
        exception_handlers={HTTPException: refuse},
        lifespan=lifespan,
    )


def _description(tools: Sequence[ToolSpec]) -> Route:
    @cache
    def document(shown: tuple[str, ...]) -> dict[str, object]:
        return describe([spec for spec in tools if spec.name in shown])

    async def show(request: Request) -> Response:
        access = identity_in(request).access
        shown = tuple(spec.name for spec in tools if spec.is_open_to(access))
        mounted_at = request.scope.get("root_path") or "/"
        return Json({**document(shown), "servers": [{"url": mounted_at}]})

    return Route("/openapi.json", show)


async def _metrics(_: Request) -> Response:
    content_type, page = await asyncio.to_thread(telemetry.render)
    return Response(page, media_type=content_type)


def describe(tools: Iterable[ToolSpec]) -> Schema:
    """The OpenAPI document of a server with these tools.

    The file ``openapi.json`` has what is the same for all tools; empty texts in it are filled in.
    """
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
