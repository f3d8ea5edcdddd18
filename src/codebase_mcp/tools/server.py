"""The product as an agent sees it: an MCP server over stdio or streamable HTTP.

The handshake needs neither database nor model: both are opened by the first tool that is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import Tool, ToolResult
from pydantic import PrivateAttr

from codebase_mcp.errors import CodebaseError
from codebase_mcp.tools.arguments import check_arguments
from codebase_mcp.tools.catalog import tools_of
from codebase_mcp.tools.reply import failure, output_schema, success, unforeseen
from codebase_mcp.tools.toolset import Caller, ToolSpec

if TYPE_CHECKING:
    from codebase_mcp.app import App

NAME = "codebase-mcp"

INSTRUCTIONS = """\
Search over the code of indexed repositories, by meaning and by words.

1. search_code answers questions in plain language ("where are failed requests retried") and finds \
symbols by name. Use it before grep and before reading files: it returns the places with their \
lines. Use grep for an exact string of which every occurrence matters.
2. PROJECT_NOT_FOUND: nothing is indexed yet. Call index_repository with the absolute path of the \
repository, then search again. After files changed call it again: only changes are read.
3. An empty result means that nothing in the code has to do with the question. Reword it or drop \
filters.
4. Every error names the field, the rule, and under "hint" what to do next.
Results are relative to the repository's root, which `repositories` names."""

AppFactory = Callable[[], Awaitable["App"]]


class AppHolder:
    """Opens the product once, when first asked."""

    def __init__(self, open_app: AppFactory) -> None:
        self._open_app = open_app
        self._lock = asyncio.Lock()
        self._app: App | None = None

    async def get(self) -> App:
        """The product, opened."""
        async with self._lock:
            if self._app is None:
                self._app = await self._open_app()
            return self._app

    async def close(self) -> None:
        """Close what was opened."""
        async with self._lock:
            if self._app is not None:
                await self._app.close()
                self._app = None


class ContractTool(Tool):
    """A tool of ours: checks the arguments, calls, and shapes reply and error alike."""

    _spec: ToolSpec = PrivateAttr()
    _holder: AppHolder = PrivateAttr()

    @classmethod
    def of(cls, spec: ToolSpec, holder: AppHolder) -> ContractTool:
        """A tool as its spec describes it."""
        tool = cls(
            name=spec.name,
            title=spec.title,
            description=spec.description,
            parameters=spec.input_schema(),
            output_schema=output_schema(spec.reply),
            annotations=spec.annotations,
        )
        tool._spec = spec
        tool._holder = holder
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        try:
            content = await call_tool(
                self._spec, arguments, self._holder.get, get_context().report_progress
            )
        except CodebaseError as error:
            return failure(error)
        except Exception as error:  # the edge: logged with its traceback, shown by its id
            return failure(unforeseen(error))
        return success(content)


async def call_tool(
    spec: ToolSpec,
    arguments: dict[str, Any],
    open_app: AppFactory,
    report_progress: Callable[[float, float, str], Awaitable[None]],
) -> dict[str, Any]:
    """Check the arguments of a tool, call it, and return its reply as JSON values.

    Raises:
        CodebaseError: what the contract names.
    """
    checked = check_arguments(spec.accepted_schema(arguments), arguments, spec.rules)
    parsed = spec.arguments.model_validate(checked)
    caller = Caller(await open_app(), report_progress, frozenset(arguments))
    reply = await spec.run(caller, parsed)
    return reply.model_dump(mode="json", exclude_unset=True)


async def no_progress(done: float, total: float, message: str) -> None:
    """For callers whom progress does not concern."""


def build_server(open_app: AppFactory, toolsets: Iterable[str]) -> FastMCP[None]:
    """A server with the tools of some toolsets; it closes the product when it ends."""
    holder = AppHolder(open_app)

    @asynccontextmanager
    async def lifespan(_: FastMCP[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await holder.close()

    return FastMCP(
        NAME,
        instructions=INSTRUCTIONS,
        version=version(NAME),
        tools=[ContractTool.of(spec, holder) for spec in tools_of(toolsets)],
        lifespan=lifespan,
    )
