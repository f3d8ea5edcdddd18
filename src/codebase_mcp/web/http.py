"""The HTTP server as an ASGI app.

    /mcp                      MCP, streamable HTTP, every revision of the protocol
    /sse, /messages/          the older SSE transport of MCP; only if enabled
    /tools/{name}             each tool, with JSON in and out
    /openapi.json             the description of /tools/
    /health, /health/live, /health/ready, /metrics

Host and Origin headers are checked for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from fastmcp import FastMCP
from fastmcp.server.auth.middleware import RequireAuthMiddleware
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from codebase_mcp import telemetry
from codebase_mcp.background.audit import AuditLog
from codebase_mcp.background.lifespan import background_lifespan, warm_start
from codebase_mcp.settings.choices import provider_of
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.catalog import tools_of
from codebase_mcp.tools.server import AppHolder, server_of
from codebase_mcp.web.answers import Json, refuse
from codebase_mcp.web.calling import ToolEndpoint
from codebase_mcp.web.guard import guard_of
from codebase_mcp.web.health import HealthEndpoints
from codebase_mcp.web.openapi import describe

if TYPE_CHECKING:
    from fastmcp.server.auth import AuthProvider


def make_asgi_app(
    settings: Settings | None = None, *, auth: AuthProvider | None = None
) -> Starlette:
    """The server as an ASGI app, to be served, or mounted in another one.

    An app that mounts it has to run its lifespan: ``Starlette(routes=[Mount("/code", app)],
    lifespan=app.router.lifespan_context)``.
    """
    settings = settings or Settings.load()
    telemetry.enable()
    holder = AppHolder.of(settings, background_lifespan(settings))
    return asgi_app_of(server_of(holder, settings.toolsets, auth=auth), holder, settings)


def asgi_app_of(server: FastMCP[None], holder: AppHolder, settings: Settings) -> Starlette:
    """The ASGI app with the endpoints of an MCP server and all others."""
    if settings.audit:
        holder.audit = AuditLog(settings.audit_days)
    # The guard of the whole app checks requests before this one.
    mcp_app = server.http_app(
        path="/mcp", stateless_http=not holder.keeps_sessions, host_origin_protection=False
    )
    parts = [mcp_app]
    routes: list[BaseRoute] = [Route("/mcp", mcp_app)]
    if settings.sse:
        sse_app = server.http_app(path="/sse", transport="sse", host_origin_protection=False)
        parts.append(sse_app)
        routes += [Route("/sse", sse_app), Route("/messages/", sse_app)]
    health = HealthEndpoints(holder, provider_of(settings))
    routes += [
        _tools_route(server, holder, settings),
        _description(describe(tools_of(settings.toolsets), with_keys=server.auth is not None)),
        Route("/health", health.health),
        Route("/health/live", health.live),
        Route("/health/ready", health.ready),
        Route("/metrics", _metrics),
    ]
    if server.auth is not None:
        routes.append(Mount("/", mcp_app))  # the endpoints of authentication

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
        middleware=[guard_of(settings)],
        exception_handlers={HTTPException: refuse},
        lifespan=lifespan,
    )


def _tools_route(server: FastMCP[None], holder: AppHolder, settings: Settings) -> Route:
    """The route of the tools, with authentication if the server has it."""
    tools = {spec.name: spec for spec in tools_of(settings.toolsets)}
    endpoint = ToolEndpoint(holder, tools)
    checks = []
    if server.auth is not None:
        scopes = server.auth.required_scopes
        checks = [*server.auth.get_middleware(), Middleware(RequireAuthMiddleware, scopes)]
    return Route("/tools/{name}", endpoint.answer, methods=["POST"], middleware=checks)


def _description(document: dict[str, object]) -> Route:
    async def show(request: Request) -> Response:
        mounted_at = request.scope.get("root_path") or "/"
        return Json({**document, "servers": [{"url": mounted_at}]})

    return Route("/openapi.json", show)


async def _metrics(_: Request) -> Response:
    content_type, page = await asyncio.to_thread(telemetry.render)
    return Response(page, media_type=content_type)
