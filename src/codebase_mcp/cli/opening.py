"""Open the page in a browser, and serve it if no server is running."""

from __future__ import annotations

import argparse
import asyncio
import webbrowser
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

import httpx2

from codebase_mcp.access.identity import is_loopback
from codebase_mcp.cli.output import say
from codebase_mcp.cli.serve import serve
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id

# A server that is there answers at once.
_ASK_S = 2.0


async def open_page(options: argparse.Namespace, settings: Settings) -> int:
    """Open the page of the server that runs, or serve until the process is stopped.

    Raises:
        InvalidInput: the address is no loopback address, or is in use.
    """
    if not is_loopback(settings.host):
        raise InvalidInput.of(
            "host",
            settings.host,
            "open serves on this machine alone",
            rule="a loopback address",
            hint="Leave CODEBASE_MCP_HOST out here; serve --transport http listens elsewhere.",
        )
    question = " ".join(options.query).strip()
    project = check_project_id(options.project)
    asked = {name: value for name, value in (("q", question), ("project", project)) if value}
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
    try:
        async with httpx2.AsyncClient(timeout=_ASK_S, trust_env=False) as client:
            answer = await client.get(f"{address}/openapi.json")
            return bool(answer.json()["info"]["title"] == "codebase-mcp")
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return False


async def _show(path: str, address: str) -> None:
    say(f"{address}{path}")
    # A browser of the terminal returns when it is closed.
    await asyncio.to_thread(webbrowser.open, f"{address}{path}")
