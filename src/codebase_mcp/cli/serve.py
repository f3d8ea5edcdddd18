"""Serve MCP on stdio or over HTTP. Standard output carries the protocol alone."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from codebase_mcp.settings import Settings
from codebase_mcp.tools.server import build_server

if TYPE_CHECKING:
    from codebase_mcp.app import App


async def serve(options: argparse.Namespace, settings: Settings) -> int:
    """Serve until the input closes or the process is told to end."""

    async def open_app() -> App:
        from codebase_mcp.app import App  # noqa: PLC0415 - not for the handshake

        return await App.open(settings)

    logging.getLogger("fastmcp").setLevel(settings.log_level)
    server = build_server(open_app, settings.toolsets, directory=settings.project_dir)
    if options.transport == "stdio":
        await server.run_stdio_async(show_banner=False)
    else:
        await server.run_http_async(
            show_banner=False,
            transport="http",
            host=options.host,
            port=options.port,
            path="/mcp",
            host_origin_protection=True,
            allowed_hosts=[options.host],
            log_level=settings.log_level,
            uvicorn_config={"timeout_graceful_shutdown": 10},
        )
    return 0
