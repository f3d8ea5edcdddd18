"""Give me a PostgreSQL to talk to: the embedded one, or the one that a URL names.

``Database`` hides which of the two it is, where projects live, and when a schema has to be brought
up to date. Nothing that is set in a session outlives a transaction, so a pooler in transaction mode
may stand between; only ``session_lock`` needs a session of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from codebase_mcp.database.faults import translated
from codebase_mcp.database.migrate import Scope, migrate
from codebase_mcp.database.naming import Project
from codebase_mcp.database.pool import Connection, Pool
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.database.transaction import Transaction, committed, lock_key
from codebase_mcp.errors import DatabaseUnavailable, PermissionDenied

__all__ = ["Database", "DatabaseFacts", "DatabaseTarget", "Embedded", "External", "Transaction"]

_QUERIES = load_queries("codebase_mcp.database", "connection.sql")
_OLDEST_SERVER = 150000
_OLDEST_VECTOR = (0, 8)
_EMBEDDED_CONNECTIONS = 10
_CONNECT_TIMEOUT_S = 5
_PREPARE_AFTER = 5


@dataclass(frozen=True, slots=True)
class External:
    """A PostgreSQL that somebody else runs.

    At most ``pool_size + overflow`` connections are open at once. ``?pgbouncer=true`` in the URL
    says that a pooler in transaction mode stands between: no prepared statements then, and
    ``direct_url`` leads past it for the one thing that needs a session.
    """

    url: str = field(repr=False)
    pool_size: int = 20
    overflow: int = 10
    direct_url: str | None = field(default=None, repr=False)


DatabaseTarget = Embedded | External


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """What ``doctor`` and health report.

    ``data_dir`` is where the embedded server's data really is; ``moved`` says that this is not the
    folder asked for, as the server's user cannot reach that; ``runs_as`` is that user.
    """

    server_version: str
    vector_version: str
    embedded: bool
    data_dir: Path | None = None
    moved: bool = False
    runs_as: str | None = None
    log_file: Path | None = None


class Database:
    """One database, opened lazily: the first transaction connects, and starts what must run."""

    catalogue_schema = "codebase_mcp"

    def __init__(self, target: DatabaseTarget) -> None:
        self._target = target
        self._server = EmbeddedServer(target) if isinstance(target, Embedded) else None
        self._conninfo: str | None = None
        self._prepare_after: int | None = _PREPARE_AFTER
        size = _EMBEDDED_CONNECTIONS
        if isinstance(target, External):
            size = target.pool_size + target.overflow
            self._conninfo, is_pooled = read_url(target.url)
            if is_pooled:
                self._prepare_after = None
        self._pool = Pool(self._connect, size=size)
        self._joining = asyncio.Lock()
        self._vector: tuple[str, str] | None = None
        self._inspecting = asyncio.Lock()
        self._migrated: set[str] = set()
        self._migrating: dict[str, asyncio.Lock] = {}

    @classmethod
    async def open(cls, target: DatabaseTarget) -> Database:
        """A database that will connect when it is first used."""
        return cls(target)

    async def close(self) -> None:
        """Close all connections and let the embedded server go."""
        await self._pool.close()
        if self._server is not None:
            self._server.leave()

    def transaction(
        self, project: Project, *, readonly: bool = False
    ) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in a project's schema, committed at the end of the block."""
        return self._transaction("project", project.schema_name, readonly=readonly)

    def catalogue(self, *, readonly: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in the catalogue, committed at the end of the block."""
        return self._transaction("catalogue", self.catalogue_schema, readonly=readonly)

    @asynccontextmanager
    async def session_lock(self, project: Project, key: str, *, wait: bool) -> AsyncIterator[bool]:
        """Hold a lock for as long as the block runs, over many transactions; was it to be had?

        It belongs to a connection of its own, so it falls with the process that holds it.
        """
        with translated(self._hint):
            connection = await self._connect(is_direct=True)
        try:
            with translated(self._hint):
                await connection.execute(_QUERIES["keep_session"])
                query = _QUERIES["session_lock" if wait else "try_session_lock"]
                params = {"key": lock_key(project.schema_name, key)}
                row = await (await connection.execute(query, params)).fetchone()
            yield wait or (row is not None and bool(row[0]))
        finally:
            await connection.close()

    async def check(self) -> DatabaseFacts:
        """Connect, and say what there is.

        Raises:
            DatabaseUnavailable: it is away, too old, or without pgvector.
        """
        _, vector_version = await self._find_vector()
        async with committed(self._plain_transaction("pg_catalog")) as transaction:
            row = await transaction.fetch_one("SHOW server_version")
        assert row is not None
        version = str(row[0]).split(" ", maxsplit=1)[0]
        if self._server is None:
            return DatabaseFacts(version, vector_version, embedded=False)
        placement = self._server.placement
        return DatabaseFacts(
            version,
            vector_version,
            embedded=True,
            data_dir=placement.home,
            moved=placement.moved,
            runs_as=placement.account.name,
            log_file=self._server.log_file,
        )

    async def migrate(self, scope: Scope, schema: str) -> int:
        """Bring a schema up to date now; how many migrations that took."""
        async with self._migrating.setdefault(schema, asyncio.Lock()):
            return await self._migrate(scope, schema)

    def forget(self, schema: str) -> None:
        """A schema was dropped; look again before it is used."""
        self._migrated.discard(schema)

    @asynccontextmanager
    async def _transaction(
        self, scope: Scope, schema: str, *, readonly: bool
    ) -> AsyncIterator[Transaction]:
        if schema not in self._migrated:
            async with self._migrating.setdefault(schema, asyncio.Lock()):
                if schema not in self._migrated:
                    await self._migrate(scope, schema)
        vector_schema, _ = await self._find_vector()
        transaction = self._plain_transaction(schema, vector_schema, readonly=readonly)
        async with committed(transaction):
            yield transaction

    async def _migrate(self, scope: Scope, schema: str) -> int:
        vector_schema, _ = await self._find_vector()
        async with committed(self._plain_transaction(schema, vector_schema)) as transaction:
            count = await migrate(transaction, scope, schema)
        self._migrated.add(schema)
        return count

    def _plain_transaction(
        self, schema: str, vector_schema: str = "public", *, readonly: bool = False
    ) -> Transaction:
        quoted = [sql.Identifier(name).as_string(None) for name in (schema, vector_schema)]
        return Transaction(
            self._pool,
            schema=schema,
            search_path=", ".join(quoted),
            readonly=readonly,
            hint=self._hint,
        )

    async def _find_vector(self) -> tuple[str, str]:
        """Schema and version of pgvector, installed into the database if the role may do so."""
        if self._vector is None:
            async with self._inspecting:
                if self._vector is None:
                    self._vector = await self._inspect_vector()
        return self._vector

    async def _inspect_vector(self) -> tuple[str, str]:
        async with committed(self._plain_transaction("pg_catalog")) as transaction:
            row = await transaction.fetch_one(_QUERIES["find_vector"])
            assert row is not None
            schema, version, available = row
            if version is None and available is not None and is_recent(available):
                await transaction.lock("vector")
                await self._create_vector(transaction)
                row = await transaction.fetch_one(_QUERIES["find_vector"])
                assert row is not None
                schema, version, available = row
        if version is None and available is None:
            raise DatabaseUnavailable(
                "PostgreSQL database unavailable: the server has no pgvector",
                hint="Install pgvector 0.8 or later on the server, or unset DATABASE_URL to use"
                " the embedded one.",
            )
        if version is None or not is_recent(version):
            raise DatabaseUnavailable(
                "PostgreSQL database unavailable: pgvector 0.8 or later is needed,"
                f" the server has {version or available}",
                hint="Upgrade pgvector, then ask an administrator to run"
                " ALTER EXTENSION vector UPDATE in this database.",
            )
        return schema, version

    async def _create_vector(self, transaction: Transaction) -> None:
        try:
            await transaction.execute(_QUERIES["create_vector"])
        except PermissionDenied as error:
            raise DatabaseUnavailable(
                "PostgreSQL database unavailable: pgvector is not enabled in this database",
                hint="Ask an administrator to run CREATE EXTENSION vector in it.",
            ) from error

    async def _connect(self, *, is_direct: bool = False) -> Connection:
        """A new connection; an embedded server that has gone is started again, once."""
        if self._server is None:
            direct_url = self._target.direct_url if isinstance(self._target, External) else None
            conninfo = read_url(direct_url)[0] if is_direct and direct_url else self._conninfo
            assert conninfo is not None
            return await self._connect_to(conninfo)
        conninfo = await self._join(None)
        try:
            return await self._connect_to(conninfo)
        except psycopg.OperationalError:
            return await self._connect_to(await self._join(conninfo))

    async def _join(self, failed: str | None) -> str:
        """How to reach the embedded server, once per start: ``failed`` is what no longer worked."""
        assert self._server is not None
        async with self._joining:
            if self._conninfo is None or failed is not None:
                self._conninfo = await asyncio.to_thread(self._server.join)
            return self._conninfo

    async def _connect_to(self, conninfo: str) -> Connection:
        connection = await psycopg.AsyncConnection.connect(
            make_conninfo(conninfo, fallback_application_name="codebase-mcp"),
            autocommit=True,
            prepare_threshold=self._prepare_after,
            connect_timeout=conninfo_to_dict(conninfo).get("connect_timeout", _CONNECT_TIMEOUT_S),
        )
        try:
            require_recent_server(connection.info.server_version)
        except DatabaseUnavailable:
            await connection.close()
            raise
        return connection

    @property
    def _hint(self) -> str:
        if self._server is not None:
            return f"The embedded server's log is {self._server.log_file}."
        return "Check DATABASE_URL, and that the server it names is running."


def read_url(url: str) -> tuple[str, bool]:
    """A URL as libpq takes it, and whether it says that a pooler stands between.

    ``postgresql+asyncpg://`` and its like, as other programs write it, mean the same server.

    Raises:
        DatabaseUnavailable: it is no URL of a PostgreSQL; it is not repeated, as it may hold a
            password.
    """
    address, mark, query = url.partition("?")
    address = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", address)
    options = query.split("&") if mark else []
    flags = [option for option in options if option.partition("=")[0] == "pgbouncer"]
    kept = [option for option in options if option not in flags]
    conninfo = address + ("?" + "&".join(kept) if kept else "")
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise DatabaseUnavailable(
            "PostgreSQL database unavailable: DATABASE_URL is not understood",
            hint="It looks like postgresql://user:password@host:5432/database.",
        ) from None
    return conninfo, any(flag.partition("=")[2] not in ("false", "0", "no") for flag in flags)


def require_recent_server(version_number: int) -> None:
    """Refuse a server that is too old; the number is libpq's, 150004 for 15.4."""
    if version_number < _OLDEST_SERVER:
        raise DatabaseUnavailable(
            "PostgreSQL database unavailable: version 15 or later is needed,"
            f" it is {version_number // 10000}",
            hint="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )


def is_recent(vector_version: str) -> bool:
    """Is this version of pgvector one that we can work with?"""
    return tuple(int(part) for part in vector_version.split(".")[:2]) >= _OLDEST_VECTOR
