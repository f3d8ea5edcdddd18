"""Keys: created, listed, rotated and revoked by the operator, and checked with each request.

A browser that signs in with a key keeps the cookie of a session, which ends with the key.
"""

from __future__ import annotations

import hmac
import re
import secrets
import string
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from codebase_mcp.access.identity import Access, Identity, Scope
from codebase_mcp.database.connection import Database
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import NotFound

_SQL = load_queries("codebase_mcp.access", "keys.sql")
_SESSIONS_SQL = load_queries("codebase_mcp.access", "browser_sessions.sql")

PREFIX = "cbm_"
_ALPHABET = string.ascii_letters + string.digits
_ID_CHARS = 12
# 43 of 62 characters hold 256 bits.
_SECRET_CHARS = 43
_FORM = re.compile(rf"{PREFIX}([A-Za-z0-9]{{{_ID_CHARS}}})_[A-Za-z0-9]{{{_SECRET_CHARS}}}")

# A revoked key is refused by every process after this time.
_KNOWN_S = 1.0
_MAX_KNOWN = 10_000

# A day; the key or token may end sooner.
LONGEST_S = 86_400
_COOKIE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret; ``state`` is valid, expired or revoked."""

    id: str
    owner: str
    scopes: frozenset[Scope]
    projects: tuple[str, ...]
    roots: tuple[str, ...] | None
    requests_per_minute: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    state: str

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> Key:
        identity, owner, scopes, projects, roots, *rest = row
        roots = None if roots is None else tuple(roots)
        return cls(identity, owner, frozenset(scopes), tuple(projects), roots, *rest)

    @property
    def access(self) -> Access:
        """What its bearer may do; never what the server's own user may."""
        return Access(
            scopes=self.scopes,
            projects=self.projects,
            reads_as_server=False,
            requests_per_minute=self.requests_per_minute,
            roots=self.roots,
        )


@dataclass(frozen=True, slots=True)
class _Stored:
    """A valid key as the database has it."""

    key: Key
    hashes: tuple[bytes, ...]
    is_use_to_note: bool

    def has(self, digest: bytes) -> bool:
        """Whether this is the hash of its text; how long it takes says nothing about it."""
        return any([hmac.compare_digest(digest, stored) for stored in self.hashes])  # noqa: C419 - all


async def create_key(
    database: Database, owner: str, access: Access, *, expires_s: float | None = None
) -> tuple[Key, str]:
    """A new key, and its text, which is not stored and cannot be shown again."""
    identity = _random(_ID_CHARS)
    text = _new_text(identity)
    async with database.catalogue() as tx:
        [row] = await tx.fetch_all(
            _SQL["add_key"],
            id=identity,
            owner=owner,
            secret_hash=hash_of(text),
            scopes=sorted(access.scopes),
            projects=list(access.projects),
            roots=None if access.roots is None else list(access.roots),
            requests_per_minute=access.requests_per_minute,
            expires_s=expires_s,
        )
    return Key.from_row(row), text


async def list_keys(database: Database) -> list[Key]:
    """All keys, the newest first, also those that are not valid any more."""
    async with database.catalogue(readonly=True) as tx:
        return [Key.from_row(row) for row in await tx.fetch_all(_SQL["list_keys"])]


async def has_valid_key(database: Database) -> bool:
    """Whether anyone has a key."""
    async with database.catalogue(readonly=True) as tx:
        return await tx.fetch_one(_SQL["has_valid_key"]) is not None


async def revoke_key(database: Database, identity: str) -> Key:
    """Refuse a key from now on; every process does within a second."""
    async with database.catalogue() as tx:
        row = await tx.fetch_one(_SQL["revoke_key"], id=_id_in(identity))
    if row is None:
        raise _no_key(identity)
    return Key.from_row(row)


async def rotate_key(database: Database, identity: str, *, grace_s: float) -> tuple[Key, str]:
    """A key with a new text; the former text stays valid for ``grace_s`` seconds."""
    identity = _id_in(identity)
    text = _new_text(identity)
    async with database.catalogue() as tx:
        row = await tx.fetch_one(
            _SQL["rotate_key"], id=identity, secret_hash=hash_of(text), grace_s=grace_s
        )
    if row is None:
        raise _no_key(identity)
    return Key.from_row(row), text


class KeyRing:
    """Finds the key that a request brings; the database is asked at most once a second for each."""

    def __init__(self, database: Callable[[], Awaitable[Database]]) -> None:
        self._database = database
        self._cache: dict[str, tuple[float, _Stored | None]] = {}

    async def key_of(self, text: str) -> Key | None:
        """The key with this text; None if it is wrong, expired or revoked."""
        form = _FORM.fullmatch(text)
        return None if form is None else await self.key_with(form[1], hash_of(text))

    async def key_with(self, identity: str, digest: bytes) -> Key | None:
        """The key of this id, if the text with this hash is valid now."""
        stored = await self._stored(identity)
        if stored is None or not stored.has(digest):
            return None
        if stored.is_use_to_note:
            self._cache[identity] = (time.monotonic(), replace(stored, is_use_to_note=False))
            async with (await self._database()).catalogue() as tx:
                await tx.execute(_SQL["note_use"], id=identity)
        return stored.key

    async def _stored(self, identity: str) -> _Stored | None:
        now = time.monotonic()
        read_at, stored = self._cache.get(identity, (-_KNOWN_S, None))
        if now - read_at < _KNOWN_S:
            return stored
        async with (await self._database()).catalogue(readonly=True) as tx:
            row = await tx.fetch_one(_SQL["find_valid_key"], id=identity)
        stored = None
        if row is not None:
            *columns, secret, former, is_use_to_note = row
            hashes = (bytes(secret),) if former is None else (bytes(secret), bytes(former))
            stored = _Stored(Key.from_row(tuple(columns)), hashes, is_use_to_note)
        if len(self._cache) >= _MAX_KNOWN:
            self._cache.clear()
        self._cache[identity] = (now, stored)
        return stored


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
            await tx.execute(_SESSIONS_SQL["delete_ended_sessions"])
            await tx.execute(
                _SESSIONS_SQL["add_session"],
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
            row = await tx.fetch_one(_SESSIONS_SQL["find_session"], cookie_hash=hash_of(cookie))
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
            await tx.execute(_SESSIONS_SQL["end_session"], cookie_hash=hash_of(cookie))


def _new_text(identity: str) -> str:
    return f"{PREFIX}{identity}_{_random(_SECRET_CHARS)}"


def _random(chars: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(chars))


def hash_of(text: str) -> bytes:
    """The hash that is stored for a key."""
    return sha256(text.encode()).digest()


def _id_in(text: str) -> str:
    """The id of a key: people write it as it is listed, with its prefix, or paste the whole key."""
    return text.removeprefix(PREFIX).partition("_")[0]


def _no_key(identity: str) -> NotFound:
    shown = f"{PREFIX}{_id_in(identity)[:_ID_CHARS]}"
    return NotFound(
        f"No valid key {shown}", hint="codebase-mcp keys list shows all.", details={"id": shown}
    )
