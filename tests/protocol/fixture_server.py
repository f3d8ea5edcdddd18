"""The server that the conformance suite asks for what the product does not offer.

It is made by the product's own factory and answers through the product's own HTTP application; only
the suite's tools, resources and prompts are added.
"""

from __future__ import annotations

import uvicorn
from starlette.applications import Starlette
from tests.protocol.fixture_content import add_content
from tests.protocol.fixture_dialogue import add_dialogue
from tests.protocol.fixture_rounds import add_rounds

from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, protocol_server, server_of
from codebase_mcp.web.http import asgi_app_of


def make_fixture_app() -> Starlette:
    """The product's HTTP application with the suite's tools, resources and prompts."""
    settings = Settings.load()
    holder = AppHolder(settings)
    server = server_of(holder, settings.toolsets)
    protocol_server(server).get_tool_input_schema = None  # it knows the product's tools alone
    add_content(server)
    add_dialogue(server)
    add_rounds(server)
    return asgi_app_of(server, holder, settings)


if __name__ == "__main__":
    uvicorn.run(make_fixture_app(), port=0, ws="none", timeout_graceful_shutdown=1)
