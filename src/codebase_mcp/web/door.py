"""Finds out who sends a request, and refuses unknown senders.

A key or a token tells the sender. Without them the connection does: a process of the server's own
user, on this machine, needs no key. The identity includes the rights, which the tools apply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network

from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from codebase_mcp.access.browser_sessions import BrowserSessions
from codebase_mcp.access.identity import Access, Identity, address_of, is_loopback, peer_of
from codebase_mcp.access.keys import PREFIX, Key, KeyRing
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import (
    CodebaseError,
    DatabaseUnavailable,
    InvalidInput,
    PermissionDenied,
    ShuttingDown,
)
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.callers import enter_identity, identity_of, owner_of
from codebase_mcp.web.answers import error_answer
from codebase_mcp.web.pages.routes import PATHS, WHOLE_PAGES
from codebase_mcp.web.pages.site import OPEN_PATHS, SESSION_COOKIE, SIGN_IN, link
from codebase_mcp.web.peers import is_own_user
from codebase_mcp.web.rate_limits import RateLimit, caller_of
from codebase_mcp.web.streams import EndableStreams
from codebase_mcp.web.tokens import Tokens

_log = logging.getLogger(__name__)

# They tell orchestrators that the server works, and nothing else.
OPEN = ("/health/live", "/health/ready")
# Where requests count for the rate limit.
_SEARCHES = ("/search", "/results", "/file", "/symbol", "/changes")
LIMITED = ("/mcp", "/sse", "/messages", "/tools/", SIGN_IN, *_SEARCHES)

# Where a response may stay open for hours; whether its caller is still admitted is checked again.
_STREAMS = ("/mcp", "/sse", "/index/events")
CHECK_STREAMS_S = 5.0

_WITHOUT_KEY = Access(reads_as_server=False)


class NotAdmitted(PermissionDenied):
    """The sender of the request is unknown, or may not call at all."""

    def __init__(self, message: str, hint: str, *, status: int = 401, challenge: str = "") -> None:
        super().__init__(message, hint=hint, details={"field": "Authorization"})
        self.status = status
        self.challenge = challenge


class Callers:
    """Identifies the senders of requests."""

    def __init__(
        self, settings: Settings, tokens: Tokens | None, database: Callable[[], Awaitable[Database]]
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._keys = KeyRing(database)
        self._sessions = BrowserSessions(database, self._keys)
        self._networks = [ip_network(network) for network in settings.allow_ip]

    def check_address(self, scope: Scope) -> None:
        """Refuse addresses outside the allowed networks.

        Raises:
            NotAdmitted: the address is not allowed.
        """
        client = scope.get("client")
        if self._networks and not self._is_allowed(client and client[0]):
            raise NotAdmitted(
                "This address may not call",
                "The operator of the server allows networks by --allow-ip.",
                status=403,
            )

    def _is_allowed(self, host: str | None) -> bool:
        address = address_of(host or "")
        return address is not None and any(address in network for network in self._networks)

    async def identify(self, scope: Scope, *, is_page: bool = False) -> Identity:
        """The caller, with its rights.

        Raises:
            NotAdmitted: the key is missing, wrong, expired or revoked, or allows nothing.
        """
        with _private_faults():
            given = Headers(scope=scope).getlist("authorization")
            if given:  # a given key is checked, even if the caller needs none
                identity = await self._bearer(scope, given)
            else:
                signed_in = await self._signed_in(scope) if is_page else None
                identity = signed_in or await self._without_key(scope)
        if self._settings.read_only:
            identity = replace(identity, access=identity.access.reading())
        return identity

    async def sign_in(self, scope: Scope, text: str) -> str | None:
        """The cookie of a new session for the holder of a key or token; None if that is invalid.

        Raises:
            NotAdmitted: it is a token that allows nothing here.
        """
        with _private_faults():
            try:
                identity = await self._bearer(scope, [f"Bearer {text}"])
            except NotAdmitted as error:
                if error.status != 401:
                    raise
                return None
            user: AuthenticatedUser = scope["user"]
            ends_at = user.access_token.expires_at
            return await self._sessions.begin(identity, text, ends_at=ends_at)

    async def sign_out(self, cookie: str) -> None:
        """End a session."""
        with _private_faults():
            await self._sessions.end(cookie)

    async def _signed_in(self, scope: Scope) -> Identity | None:
        """The caller of a browser that has signed in; a session that ended counts as none."""
        cookie = HTTPConnection(scope).cookies.get(SESSION_COOKIE)
        caller = await self._sessions.caller_of(cookie) if cookie else None
        if isinstance(caller, Key):
            return _holder_of(scope, caller)
        return caller if self._tokens else None  # tokens may not be accepted any more

    async def _bearer(self, scope: Scope, given: Sequence[str]) -> Identity:
        is_bearer = len(given) == 1 and given[0][:7].lower() == "bearer "
        text = given[0][7:].strip() if is_bearer else ""
        if text.startswith(PREFIX):
            key = await self._keys.key_of(text)
            if key is not None:
                return _holder_of(scope, key)
        elif self._tokens is not None and text:
            token = await self._tokens.verify(text)
            if token is not None:
                access = self._tokens.access(token)
                if not access.scopes:
                    raise NotAdmitted(
                        "The token allows nothing here: it has none of the scopes of this server",
                        "Ask the identity provider for the scope read, write, index or admin.",
                        status=403,
                        challenge='error="insufficient_scope"',
                    )
                return _enter(scope, token.model_copy(update={"token": ""}), access)
        raise NotAdmitted(
            "The key is wrong, expired or revoked",
            "Ask the operator of the server for another: codebase-mcp keys list shows their state.",
            challenge='error="invalid_token"',
        )

    async def _without_key(self, scope: Scope) -> Identity:
        settings = self._settings
        trusts_own_user = is_loopback(settings.host) and not settings.require_keys
        if trusts_own_user and await is_own_user(scope):
            return Identity()
        if settings.no_auth:
            return Identity(access=_WITHOUT_KEY)
        raise NotAdmitted(
            "A key is needed",
            "Send it as Authorization: Bearer KEY. The operator of the server makes one:"
            " codebase-mcp keys create OWNER.",
        )


class Door:
    """Passes on requests of known senders, with their identity."""

    def __init__(
        self,
        app: ASGIApp,
        callers: Callers,
        rate_limit: RateLimit,
        open_paths: frozenset[str],
        metadata_url: str | None,
    ) -> None:
        self._app = app
        self._limited = rate_limit.around(app)
        self._rate_limit = rate_limit
        self._callers = callers
        self._open_paths = open_paths
        self._metadata = [f'resource_metadata="{metadata_url}"'] if metadata_url else []

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


@contextmanager
def _private_faults() -> Iterator[None]:
    """Hide the text of database errors, which may hold folders and addresses.

    Raises:
        DatabaseUnavailable: keys cannot be checked.
    """
    try:
        yield
    except (NotAdmitted, ShuttingDown):
        raise
    except CodebaseError as error:
        _log.warning("keys cannot be checked: %s", error.message)
        raise DatabaseUnavailable(
            "Keys cannot be checked now: the database does not answer", hint="Try again."
        ) from error


def door_of(settings: Settings, tokens: Tokens | None, callers: Callers) -> Middleware:
    """The door of an app with these settings."""
    routes = [] if tokens is None else tokens.routes
    return Middleware(
        Door,
        callers=callers,
        rate_limit=RateLimit(settings.requests_per_minute),
        open_paths=frozenset([*OPEN, *OPEN_PATHS, *(route.path for route in routes)]),
        metadata_url=None if tokens is None else tokens.metadata_url,
    )


def _holder_of(scope: Scope, key: Key) -> Identity:
    """The identity of the holder of a key."""
    token = AccessToken(token="", client_id=key.owner, scopes=sorted(key.scopes))
    return replace(_enter(scope, token, key.access), key_id=key.id)


def _enter(scope: Scope, token: AccessToken, access: Access) -> Identity:
    """The identity of a bearer; sessions of MCP are then bound to it."""
    scope["user"] = AuthenticatedUser(token)
    return Identity(owner_of(token), is_shared=True, access=access)


def require_keys(settings: Settings, *, has_key: bool) -> None:
    """Refuse to listen for other machines if any of them could call.

    Raises:
        InvalidInput: no key exists, and no setting tells how callers are identified.
    """
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
