"""Signing in: a key begins a session, whose cookie only this server gets back, for pages alone."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.access.browser_sessions import LONGEST_S
from codebase_mcp.errors import InvalidInput
from codebase_mcp.web.pages.routes import WHOLE_PAGES
from codebase_mcp.web.pages.site import SESSION_COOKIE, SIGN_IN, Site, form_of, redirect


async def form(site: Site, request: Request) -> Response:
    """The form that asks for a key."""
    return site.page(request, "signing.html")


async def sign_in(site: Site, request: Request) -> Response:
    """Begin a session, whose cookie is kept in the browser.

    Raises:
        InvalidInput: no key was given.
        PermissionDenied: it is a token that allows nothing here.
    """
    form = await form_of(request)
    key = form.get("key", "")
    if not key.isascii() or not key.isprintable() or not key:
        raise InvalidInput.of("key", None, "A key is a line of letters and digits", rule="a key")
    cookie = await site.sign_in(request.scope, key)
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
    """End the session."""
    if cookie := request.cookies.get(SESSION_COOKIE):
        await site.sign_out(cookie)
    answer = redirect(request, SIGN_IN)
    answer.delete_cookie(SESSION_COOKIE, path=request.scope.get("root_path", "") or "/")
    return answer
