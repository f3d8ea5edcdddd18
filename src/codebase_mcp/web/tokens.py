"""JWTs of an identity provider: the caller that a token names, and its rights.

FastMCP checks signature, issuer and audience, fetches the provider's keys, and serves the metadata
by which clients find the provider (RFC 9728).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastmcp.server.auth import RemoteAuthProvider
from fastmcp.server.auth.providers.jwt import JWTVerifier
from mcp.server.auth.routes import build_resource_metadata_url
from pydantic import AnyHttpUrl

from codebase_mcp.access.identity import SCOPES, Access
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.guard import EVERY_ADDRESS

if TYPE_CHECKING:
    from fastmcp.server.auth import AccessToken
    from starlette.routing import Route

_MCP_PATH = "/mcp"


class Tokens:
    """The tokens of the provider in the settings."""

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
