"""Checks the Host and Origin headers of requests.

A web page may send requests to a server on the user's machine. Its Origin header shows that; with
DNS rebinding its Host header does.
"""

from __future__ import annotations

from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.middleware import Middleware

from codebase_mcp.access.identity import is_loopback
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings

# Compared with, not bound to.
EVERY_ADDRESS = ("", "0.0.0.0", "::")  # nosec B104


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
    """Refuse to listen for other machines unless the settings name the allowed hosts.

    Raises:
        InvalidInput: the address is no loopback address, and no host is allowed.
    """
    if is_loopback(settings.host) or settings.allowed_hosts:
        return
    raise InvalidInput(
        f"Bound to {settings.host}, the server can be reached from other machines, but no host"
        " names are allowed",
        hint="Name the hosts that clients use: --allowed-hosts code.example.com, or"
        " CODEBASE_MCP_ALLOWED_HOSTS.",
        details={"field": "CODEBASE_MCP_ALLOWED_HOSTS", "value": None, "constraint": "required"},
    )
