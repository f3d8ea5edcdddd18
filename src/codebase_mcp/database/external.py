"""How is an external PostgreSQL reached?

Directly, over TLS if the URL says so, or through a pooler in transaction mode. Session locks bypass
the pooler. If a server that was reachable is lost, a call waits for a short time: it may be
restarting.
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

# After an outage this long, calls no longer wait: each tries once.
_OUTAGE_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class External:
    """An external PostgreSQL.

    At most ``pool_size + overflow`` connections are open at once. ``?pgbouncer=true`` in the URL
    says that it is a pooler in transaction mode: prepared statements are not used then, and
    ``direct_url`` bypasses it for session locks. ``wait_s`` is how long a call waits for a server
    that was reachable before. With ``project_roles`` each project has a database role, if ours may
    make roles.
    """

    url: str = field(repr=False)
    pool_size: int = 20
    overflow: int = 10
    direct_url: str | None = field(default=None, repr=False)
    wait_s: float = 5.0
    project_roles: bool = True


class ExternalServer:
    """Connects to the server of a URL.

    Raises:
        DatabaseUnavailable: a URL is invalid.
    """

    def __init__(self, target: External) -> None:
        self._conninfo, self._is_pooled = read_url(target.url)
        self._direct: tuple[str, bool] | None = None
        if target.direct_url:
            self._direct = read_url(target.direct_url, "DIRECT_DATABASE_URL")
        self._wait_s = target.wait_s
        self._was_reachable = False
        self._unreachable_since: float | None = None
        self._last_failure = 0.0

    async def connect(self) -> Connection:
        """A connection for transactions."""
        prepare_after = None if self._is_pooled else _PREPARE_AFTER
        return await self._connect_with_retries(self._conninfo, prepare_after)

    async def connect_directly(self) -> Connection:
        """A connection with a session of its own.

        Raises:
            DatabaseUnavailable: the server is only reachable through a pooler.
        """
        conninfo, is_pooled = self._direct or (self._conninfo, self._is_pooled)
        if is_pooled:
            raise needs_direct_url()
        async with AsyncExitStack() as undo:
            connection = await self._connect_with_retries(conninfo, _PREPARE_AFTER)
            undo.push_async_callback(connection.close)
            if self._direct is None and not await _has_own_session(connection):
                raise needs_direct_url()
            undo.pop_all()
        return connection

    async def _connect_with_retries(self, conninfo: str, prepare_after: int | None) -> Connection:
        """Connect; retry for a while if the server was reachable before."""
        started = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                connection = await open_connection(conninfo, prepare_after=prepare_after)
            except psycopg.OperationalError:
                if not self._was_reachable or time.monotonic() >= self._deadline(started):
                    raise
            else:
                self._was_reachable, self._unreachable_since = True, None
                return connection
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _deadline(self, started: float) -> float:
        """The time until which to retry after a failed attempt."""
        now = time.monotonic()
        if self._unreachable_since is None or now - self._last_failure > _OUTAGE_S:
            self._unreachable_since = now
        self._last_failure = now
        return min(started + self._wait_s, self._unreachable_since + _OUTAGE_S)


def needs_direct_url() -> DatabaseUnavailable:
    """A pooler gives each transaction another session, so session locks would not work."""
    return DatabaseUnavailable(
        "DATABASE_URL points to a pooler, but indexing needs a session of its own",
        hint="Set DIRECT_DATABASE_URL to a URL of the same database that bypasses the pooler.",
    )


async def _has_own_session(connection: Connection) -> bool:
    """Detect a pooler without pgbouncer=true: the session's backend pid differs."""
    row = await (await connection.execute("SELECT pg_catalog.pg_backend_pid()")).fetchone()
    return row is not None and row[0] == connection.info.backend_pid


def read_url(url: str, variable: str = "DATABASE_URL") -> tuple[str, bool]:
    """The URL in libpq's syntax, and whether its options name a pooler.

    ``postgresql+asyncpg://`` and similar schemes are accepted.

    Raises:
        DatabaseUnavailable: it is not a PostgreSQL URL, or a piece of the password would be parsed
            as host, port or database and shown in errors. The message does not repeat the URL.
    """
    address, mark, query = url.partition("?")
    address = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", address)
    options = query.split("&") if mark else []
    flags = [option for option in options if option.partition("=")[0] == "pgbouncer"]
    kept = [option for option in options if option not in flags]
    conninfo = address + ("?" + "&".join(kept) if kept else "")
    if not _is_understood(conninfo):
        raise DatabaseUnavailable(
            f"PostgreSQL database unavailable: {variable} is invalid",
            hint="Expected postgresql://user:password@host:5432/database; in a password write"
            " @ as %40, / as %2F, : as %3A and ? as %3F.",
        )
    return conninfo, any(flag.partition("=")[2] not in ("false", "0", "no") for flag in flags)


def _is_understood(url: str) -> bool:
    """Whether libpq can parse the URL and finds no part of a password in the wrong fields."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return False
    path = url.partition("?")[0].partition("://")[2].partition("/")[2]
    host, port = str(parts.get("host", "")), str(parts.get("port", ""))
    return "@" not in path and "@" not in host and re.fullmatch(r"[0-9,]*", port) is not None
