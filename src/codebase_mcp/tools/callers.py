"""The identity of the sender of an HTTP request."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp.server.auth.provider import principal_components

from codebase_mcp.access.identity import Access, Identity

if TYPE_CHECKING:
    from mcp.server.auth.provider import AccessToken

_IDENTITY = "codebase_mcp.identity"
_NOTHING = Identity(access=Access(frozenset(), (), reads_as_server=False))


def identity_in(request: Any) -> Identity:
    """The caller of an HTTP request, as the door has stored it."""
    return identity_of(getattr(request, "scope", {}))


def identity_of(scope: Mapping[str, Any]) -> Identity:
    """The caller in a request's scope; without it the request may do nothing."""
    identity: Identity = scope.get(_IDENTITY, _NOTHING)
    return identity


def enter_identity(scope: MutableMapping[str, Any], identity: Identity) -> None:
    """Store the caller of a request."""
    scope[_IDENTITY] = identity


def owner_of(token: AccessToken) -> str:
    """The name of a key's owner: its client and, where it has users, the user."""
    client, issuer, subject = principal_components(token)
    user = f" {quote(subject or '')} {quote(issuer or '')}".rstrip()
    return f"key {quote(client)}{user}"
