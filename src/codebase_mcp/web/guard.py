"""Who may call? Requests for this server's own names, from pages that are its own.

A web page that a user opens may send requests to a server on the user's machine. Its Origin gives
it away; and if its name was pointed at that machine (DNS rebinding), its Host does.
"""

from __future__ import annotations

from ipaddress import ip_address

from fastmcp.server.http import HostOriginGuardMiddleware
from starlette.middleware import Middleware

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings import Settings

EVERY_ADDRESS = ("", "0.0.0.0", "::")


def guard_of(settings: Settings) -> Middleware:
    """Checks every request: 421 for a foreign Host, 403 for a foreign Origin.

    Ours are the loopback names, the address that the connection came in on (no attacker can point
    a name at a Host that is an address), and what the settings name.
    """
    bound = () if settings.host in EVERY_ADDRESS else (settings.host,)
    return Middleware(
        HostOriginGuardMiddleware,
        allowed_hosts=[*bound, *settings.allowed_hosts],
        allowed_origins=list(settings.allowed_origins),
        mode="strict",
    )


def require_known_names(settings: Settings) -> None:
    """Refuse to be reached from other machines unless somebody said by which name.

    Raises:
        InvalidInput: the address is not this machine's own, and no host is allowed.
    """
    if is_loopback(settings.host) or settings.allowed_hosts:
        return
    raise InvalidInput(
        f"Bound to {settings.host}, the server could be reached from other machines, and it does"
        " not know by which name",
        hint="Name the hosts that clients reach it by: --allowed-hosts code.example.com, or"
        " CODEBASE_MCP_ALLOWED_HOSTS. Whoever reaches the port can call every tool.",
        details={"field": "CODEBASE_MCP_ALLOWED_HOSTS", "value": None, "constraint": "required"},
    )


def is_loopback(host: str) -> bool:
    """Does only this machine reach the address?"""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
