"""The product as an agent sees it: an MCP server over stdio or streamable HTTP.

The handshake needs neither database nor model: both are opened by the first tool that is called.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fastmcp import Context, FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.dependencies import get_context
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, ListToolsRequest, NotificationParams, ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import PrivateAttr

from codebase_mcp.access.identity import FULL_ACCESS, Access, Identity
from codebase_mcp.errors import CodebaseError, forget_locals
from codebase_mcp.tools.callers import ClientRoots, identity_in, replies_for
from codebase_mcp.tools.calling import AppFactory, ReportProgress, no_progress, reply_of
from codebase_mcp.tools.catalog import tools_of, toolsets, unknown_tool
from codebase_mcp.tools.direct import DirectCalls
from codebase_mcp.tools.reply import (
    Replies,
    Reply,
    Result,
    failure,
    output_schema,
    private_folders,
    redacted,
    success,
    unexpected,
)
from codebase_mcp.tools.running import CallQueue, RunningCalls, shutting_down
from codebase_mcp.tools.toolset import ToolSpec

if TYPE_CHECKING:
    from codebase_mcp.app.app import App
    from codebase_mcp.app.background.audit import AuditLog
    from codebase_mcp.settings.loading import Settings

NAME = "codebase-mcp"

ANCHOR_INSTRUCTIONS = """\
anchors ([{file, symbol, commit}], one of them each, file relative to the root) tie a record to \
code. They follow renames; when the code there changes they need review. Given again they replace \
the old ones and count as reviewed; null or [] removes them."""
ERROR_INSTRUCTIONS = "Every error names the field, the rule, and what to do next."


def instructions_for(names: Collection[str]) -> str:
    """How to work with a server that shows these toolsets; below 2 KB for all of them."""
    shown = toolsets(names)
    parts = [toolset.instructions for toolset in shown]
    if any("anchors" in tool.arguments.model_fields for toolset in shown for tool in toolset.tools):
        parts.append(ANCHOR_INSTRUCTIONS)
    return "\n".join([*parts, ERROR_INSTRUCTIONS])


Lifespan = Callable[["App"], AbstractAsyncContextManager[None]]

# Makes the metadata of a reply; None for no metadata.
ResultMeta = Callable[[Context, str, Reply], Awaitable[dict[str, Any] | None]]


class AppHolder:
    """Opens the product once, at the first call.

    ``lifespan`` is what a server does in the background: it begins when the product is open and
    ends before it closes.
    """

    def __init__(
        self,
        settings: Settings,
        lifespan: Lifespan | None = None,
        *,
        open_app: AppFactory | None = None,
    ) -> None:
        self.calls = RunningCalls()
        self.roots = ClientRoots()
        self.audit: AuditLog | None = None
        self.result_meta: ResultMeta | None = None
        # Several processes at one address do not know what a client told another process.
        self.keeps_sessions = settings.http_workers == 1
        self._settings = settings
        single = settings.transport == "stdio"
        runs = max(1, settings.calls // 2)
        self.queue = CallQueue("calls", settings.calls, single_client=single)
        self._index_runs = CallQueue("index runs", runs, wait_s=None, single_client=single)
        self._open_app = open_app or partial(_open_app, settings)
        access = FULL_ACCESS.reading() if settings.read_only else FULL_ACCESS
        directory = settings.project_dir or Path.cwd()
        self._process = Identity(f"process {uuid4()}", directory, access=access)
        self._lock = asyncio.Lock()
        self._app: App | None = None
        self._lifespan = lifespan
        self._exit_stack = AsyncExitStack()
        self._is_closed = False

    async def get(self) -> App:
        """The product, opened.

        Raises:
            ShuttingDown: it was closed; nothing would close it again.
        """
        async with self._lock:
            if self._is_closed:
                raise shutting_down("no new calls are accepted")
            if self._app is None:
                async with AsyncExitStack() as stack:
                    app = await stack.enter_async_context(await self._open_app())
                    if self._lifespan is not None:
                        await stack.enter_async_context(self._lifespan(app))
                    self._exit_stack = stack.pop_all()
                self._app = app
            return self._app

    async def reply(
        self,
        spec: ToolSpec,
        arguments: dict[str, Any],
        identity: Identity,
        report_progress: ReportProgress = no_progress,
        replies: Replies = "json",
    ) -> Reply:
        """The reply of a tool, made for this form; cancelled if the server ends first."""
        call = reply_of(
            spec,
            arguments,
            self.get,
            identity,
            report_progress,
            replies=replies,
            reply_chars=self._settings.reply_chars,
            audit=self.audit,
            queue=self._index_runs if spec.is_index_run else self.queue,
        )
        try:
            return await self.calls.run(call)
        except CodebaseError as error:
            if identity.owner == self._process.owner:
                raise
            folders = private_folders(self._settings)
            raise redacted(error, arguments, folders) from error

    def identity_of(self, context: Context) -> Identity:
        """The caller: the process's user; over HTTP the key's owner, or the session's client."""
        call = context.request_context
        request = None if call is None else call.request
        if request is None and context.transport in (None, "stdio"):
            return self._process
        caller = identity_in(request)
        # Without a handshake there are no sessions, and the session header of such a client is
        # not checked.
        is_modern = call is None or call.protocol_version in MODERN_PROTOCOL_VERSIONS
        if caller.owner is not None or is_modern or not self.keeps_sessions:
            return caller
        return replace(caller, owner=f"session {context.session_id}")

    async def caller_of(self, context: Context) -> Identity | InputRequiredToolResult:
        """The caller and its directories; or a question that the client has to answer first."""
        identity = self.identity_of(context)
        if identity is not self._process:
            return identity
        roots = await self.roots.of(context)
        if isinstance(roots, InputRequiredToolResult):
            return roots
        return replace(identity, directory=roots[0], roots=roots) if roots else identity

    def replies_to(self, context: Context) -> Replies:
        """The form that the settings, or the name of the client, ask for."""
        if self._settings.replies != "auto":
            return "text" if self._settings.replies == "text" else "json"
        if context.request_context is None:
            return "json"
        client = context.session.client_params
        return replies_for(None if client is None else client.client_info.name)

    async def close(self) -> None:
        """Cancel the running calls, and close the product for good."""
        self._is_closed = True
        await self.calls.stop()
        async with self._lock:
            self._app = None
            await self._exit_stack.aclose()


