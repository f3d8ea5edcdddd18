"""Describes for people which callers the HTTP server accepts."""

from __future__ import annotations

import logging

from codebase_mcp.access.identity import is_loopback
from codebase_mcp.access.keys import has_valid_key
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import CodebaseError
from codebase_mcp.settings.choices import database_target
from codebase_mcp.settings.loading import Settings

_log = logging.getLogger(__name__)


def callers_in_words(settings: Settings) -> str:
    """How the server identifies HTTP callers, for people."""
    proof = "a key or a token" if settings.jwt_issuer else "a key"
    if settings.no_auth:
        words = "NO KEY IS NEEDED, everyone who reaches the port may call every tool"
    elif is_loopback(settings.host) and not settings.require_keys:
        words = f"your own user on this machine, others with {proof}"
    else:
        words = f"with {proof}"
    if settings.allow_ip:
        words += f", from {', '.join(settings.allow_ip)}"
    return f"{words}; read-only" if settings.read_only else words


async def may_have_key(settings: Settings) -> bool:
    """Whether there may be a valid key; if the database is away, requests will show it."""
    if is_loopback(settings.host) or settings.no_auth or settings.jwt_issuer:
        return False
    database = await Database.open(database_target(settings))
    try:
        return await has_valid_key(database)
    except CodebaseError as error:
        _log.warning("Whether there are keys is unknown: %s", error.message)
        return True
    finally:
        await database.close()
