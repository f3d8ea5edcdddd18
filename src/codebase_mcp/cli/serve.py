"""Serve MCP on stdio, over HTTP, or both; open the page in a browser.

On stdio, standard output carries the protocol alone.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from socket import socket
from urllib.parse import urlencode

from codebase_mcp import telemetry
from codebase_mcp.access.identity import is_loopback
from codebase_mcp.app.background.lifespan import background_lifespan, warm_start
from codebase_mcp.cli.output import say
from codebase_mcp.cli.stdio import serve_stdio
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings, share_metrics_in
from codebase_mcp.telemetry import logs
from codebase_mcp.tools.server import NAME, AppHolder
from codebase_mcp.web.pages.apps import server_with_apps
from codebase_mcp.web.shutdown import Shutdown

_log = logging.getLogger(__name__)

# The answer to a client's first message goes before background work.
_AFTER_HANDSHAKE_S = 0.3
# A server that is there answers at once.
_ASK_S = 2.0


async def serve(
    options: argparse.Namespace,
    settings: Settings,
    *,
    when_bound: Callable[[str], Awaitable[None]] | None = None,
) -> int:
    """Serve until the input closes or the process is stopped.

    ``when_bound`` is told the address, as soon as connections to it wait for an answer.
    """
    logs.adopt_libraries()  # FastMCP set itself up when it was imported
    shutdown = Shutdown()
    with shutdown.handle_signals():
        if settings.transport == "stdio":
            for warning in settings.without_effect_on_stdio():
                _log.warning(warning)
            holder = AppHolder(settings, background_lifespan(settings))
            async with warm_start(holder.get, settings, delay_s=_AFTER_HANDSHAKE_S):
                await serve_stdio(server_with_apps(holder, settings.toolsets), holder, shutdown)
        else:
            await _listen(settings, shutdown, when_bound)
    return 0


async def _listen(
    settings: Settings, shutdown: Shutdown, when_bound: Callable[[str], Awaitable[None]] | None
) -> None:
    # Only for HTTP: a server on stdio has to be there at once.
    from codebase_mcp.cli.keys import callers_in_words, may_have_key  # noqa: PLC0415
    from codebase_mcp.web.door import require_keys, require_known_names  # noqa: PLC0415
    from codebase_mcp.web.listening import address_of, announce, bind  # noqa: PLC0415

    require_known_names(settings)
    _require_one_process(settings)
    require_keys(settings, has_key=await may_have_key(settings))
    sockets = bind(settings.host, settings.port)
    address = address_of(settings.host, sockets)
    callers = callers_in_words(settings)
    announce(f"codebase-mcp {version(NAME)} serves {address}/mcp (callers: {callers})")
    told = None if when_bound is None else asyncio.ensure_future(when_bound(address))
    try:
        if settings.http_workers > 1:
            from codebase_mcp.web.workers import serve_with_workers  # noqa: PLC0415

            await serve_with_workers(settings, sockets, shutdown)
        else:
            await _serve_here(settings, sockets, shutdown)
    finally:
        if told is not None:
            told.cancel()


async def _serve_here(settings: Settings, sockets: list[socket], shutdown: Shutdown) -> None:
    """Serve HTTP in this process, and stdio too for the transport ``all``."""
    from codebase_mcp.web.http import asgi_app_of  # noqa: PLC0415
    from codebase_mcp.web.listening import serve_http  # noqa: PLC0415

    share_metrics_in(None)
    telemetry.enable()
    holder = AppHolder(settings, background_lifespan(settings))
    app = asgi_app_of(server_with_apps(holder, settings.toolsets), holder, settings)
    async with asyncio.TaskGroup() as group:
        group.create_task(serve_http(app, holder, sockets, shutdown, settings))
        if settings.transport == "all":
            # A server of its own: the first to end would close what belongs to both.
            local = server_with_apps(holder, settings.toolsets, closes=False)
            group.create_task(serve_stdio(local, holder, shutdown))


def _require_one_process(settings: Settings) -> None:
    """Refuse settings that several HTTP workers do not support."""
    if settings.sse and settings.http_workers > 1:
        raise InvalidInput(
            f"--sse needs a single process, but --http-workers is {settings.http_workers}",
            hint="Set CODEBASE_MCP_HTTP_WORKERS to 1, or leave CODEBASE_MCP_SSE out.",
        )


async def open_page(options: argparse.Namespace, settings: Settings) -> int:
    """Open the page of the server that runs, or serve until the process is stopped."""
    if not is_loopback(settings.host):
        message = "open serves on this machine alone"
        hint = "Leave CODEBASE_MCP_HOST out here; serve --transport http listens elsewhere."
        raise InvalidInput.of("host", settings.host, message, rule="a loopback address", hint=hint)
    question = " ".join(options.query).strip()
    asked = {n: v for n, v in (("q", question), ("project", options.project)) if v}
    path = ("/search" if question else "/") + (f"?{urlencode(asked)}" if asked else "")
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    running = f"http://{host}:{settings.port}"
    if settings.port and await _is_ours(running):
        await _show(path, running)
        return 0
    http = replace(settings, transport="http")
    return await serve(options, http, when_bound=partial(_show, path))


async def _is_ours(address: str) -> bool:
    """Whether a server of this program answers at the address."""
    import httpx2  # noqa: PLC0415 - not for a server on stdio

    try:
        async with httpx2.AsyncClient(timeout=_ASK_S, trust_env=False) as client:
            answer = await client.get(f"{address}/openapi.json")
            return bool(answer.json()["info"]["title"] == "codebase-mcp")
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return False


async def _show(path: str, address: str) -> None:
    import webbrowser  # noqa: PLC0415

    say(f"{address}{path}")
    # A browser of the terminal returns when it is closed.
    await asyncio.to_thread(webbrowser.open, f"{address}{path}")