async def _open_app(settings: Settings) -> App:
    # In a thread, so that a client that lists tools meanwhile is answered.
    await asyncio.to_thread(import_module, "codebase_mcp.app.app")
    from codebase_mcp.app.app import App  # noqa: PLC0415 - not for the handshake

    app = await App.open(settings)
    # The modules loaded by now stay. Looking for garbage in them takes a quarter of a search.
    gc.freeze()
    return app


class ContractTool(Tool):
    """A tool of ours for FastMCP."""

    _spec: ToolSpec = PrivateAttr()
    _holder: AppHolder = PrivateAttr()

    @classmethod
    def of(cls, spec: ToolSpec, holder: AppHolder) -> ContractTool:
        tool = cls(
            name=spec.name,
            title=spec.title,
            description=spec.description,
            parameters=spec.listed_schema(),
            output_schema=output_schema(spec.reply),
            annotations=ToolAnnotations(
                read_only_hint=spec.annotations.reads,
                destructive_hint=spec.annotations.destroys,
                idempotent_hint=spec.annotations.repeats,
                open_world_hint=False,
            ),
        )
        tool._spec = spec
        tool._holder = holder
        return tool

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        result = await self.answer(arguments, get_context())
        return result.for_fastmcp() if isinstance(result, Result) else result

    async def answer(
        self, arguments: dict[str, Any], context: Context
    ) -> Result | InputRequiredToolResult:
        """The result of a call, errors included; or a question that comes first."""
        replies = self._holder.replies_to(context)
        try:
            identity = await self._holder.caller_of(context)
            if isinstance(identity, InputRequiredToolResult):
                return identity
            reply = await self._holder.reply(
                self._spec, arguments, identity, context.report_progress, replies
            )
            meta = None
            if self._holder.result_meta is not None:
                meta = await self._holder.result_meta(context, self.name, reply)
            return success(reply, replies, meta)
        except CodebaseError as error:
            forget_locals(error)
            return failure(error, replies)
        except Exception as error:  # the edge: logged with its traceback, shown by its id
            return failure(unexpected(error), replies)


