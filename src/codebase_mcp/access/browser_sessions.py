"""Sessions of browsers: a cookie stands for the key, and ends with it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable

from codebase_mcp.access.identity import Access, Identity
from codebase_mcp.access.keys import Key, KeyRing, hash_of
from codebase_mcp.database.connection import Database
from codebase_mcp.database.queries import load_queries

_SQL = load_queries("codebase_mcp.access", "browser_sessions.sql")

# A day; the key or token may end sooner.
LONGEST_S = 86_400
_COOKIE_BYTES = 32


class BrowserSessions:
    """The sessions in the catalogue, which all processes of a server share."""

    def __init__(self, database: Callable[[], Awaitable[Database]], keys: KeyRing) -> None:
        self._database = database
        self._keys = keys

    async def begin(self, identity: Identity, text: str, *, ends_at: float | None = None) -> str:
        """The cookie of a new session of the caller who brought this key, or token of a provider.

        ``ends_at`` is when the token expires, in seconds since 1970.
        """
        cookie = secrets.token_urlsafe(_COOKIE_BYTES)
        is_key = identity.key_id is not None
        async with (await self._database()).catalogue() as tx:
            await tx.execute(_SQL["delete_ended_sessions"])
            await tx.execute(
                _SQL["add_session"],
                cookie_hash=hash_of(cookie),
                owner=identity.owner,
                key_id=identity.key_id,
                key_hash=hash_of(text) if is_key else None,
                scopes=None if is_key else sorted(identity.access.scopes),
                projects=None if is_key else list(identity.access.projects),
                longest_s=LONGEST_S,
                ends_at=ends_at,
            )
        return cookie

    async def caller_of(self, cookie: str) -> Key | Identity | None:
        """The key that began a session, or the bearer of the token that did; None once it ended."""
        async with (await self._database()).catalogue(readonly=True) as tx:
            row = await tx.fetch_one(_SQL["find_session"], cookie_hash=hash_of(cookie))
        if row is None:
            return None
        owner, key_id, key_hash, scopes, projects = row
        if key_id is not None:
            return await self._keys.key_with(key_id, bytes(key_hash))
        access = Access(frozenset(scopes), tuple(projects), reads_as_server=False)
        return Identity(owner, is_shared=True, access=access)

    async def end(self, cookie: str) -> None:
        """End a session, if it has not ended."""
        async with (await self._database()).catalogue() as tx:
            await tx.execute(_SQL["end_session"], cookie_hash=hash_of(cookie))
