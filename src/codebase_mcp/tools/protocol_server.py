"""Where is the MCP SDK's server inside FastMCP's?"""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from mcp.server.lowlevel import Server


def protocol_server(server: FastMCP[None]) -> Server[Any]:
    """The server of the MCP SDK, which answers messages; FastMCP has no public name for it.

    Checked with fastmcp 4.1.2. Needed to serve streams of our own on stdio, and to answer for the
    schema of one tool. If it is gone, use ``FastMCP.run_stdio_async`` and leave out the schemas:
    then lines that are no messages get no reply, and calls over HTTP take longer.
    """
    return server._mcp_server
