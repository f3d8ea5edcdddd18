"""Signing in: a key in a cookie that only this server gets back, for pages alone."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import InvalidInput
from codebase_mcp.pages.routes import WHOLE_PAGES
from codebase_mcp.pages.site import KEY_COOKIE, Site, form_of, redirect

# The key itself may end sooner.
_DAY_S = 86_400


async def form(site: Site, request: Request) -> Response:
    """The form that asks for a key."""
    return site.page(request, "signing.html")


async def sign_in(site: Site, request: Request) -> Response:
    """Keep the key in the browser; the next page says whether it is right.

    Raises:
        InvalidInput: no key was given.
    """
    form = await form_of(request)
    key = form.get("key", "")
    if not key.isascii() or not key.isprintable() or not key:
        raise InvalidInput.of("key", None, "A key is a line of letters and digits", rule="a key")
    path, query = _asked_for(form.get("next", ""))
    answer = redirect(request, path, **query)
    answer.set_cookie(
        KEY_COOKIE,
        key,
        max_age=_DAY_S,
        path=request.scope.get("root_path", "") or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
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
    """Forget the key."""
    answer = redirect(request, "/sign-in")
    answer.delete_cookie(KEY_COOKIE, path=request.scope.get("root_path", "") or "/")
    return answer
