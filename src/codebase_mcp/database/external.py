"""How do I reach a PostgreSQL that somebody else runs?

Directly, over TLS if the URL says so, or through a pooler in transaction mode; and past that pooler
for what needs a session of its own. A server that was there and is gone is waited for a little: it
may be restarting.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import psycopg
from psycopg.conninfo import conninfo_to_dict

from codebase_mcp.database.pool import Connection, open_connection
from codebase_mcp.errors import DatabaseUnavailable

_PREPARE_AFTER = 5

# A server that stays away is given up after so long; from then on each call tries once.
_OUTAGE_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class External:
    """A PostgreSQL that somebody else runs.

    At most ``pool_size + overflow`` connections are open at once. ``?pgbouncer=true`` in the URL
    says that a pooler in transaction mode stands between: no prepared statements then, and
    ``direct_url`` leads past it for the one thing that needs a session. ``patience_s`` is how long
    a call waits for a server that was there before.
    """

    url: str = field(repr=False)
    pool_size: int = 20
    overflow: int = 10
    direct_url: str | None = field(default=None, repr=False)
    patience_s: float = 5.0


class ExternalServer:
    """The ways to the server of a URL.

    Raises:
        DatabaseUnavailable: a URL is not understood.
    """

    def __init__(self, target: External) -> None:
        self._conninfo, self._is_pooled = read_url(target.url)
        self._direct: tuple[str, bool] | None = None
        if target.direct_url:
            self._direct = read_url(target.direct_url, "DIRECT_DATABASE_URL")
        self._patience_s = target.patience_s
        self._was_here = False
        self._away_since: float | None = None
        self._last_failure = 0.0

    async def connect(self) -> Connection:
        """A connection for transactions."""
        prepare_after = None if self._is_pooled else _PREPARE_AFTER
        return await self._patiently(self._conninfo, prepare_after)

    async def connect_directly(self) -> Connection:
        """A connection that has a session of the server to itself.

        Raises:
            DatabaseUnavailable: only a pooler is known.
        """
        conninfo, is_pooled = self._direct or (self._conninfo, self._is_pooled)
        if is_pooled:
            raise needs_direct_url()
        async with AsyncExitStack() as undo:
            connection = await self._patiently(conninfo, _PREPARE_AFTER)
            undo.push_async_callback(connection.close)
            if self._direct is None and not await _has_own_session(connection):
                raise needs_direct_url()
            undo.pop_all()
        return connection

    async def _patiently(self, conninfo: str, prepare_after: int | None) -> Connection:
        """Connect; a server that was there before is tried again for a while."""
        started = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection = await open_connection(conninfo, prepare_after=prepare_after)
            except psycopg.OperationalError:
                if not self._was_here or time.monotonic() >= self._deadline(started):
                    raise
            else:
                self._was_here, self._away_since = True, None
                return connection
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _deadline(self, started: float) -> float:
        """Until when to try again, now that an attempt has failed."""
        now = time.monotonic()
        if self._away_since is None or now - self._last_failure > _OUTAGE_S:
            self._away_since = now
        self._last_failure = now
        return min(started + self._patience_s, self._away_since + _OUTAGE_S)


def needs_direct_url() -> DatabaseUnavailable:
    """A pooler hands each transaction to another session, so a lock would be nobody's."""
    return DatabaseUnavailable(
        "DATABASE_URL leads through a pooler, and indexing needs a session of its own",
        hint="Set DIRECT_DATABASE_URL to the same database past the pooler.",
    )


async def _has_own_session(connection: Connection) -> bool:
    """A pooler that nobody has told us of gives itself away: the session's process is another."""
    row = await (await connection.execute("SELECT pg_catalog.pg_backend_pid()")).fetchone()
    return row is not None and row[0] == connection.info.backend_pid


def read_url(url: str, variable: str = "DATABASE_URL") -> tuple[str, bool]:
    """A URL as libpq takes it, and whether it says that a pooler stands between.

    ``postgresql+asyncpg://`` and its like, as other programs write it, mean the same server.

    Raises:
        DatabaseUnavailable: it is no URL of a PostgreSQL, or one of which a piece of the password
            would be taken for a host, a port or a database, and so be named in errors. It is not
            repeated.
    """
    address, mark, query = url.partition("?")
    address = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", address)
    options = query.split("&") if mark else []
    flags = [option for option in options if option.partition("=")[0] == "pgbouncer"]
    kept = [option for option in options if option not in flags]
    conninfo = address + ("?" + "&".join(kept) if kept else "")
    if not _is_understood(conninfo):
        raise DatabaseUnavailable(
            f"PostgreSQL database unavailable: {variable} is not understood",
            hint="It looks like postgresql://user:password@host:5432/database; in a password write"
            " @ as %40, / as %2F, : as %3A and ? as %3F.",
        )
    return conninfo, any(flag.partition("=")[2] not in ("false", "0", "no") for flag in flags)


def _is_understood(url: str) -> bool:
    """Does libpq read the URL as whoever wrote it meant it?"""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return False
    path = url.partition("?")[0].partition("://")[2].partition("/")[2]
    host, port = str(parts.get("host", "")), str(parts.get("port", ""))
    return "@" not in path and "@" not in host and re.fullmatch(r"[0-9,]*", port) is not None
