"""Signing in: a key in a cookie that only this server gets back, for pages alone."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import InvalidInput
from codebase_mcp.pages.site import KEY_COOKIE, Site, form_of, redirect

# The key itself may end sooner.
_DAY_S = 86_400


async def form(site: Site, request: Request) -> Response:
    """The form that asks for a key."""
    return site.page(request, "signing.html", signed_in=KEY_COOKIE in request.cookies)


async def sign_in(site: Site, request: Request) -> Response:
    """Keep the key in the browser; the next page says whether it is right.

    Raises:
        InvalidInput: no key was given.
    """
    key = (await form_of(request)).get("key", "")
    if not key.isascii() or not key.isprintable() or not key:
        raise InvalidInput.of("key", None, "A key is a line of letters and digits", rule="a key")
    answer = redirect(request, "/")
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


async def sign_out(site: Site, request: Request) -> Response:
    """Forget the key."""
    answer = redirect(request, "/sign-in")
    answer.delete_cookie(KEY_COOKIE, path=request.scope.get("root_path", "") or "/")
    return answer
