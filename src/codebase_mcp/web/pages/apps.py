"""MCP Apps (SEP-1865): replies as HTML, for clients that declare the capability.

Such a client finds a document at a tool, shows it in a frame without a network, and passes each
result to it. The HTML of a result is metadata, which a model does not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any, get_args

from fastmcp import Context, FastMCP
from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool
from mcp_types import ListResourcesRequest, ListToolsRequest, ReadResourceRequestParams
from pydantic import AnyUrl

from codebase_mcp.records.vocabulary import TaskStatus
from codebase_mcp.tools.reply import Reply
from codebase_mcp.tools.search_reply import SearchReply
from codebase_mcp.tools.server import NAME, AppHolder, server_of
from codebase_mcp.tools.tasks import TaskItem, TasksReply

if TYPE_CHECKING:
    from jinja2 import Template

_log = logging.getLogger(__name__)

EXTENSION = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
# The key of a result's HTML in its metadata; static/app.js reads it.
HTML_KEY = "codebase-mcp/html"

# Hosts forbid every permission unless a document asks for it. Ours asks for the clipboard.
_DOCUMENT_META = {"ui": {"permissions": {"clipboardWrite": {}}, "prefersBorder": True}}


@dataclass(frozen=True, slots=True)
class _App:
    """A tool whose replies have HTML; ``html_of`` is "" for a reply without."""

    tool: str
    title: str
    html_of: Callable[[Reply], str]

    @property
    def uri(self) -> str:
        return f"ui://codebase-mcp/{self.tool}.html"


class Apps(Middleware):
    """Lists the documents of apps, and the tools that they belong to."""

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        tools = await call_next(context)
        if not _shows_apps(context.fastmcp_context):
            return tools
        return [
            tool.model_copy(update={"meta": {"ui": {"resourceUri": app.uri}}})
            if (app := APPS.get(tool.name))
            else tool
            for tool in tools
        ]

    async def on_list_resources(
        self,
        context: MiddlewareContext[ListResourcesRequest],
        call_next: CallNext[ListResourcesRequest, Sequence[Resource]],
    ) -> Sequence[Resource]:
        resources = await call_next(context)
        if not _shows_apps(context.fastmcp_context):
            return resources
        documents = [
            Resource(uri=AnyUrl(app.uri), name=app.title, mime_type=MIME_TYPE, meta=_DOCUMENT_META)
            for app in APPS.values()
        ]
        return [*resources, *documents]

    async def on_read_resource(
        self,
        context: MiddlewareContext[ReadResourceRequestParams],
        call_next: CallNext[ReadResourceRequestParams, ResourceResult],
    ) -> ResourceResult:
        uri = str(context.message.uri)
        app = next((app for app in APPS.values() if app.uri == uri), None)
        if app is None:
            return await call_next(context)
        document = await asyncio.to_thread(document_of, app.tool)
        return ResourceResult([ResourceContent(document, MIME_TYPE, _DOCUMENT_META)])


def server_with_apps(
    holder: AppHolder, toolsets: Iterable[str], *, closes: bool = True
) -> FastMCP[None]:
    """The server of this product: its tools, and apps for clients that show them."""
    server = server_of(holder, toolsets, closes=closes)
    server.add_middleware(Apps())
    holder.result_meta = result_meta
    return server


async def result_meta(context: Context, tool: str, reply: Reply) -> dict[str, Any] | None:
    """The HTML of a reply, for a client that shows it."""
    app = APPS.get(tool)
    if app is None or not _shows_apps(context):
        return None
    try:
        html = await asyncio.to_thread(app.html_of, reply)
    except Exception:  # the edge: the reply itself is whole
        _log.exception("the reply of %s could not be shown as HTML", tool)
        return None
    return {HTML_KEY: html} if html else None


@cache
def document_of(tool: str) -> str:
    """The document in which a tool's results are shown: style and script are part of it."""
    from markupsafe import Markup  # noqa: PLC0415 - for such clients alone

    folder = files("codebase_mcp.web.pages").joinpath("static")
    style, script = (
        Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in ("page.css", "app.js")
    )
    return _template("app.html").render(
        tool=tool, title=APPS[tool].title, version=version(NAME), style=style, script=script
    )


def _shows_apps(context: Context | None) -> bool:
    """Whether the client of a request says that it shows apps."""
    if context is None or context.request_context is None:
        return False
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities is not None else None
    settings = (extensions or {}).get(EXTENSION)
    return isinstance(settings, dict) and MIME_TYPE in (settings.get("mimeTypes") or ())


def _search_html(reply: Reply) -> str:
    from codebase_mcp.web.pages.searching import shown_of  # noqa: PLC0415 - for such clients alone

    if not isinstance(reply, SearchReply) or reply.report is None:
        return ""
    values = shown_of(reply.report) | {"same": {}, "more": False, "cut": False}
    return _fragment("app-results.html", found=values, chosen="")


def _tasks_html(reply: Reply) -> str:
    if not isinstance(reply, TasksReply):
        return ""
    by_status: dict[str, list[TaskItem]] = defaultdict(list)
    for task in reply.tasks:
        by_status[task.status].append(task)
    columns = [
        (status, by_status[status], {"total": len(by_status[status]), "older": None})
        for status in get_args(TaskStatus)
        if status in by_status
    ]
    more = reply.total_count - len(reply.tasks)
    return _fragment("app-tasks.html", columns=columns, more=more, project="", chosen="")


def _fragment(name: str, **values: Any) -> str:
    """A template without addresses: a frame leads nowhere."""
    values |= {"link": lambda *_, **__: "", "params": {"as": "", "q": ""}}
    return _template(name).render(**values)


def _template(name: str) -> Template:
    from codebase_mcp.web.pages.html import environment  # noqa: PLC0415 - for such clients alone

    return environment().get_template(name)


APPS: Mapping[str, _App] = {
    app.tool: app
    for app in (
        _App("search_code", "Code search", _search_html),
        _App("list_tasks", "Tasks", _tasks_html),
    )
}
