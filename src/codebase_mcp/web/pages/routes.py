"""Which pages are there? The function of each is imported with its first request.

The page for signing in is here: a key begins a session, whose cookie only this server gets back,
for pages alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from codebase_mcp.access.keys import LONGEST_S
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.tools.reply import unexpected
from codebase_mcp.tools.running import until_hang_up
from codebase_mcp.values import require_storable
from codebase_mcp.web.pages.site import SESSION_COOKIE, SIGN_IN, Site, form_of, redirect, refusal_of

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
    ("/context", "context:context"),
    ("/status", "indexes:status"),
    ("/sign-in", "routes:form"),
)
POST: tuple[tuple[str, str], ...] = (
    ("/context", "context:context"),
    ("/index/start", "indexes:start"),
    ("/index/cancel", "indexes:cancel"),
    ("/index/remove", "indexes:remove"),
    ("/sign-in", "routes:sign_in"),
    ("/sign-out", "routes:sign_out"),
)
PATHS = frozenset(path for path, _ in (*GET, *POST))
# Pages that a browser opens as a whole.
WHOLE_PAGES = frozenset(path for path, _ in GET) - {"/results", "/index/events", SIGN_IN}

Page = Callable[[Site, Request], Coroutine[Any, Any, Response]]


def page_routes(site: Site) -> list[BaseRoute]:
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


async def form(site: Site, request: Request) -> Response:
    """The form that asks for a key."""
    return site.page(request, "signing.html")


async def sign_in(site: Site, request: Request) -> Response:
    """Begin a session, whose cookie is kept in the browser."""
    form = await form_of(request)
    key = form.get("key", "")
    if not key.isascii() or not key.isprintable() or not key:
        raise InvalidInput.of("key", None, "A key is a line of letters and digits", rule="a key")
    cookie = await site.callers.sign_in(request.scope, key)
    if cookie is None:
        return redirect(request, SIGN_IN, next=form.get("next"), wrong="1")
    path, query = _asked_for(form.get("next", ""))
    answer = redirect(request, path, **query)
    site.set_cookie(request, answer, SESSION_COOKIE, cookie, LONGEST_S)
    return answer


def _asked_for(address: str) -> tuple[str, dict[str, str]]:
    """The page that was asked for before signing in, and its parameters; else the first page."""
    try:
        parts = urlsplit(address)
        query = dict(parse_qsl(parts.query, max_num_fields=50))
    except ValueError:
        return "/", {}
    is_ours = not parts.scheme and not parts.netloc and parts.path in WHOLE_PAGES
    return (parts.path, query) if is_ours else ("/", {})


async def sign_out(site: Site, request: Request) -> Response:
    if cookie := request.cookies.get(SESSION_COOKIE):
        await site.callers.sign_out(cookie)
    answer = redirect(request, SIGN_IN)
    answer.delete_cookie(SESSION_COOKIE, path=request.scope.get("root_path", "") or "/")
    return answer
