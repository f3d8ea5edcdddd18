"""Checks every request before the app gets it: its Host and Origin, its address, its sender.

A web page may send requests to a server on the user's machine. Its Origin header shows that; with
DNS rebinding its Host header does. `authentication.py` finds out who sends a request.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.middleware import Middleware
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codebase_mcp.access.identity import is_loopback, peer_of
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.callers import enter_identity, identity_of
from codebase_mcp.web.answers import error_answer
from codebase_mcp.web.authentication import EVERY_ADDRESS, Callers, NotAdmitted
from codebase_mcp.web.limits import RateLimit, caller_of
from codebase_mcp.web.pages.routes import PATHS, WHOLE_PAGES
from codebase_mcp.web.pages.site import OPEN_PATHS, SIGN_IN, link
from codebase_mcp.web.shutdown import EndableStreams

# They tell orchestrators that the server works, and nothing else.
OPEN = ("/health/live", "/health/ready")
# Where requests count for the rate limit.
_SEARCHES = ("/search", "/results", "/file", "/symbol", "/changes")
LIMITED = ("/mcp", "/sse", "/messages", "/tools/", SIGN_IN, *_SEARCHES)

# Where a response may stay open for hours; whether its caller is still admitted is checked again.
_STREAMS = ("/mcp", "/sse", "/index/events")
CHECK_STREAMS_S = 5.0


class Door:
    """Passes on requests of known senders, with their identity."""

    def __init__(self, app: ASGIApp, callers: Callers, requests_per_minute: int | None) -> None:
        self._app = app
        self._callers = callers
        self._rate_limit = RateLimit(requests_per_minute)
        self._limited = self._rate_limit.around(app)
        tokens = callers.tokens
        routes = [] if tokens is None else tokens.routes
        self._open_paths = {*OPEN, *OPEN_PATHS, *(route.path for route in routes)}
        self._metadata = [] if tokens is None else [f'resource_metadata="{tokens.metadata_url}"']

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = ""
        try:
            self._callers.check_address(scope)
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            is_page = path in PATHS
            if path not in self._open_paths:
                client = scope.get("client")
                caller = await self._callers.identify(scope, is_page=is_page)
                caller = replace(caller, peer=peer_of(client and client[0]))
                enter_identity(scope, caller)
                if caller.owner is not None or not caller.access.reads_as_server:
                    enter_identity(scope, replace(caller, shares_as=caller_of(scope)))
        except NotAdmitted as error:
            # Wrong keys count for the address that they come from.
            answer = self._rate_limit.around(self._refusal(error, scope, path))
            await answer(scope, receive, send)
        except CodebaseError as error:
            await error_answer(error)(scope, receive, send)
        else:
            app = self._limited if path.startswith(LIMITED) else self._app
            if scope["method"] == "GET" and path in _STREAMS:
                app = self._while_admitted(app, is_page=is_page)
            await app(scope, receive, send)

    def _refusal(self, error: NotAdmitted, scope: Scope, path: str) -> Response:
        """The answer to an unknown sender; a browser that asks for a page may sign in."""
        if error.status == 401 and scope["method"] == "GET" and path in WHOLE_PAGES:
            return RedirectResponse(
                _sign_in_form(scope, path, is_refused=bool(error.challenge)), 303
            )
        answer = error_answer(error, error.status)
        if error.status == 401 or error.challenge:
            facts = [part for part in (error.challenge, *self._metadata) if part]
            answer.headers["WWW-Authenticate"] = f"Bearer {', '.join(facts)}".strip()
        return answer

    def _while_admitted(self, app: ASGIApp, *, is_page: bool) -> ASGIApp:
        """The app; its responses end when the key or token of their caller becomes invalid.

        Without a key the connection identifies the caller, and that does not change.
        """

        async def streaming(scope: Scope, receive: Receive, send: Send) -> None:
            if identity_of(scope).owner is None:
                await app(scope, receive, send)
                return
            stream = EndableStreams(app)

            async def end_when_refused() -> None:
                while True:
                    await asyncio.sleep(CHECK_STREAMS_S)
                    try:
                        await self._callers.identify(scope, is_page=is_page)
                    except NotAdmitted:
                        stream.end()
                        return
                    except CodebaseError:  # the database is away: checked again
                        continue

            checking = asyncio.create_task(end_when_refused())
            try:
                await stream(scope, receive, send)
            finally:
                checking.cancel()

        return streaming


def _sign_in_form(scope: Scope, path: str, *, is_refused: bool) -> str:
    """The sign-in page, which leads back to the requested page."""
    query = scope["query_string"].decode("latin-1")
    asked = f"{path}?{query}" if query else path
    wrong = "1" if is_refused else None
    return link(scope.get("root_path", ""), SIGN_IN, next=asked, wrong=wrong)


def require_keys(settings: Settings, *, has_key: bool) -> None:
    """Refuse to listen for other machines if any of them could call."""
    if is_loopback(settings.host) or settings.no_auth or settings.jwt_issuer or has_key:
        return
    raise InvalidInput(
        f"Bound to {settings.host}, the server can be reached from other machines, but there is"
        " no key",
        hint="Make one: codebase-mcp keys create OWNER. Or accept the tokens of an identity"
        " provider (CODEBASE_MCP_JWT_ISSUER). With --no-auth everyone who reaches the port can call"
        " every tool.",
        details={"field": "CODEBASE_MCP_NO_AUTH", "value": False, "constraint": "a key is needed"},
    )


def guard_of(settings: Settings) -> Middleware:
    """Checks every request: 421 for a Host that is not allowed, 403 for such an Origin.

    Allowed are the loopback names, the address of the connection (an attacker cannot use DNS for a
    Host that is an address), and the names in the settings.
    """
    bound = () if settings.host in EVERY_ADDRESS else (settings.host,)
    return Middleware(
        HostOriginGuardMiddleware,
        allowed_hosts=[*bound, *settings.allowed_hosts],
        allowed_origins=list(settings.allowed_origins),
        mode="strict",
    )


def require_known_names(settings: Settings) -> None:
    """Refuse to listen for other machines unless the settings name the allowed hosts."""
    if is_loopback(settings.host) or settings.allowed_hosts:
        return
    raise InvalidInput(
        f"Bound to {settings.host}, the server can be reached from other machines, but no host"
        " names are allowed",
        hint="Name the hosts that clients use: --allowed-hosts code.example.com, or"
        " CODEBASE_MCP_ALLOWED_HOSTS.",
        details={"field": "CODEBASE_MCP_ALLOWED_HOSTS", "value": None, "constraint": "required"},
    )
