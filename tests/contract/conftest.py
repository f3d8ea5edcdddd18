"""A real MCP client on a server of ours, in both protocol revisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from fastmcp import Client

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.reply import output_schema
from codebase_mcp.tools.server import AppHolder, server_of


@pytest.fixture
def toolsets() -> list[str]:
    """The toolsets that the server shows; a module that tests another one overrides this."""
    return ["code"]


# The newest revision of the protocol, and the one with a handshake.
MODES = ("auto", "legacy")

# What these modules test may depend on the revision. Elsewhere a tool replies the same: each test
# is run with one of them, half of the tests with each.
WITH_BOTH = {
    "test_apps", "test_index_repository", "test_replies", "test_search_code", "test_session",
    "test_tool_registration",
}  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the revisions of the protocol with which a test is run."""
    if "mode" not in metafunc.fixturenames:
        return
    if any("mode" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")):
        return
    module = metafunc.module.__name__.rpartition(".")[2]
    names_it = "mode" in signature(metafunc.function).parameters
    chosen = crc32(metafunc.function.__name__.encode()) % len(MODES)
    metafunc.parametrize("mode", MODES if module in WITH_BOTH or names_it else [MODES[chosen]])


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Any:
    """The revision of the protocol: ``auto`` or ``legacy``; `pytest_generate_tests` chooses it."""
    raise AssertionError(f"no revision was chosen for {request.node.nodeid}")


@pytest.fixture
async def client(
    mode: Any, anyio_backend: str, settings: Settings, toolsets: list[str], tmp_path: Path
) -> AsyncIterator[Client[Any]]:
    """A client of each revision of the protocol."""
    server = server_of(AppHolder(replace(settings, project_dir=tmp_path)), toolsets)
    async with Client(server, mode=mode) as client:
        yield client


@pytest.fixture(scope="session", autouse=True)
def output_schemas() -> Iterator[None]:
    """Make the schema of each reply once for all servers, which took most of their start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codebase_mcp.tools.server.output_schema", cache(output_schema))
        yield


class Caller:
    """Calls tools and looks at what comes back."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that must succeed."""
        result = await self._client.call_tool(tool, arguments, raise_on_error=False)
        assert not result.is_error, result.content
        assert result.structured_content is not None
        return result.structured_content

    async def error(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of a call that must fail."""
        result = await self._client.call_tool(tool, arguments, raise_on_error=False)
        assert result.is_error, result.structured_content
        assert result.structured_content is not None
        error: dict[str, Any] = result.structured_content["error"]
        return error


@pytest.fixture
def call(client: Client[Any]) -> Caller:
    return Caller(client)


@pytest.fixture
async def existing(app: App, project_id: str) -> str:
    """The id of a project that exists and holds nothing."""
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


def is_time(text: str) -> bool:
    """Whether a text is a time that says its zone."""
    return datetime.fromisoformat(text).tzinfo is not None
