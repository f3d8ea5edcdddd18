"""Finds out who sends a request, and refuses unknown senders.

A key or a JWT of an identity provider tells the sender. Without them the connection does: a process
of the server's own user, on this machine, needs no key. The identity includes the rights, which the
tools apply.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network

from fastmcp.server.auth import AccessToken, RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.routes import build_resource_metadata_url
from pydantic import AnyHttpUrl
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.routing import Route
from starlette.types import Scope

from codebase_mcp.access.identity import SCOPES, Access, Identity, address_of, is_loopback
from codebase_mcp.access.keys import PREFIX, BrowserSessions, Key, KeyRing
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable, PermissionDenied, ShuttingDown
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.callers import owner_of
from codebase_mcp.web.pages.site import SESSION_COOKIE
from codebase_mcp.web.peers import is_own_user

_log = logging.getLogger(__name__)

# Compared with, not bound to.
EVERY_ADDRESS = ("", "0.0.0.0", "::")  # nosec B104

_MCP_PATH = "/mcp"
_WITHOUT_KEY = Access(reads_as_server=False)


class NotAdmitted(PermissionDenied):
    """The sender of the request is unknown, or may not call at all."""

    def __init__(self, message: str, hint: str, *, status: int = 401, challenge: str = "") -> None:
        super().__init__(message, hint=hint, details={"field": "Authorization"})
        self.status = status
        self.challenge = challenge


class Callers:
    """Identifies the senders of requests."""

    def __init__(self, settings: Settings, database: Callable[[], Awaitable[Database]]) -> None:
        self._settings = settings
        self.tokens = None if settings.jwt_issuer is None else Tokens(settings)
        self._keys = KeyRing(database)
        self._sessions = BrowserSessions(database, self._keys)
        self._networks = [ip_network(network) for network in settings.allow_ip]

    def check_address(self, scope: Scope) -> None:
        """Refuse addresses outside the allowed networks.

        Raises:
            NotAdmitted: the address is not allowed.
        """
        client = scope.get("client")
        address = address_of((client and client[0]) or "")
        is_allowed = address is not None and any(address in part for part in self._networks)
        if self._networks and not is_allowed:
            raise NotAdmitted(
                "This address may not call",
                "The operator of the server allows networks by --allow-ip.",
                status=403,
            )

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
        with _private_faults():
            await self._sessions.end(cookie)

    async def _signed_in(self, scope: Scope) -> Identity | None:
        """The caller of a browser that has signed in; a session that ended counts as none."""
        cookie = HTTPConnection(scope).cookies.get(SESSION_COOKIE)
        caller = await self._sessions.caller_of(cookie) if cookie else None
        if isinstance(caller, Key):
            return _holder_of(scope, caller)
        return caller if self.tokens else None  # tokens may not be accepted any more

    async def _bearer(self, scope: Scope, given: Sequence[str]) -> Identity:
        is_bearer = len(given) == 1 and given[0][:7].lower() == "bearer "
        text = given[0][7:].strip() if is_bearer else ""
        if text.startswith(PREFIX):
            key = await self._keys.key_of(text)
            if key is not None:
                return _holder_of(scope, key)
        elif self.tokens is not None and text:
            token = await self.tokens.verify(text)
            if token is not None:
                access = self.tokens.access(token)
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


def _holder_of(scope: Scope, key: Key) -> Identity:
    token = AccessToken(token="", client_id=key.owner, scopes=sorted(key.scopes))
    return replace(_enter(scope, token, key.access), key_id=key.id)


def _enter(scope: Scope, token: AccessToken, access: Access) -> Identity:
    """The identity of a bearer; sessions of MCP are then bound to it."""
    scope["user"] = AuthenticatedUser(token)
    return Identity(owner_of(token), is_shared=True, access=access)


class Tokens:
    """The JWTs of the identity provider in the settings.

    FastMCP checks signature, issuer and audience, fetches the provider's keys, and serves the
    metadata by which clients find the provider (RFC 9728).
    """

    def __init__(self, settings: Settings) -> None:
        issuer = settings.jwt_issuer
        assert issuer is not None
        self._prefix = settings.jwt_scope_prefix
        self._projects_claim = settings.jwt_projects_claim
        self._provider = RemoteAuthProvider(
            JWTVerifier(
                jwks_uri=settings.jwt_jwks_url,
                issuer=[issuer, f"{issuer}/"],  # ours is stored without the slash
                audience=settings.jwt_audience,
                algorithm=settings.jwt_algorithm,
            ),
            authorization_servers=[AnyHttpUrl(issuer)],
            base_url=public_url(settings),
            scopes_supported=[f"{self._prefix}{scope}" for scope in SCOPES],
            resource_name="codebase-mcp",
        )
        self.routes: list[Route] = self._provider.get_routes(_MCP_PATH)
        resource = AnyHttpUrl(f"{public_url(settings)}{_MCP_PATH}")
        self.metadata_url = str(build_resource_metadata_url(resource))

    async def verify(self, text: str) -> AccessToken | None:
        """The token, if it is valid now; a token that never expires is invalid."""
        token = await self._provider.verify_token(text)
        if token is None or token.expires_at is None:
            return None
        not_before = token.claims.get("nbf", 0)
        if not isinstance(not_before, int | float) or not_before > time.time():
            return None
        return token

    def access(self, token: AccessToken) -> Access:
        """The rights of the bearer, all of which the token names."""
        named = set(token.scopes)
        return Access(
            scopes=frozenset(scope for scope in SCOPES if f"{self._prefix}{scope}" in named),
            projects=self._projects(token),
            reads_as_server=False,
        )

    def _projects(self, token: AccessToken) -> tuple[str, ...]:
        if self._projects_claim is None:
            return ("*",)
        patterns = token.claims.get(self._projects_claim)
        if isinstance(patterns, str):
            patterns = patterns.split()
        if not isinstance(patterns, list):
            return ()
        return tuple(pattern for pattern in patterns if isinstance(pattern, str))


def public_url(settings: Settings) -> str:
    """The address by which clients reach the server, as far as the settings tell."""
    if settings.public_url is not None:
        return settings.public_url
    host = next(iter(settings.allowed_hosts), "localhost")
    if settings.host not in EVERY_ADDRESS:
        host = settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