class _SessionStates:
    """The states of sessions, which a list of tools asks for and nothing here ever sets.

    What keeps them is loaded when something is stored: it takes a third of a second and 20 MB.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._is_loaded = False

    async def get(self, *arguments: Any, **named: Any) -> Any:
        return await self._load().get(*arguments, **named) if self._is_loaded else None

    def __getattr__(self, name: str) -> Any:
        self._is_loaded = True
        return getattr(self._load(), name)


class _QuickServer(FastMCP[None]):
    """FastMCP that is there at once."""

    @cached_property
    def _state_store(self) -> Any:
        return _SessionStates(lambda: super(_QuickServer, self)._state_store)


class Listing(Middleware):
    """Lists the tools, and answers calls of unknown tools, in the form for the client."""

    def __init__(self, holder: AppHolder, tools: Mapping[str, ToolSpec]) -> None:
        self._holder = holder
        self._tools = tools

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        access = self._access(context)
        listed = await call_next(context)
        # A program that serves ours may have added tools of its own.
        tools = [
            tool
            for tool in listed
            if (spec := self._tools.get(tool.name)) is None or spec.is_open_to(access)
        ]
        if self._replies(context) == "json":
            return tools
        return [self._for_models(tool) for tool in tools]

    def _for_models(self, tool: Tool) -> Tool:
        """A tool for an agent's model, which pays for each word."""
        changes: dict[str, Any] = {"output_schema": None}
        if (spec := self._tools.get(tool.name)) is not None:
            changes["parameters"] = spec.model_schema()
        return tool.model_copy(update=changes)

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        try:
            return await call_next(context)
        except NotFoundError:  # only the library looks tools up: ours raise none
            access = self._access(context)
            shown = [name for name, spec in self._tools.items() if spec.is_open_to(access)]
            unknown = unknown_tool(context.message.name, shown)
            return failure(unknown, self._replies(context)).for_fastmcp()

    def _access(self, context: MiddlewareContext[Any]) -> Access:
        within = context.fastmcp_context
        return FULL_ACCESS if within is None else self._holder.identity_of(within).access

    def _replies(self, context: MiddlewareContext[Any]) -> Replies:
        within = context.fastmcp_context
        return "json" if within is None else self._holder.replies_to(within)


def protocol_server(server: FastMCP[None]) -> Server[Any]:
    """The server of the MCP SDK, which answers messages; FastMCP has no public name for it.

    Checked with fastmcp 4.1.2. Needed to serve streams of our own on stdio, and to answer calls
    directly. If it is gone, use ``FastMCP.run_stdio_async`` and leave out `DirectCalls`: then lines
    that are no messages get no reply, and calls take longer.
    """
    return server._mcp_server


def server_of(holder: AppHolder, names: Iterable[str], *, closes: bool = True) -> FastMCP[None]:
    """A server for a product; at its end it closes the product, unless other servers use it."""
    shown = tuple(names)

    @asynccontextmanager
    async def lifespan(_: FastMCP[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if closes:
                await holder.close()

    specs = tools_of(shown)
    tools = {spec.name: ContractTool.of(spec, holder) for spec in specs}
    server = _QuickServer(
        NAME,
        instructions=instructions_for(shown),
        version=version(NAME),
        tools=list(tools.values()),
        middleware=[Listing(holder, {spec.name: spec for spec in specs})],
        lifespan=lifespan,
        dereference_schemas=False,  # ours hold no references; looking for them took 30 ms a list
    )
    protocol = protocol_server(server)
    # No parameter of ours is also a header. By itself the library lists all tools for that
    # with every call over HTTP.
    protocol.get_tool_input_schema = lambda _: None
    protocol.middleware.append(DirectCalls(server, protocol, tools))
    protocol.add_notification_handler(
        "notifications/roots/list_changed", NotificationParams, holder.roots.forget
    )
    return server
