"""Which pages are there? The function of each is imported with its first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from codebase_mcp.errors import CodebaseError
from codebase_mcp.tools.reply import unexpected
from codebase_mcp.tools.running import until_hang_up
from codebase_mcp.values import require_storable
from codebase_mcp.web.pages.site import SIGN_IN, Site, refusal_of

GET: tuple[tuple[str, str], ...] = (
    ("/", "searching:home"),
    ("/search", "searching:search"),
    ("/results", "searching:results"),
    ("/file", "reading:file"),
    ("/symbol", "reading:symbol"),
    ("/index", "indexes:index"),
    ("/index/events", "indexes:events"),
    ("/tasks", "records:tasks"),
    ("/memory", "records:memory"),
    ("/work", "records:work"),
    ("/entities", "records:entities"),
    ("/changes", "changes:changes"),
    ("/status", "status:status"),
    ("/sign-in", "signing:form"),
)
POST: tuple[tuple[str, str], ...] = (
    ("/index/start", "indexes:start"),
    ("/index/cancel", "indexes:cancel"),
    ("/index/remove", "indexes:remove"),
    ("/sign-in", "signing:sign_in"),
    ("/sign-out", "signing:sign_out"),
)
PATHS = frozenset(path for path, _ in (*GET, *POST))
# Pages that a browser opens as a whole.
WHOLE_PAGES = frozenset(path for path, _ in GET) - {"/results", "/index/events", SIGN_IN}

Page = Callable[[Site, Request], Coroutine[Any, Any, Response]]


def page_routes(site: Site) -> list[BaseRoute]:
    """The routes of the pages."""
    routes: list[BaseRoute] = [Route("/static/{name}", site.static)]
    for method, pages in (("GET", GET), ("POST", POST)):
        for path, name in pages:
            routes.append(Route(path, _endpoint(site, name), methods=[method]))
    return routes


def _endpoint(site: Site, name: str) -> Callable[[Request], Awaitable[Response]]:
    """The page of this name, ``module:function``; its errors are pages too."""
    module, _, function = name.partition(":")

    async def answer(request: Request) -> Response:
        try:
            if request.method == "POST" and (refusal := await refusal_of(request)):
                raise refusal
            for parameter, value in request.query_params.items():
                require_storable(parameter, value)
            page: Page = getattr(import_module(f"codebase_mcp.web.pages.{module}"), function)
            if request.method == "POST":  # a change that has begun is completed
                return await page(site, request)
            return await until_hang_up(request, page(site, request))
        except ClientDisconnect:
            return Response(status_code=499)  # never sent, as the browser is gone
        except CodebaseError as error:
            return site.error(request, error)
        except Exception as error:  # the edge: logged with its traceback, shown by its id
            return site.error(request, unexpected(error))

    return answer
