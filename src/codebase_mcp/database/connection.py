"""Access to PostgreSQL: the embedded server, or the server that a URL names.

``Database`` hides which of the two it is, where projects are, and when a schema has to be
migrated. No session setting outlives a transaction, so a pooler in transaction mode works; only
locks that outlive a transaction need a session of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from codebase_mcp.database.faults import Advice, translated
from codebase_mcp.database.locks import HeldLocks, ProjectTryLocks, SessionLocks
from codebase_mcp.database.migrate import (
    ProjectRole,
    Scope,
    find_role,
    find_roles,
    make_role,
    migrate,
)
from codebase_mcp.database.naming import Project, schema_of
from codebase_mcp.database.pool import (
    Connection,
    External,
    ExternalServer,
    Pool,
    PoolFacts,
    open_connection,
)
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.database.standby import ADVICE, Lease, Position, Standby
from codebase_mcp.database.transaction import Transaction, committed, lock_key
from codebase_mcp.errors import DatabaseUnavailable, InternalError, PermissionDenied

__all__ = [
    "Database",
    "DatabaseFacts",
    "DatabaseTarget",
    "Embedded",
    "External",
    "HeldLocks",
    "PoolFacts",
    "ProjectTryLocks",
    "Transaction",
]

_log = logging.getLogger(__name__)
_QUERIES = load_queries("codebase_mcp.database", "connection.sql")
_OLDEST_VECTOR = (0, 8)
_EMBEDDED_CONNECTIONS = 10
_PREPARE_AFTER = 5

# Longer than with the embedded server, as remote connections cost more; but idle programs must not
# use up a shared server's connections.
_KEEP_EXTERNAL_S = 600.0

DatabaseTarget = Embedded | External


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """The facts that ``doctor`` and health report.

    ``data_dir`` is where the embedded server's data is; ``moved`` says that this is not the
    configured folder, as the server's user cannot reach that; ``runs_as`` is that user.
    """

    server_version: str
    vector_version: str
    embedded: bool
    data_dir: Path | None = None
    moved: bool = False
    runs_as: str | None = None
    log_file: Path | None = None


class Database:
    """A database, opened lazily: the first transaction connects, and starts the server."""

    catalogue_schema = "codebase_mcp"

    def __init__(self, target: DatabaseTarget) -> None:
        self._target = target
        self._standby: Standby | None = None
        self._server = EmbeddedServer(target) if isinstance(target, Embedded) else None
        self._conninfo: str | None = None
        if isinstance(target, External):
            external = ExternalServer(target)
            self._connect_directly = external.connect_directly
            self._pool = Pool(
                external.connect,
                size=target.pool_size,
                overflow=target.overflow,
                keep_s=_KEEP_EXTERNAL_S,
                busy_hint="Try again, or raise DB_POOL_SIZE or DB_MAX_OVERFLOW.",
            )
            if target.read_url is not None:
                self._standby = Standby(target.read_url, target, self._position, _KEEP_EXTERNAL_S)
        else:
            self._connect_directly = self._connect_embedded
            self._pool = Pool(self._connect_embedded, size=_EMBEDDED_CONNECTIONS)
        self._locks = SessionLocks(self._connect_directly)
        self._joining = asyncio.Lock()
        self._vector: tuple[str, str] | None = None
        self._inspecting = asyncio.Lock()
        self._migrated: set[str] = set()
        self._has_roles = target.project_roles
        self._roles: dict[str, str] = {}
        self._migrating: dict[str, asyncio.Lock] = {}
        self.search_limit_s: float | None = None

    @classmethod
    async def open(cls, target: DatabaseTarget) -> Database:
        """A database that connects on first use."""
        return cls(target)

    async def close(self) -> None:
        """Close all connections and release the embedded server."""
        if self._standby is not None:
            await self._standby.close()
        await self._pool.close()
        if self._server is not None:
            # A cancelled call may have left a thread that is still starting the server.
            await asyncio.to_thread(self._server.leave)

    def transaction(
        self, project: Project, *, readonly: bool = False
    ) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in a project's schema, as its role, committed at the end of the block."""
        return self._transaction("project", project.schema_name, readonly=readonly)

    def bounded_read(self, project: Project) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that only reads, with the time limit of searches for each statement.

        It may run on a standby, in blocks that allow it (`may_use_standby`).

        Raises:
            TimeLimitExceeded: by every statement.
            StandbyLost: by every statement, if the block allows a standby.
        """
        return self._transaction("project", project.schema_name, readonly=True, is_bounded=True)

    def catalogue(self, *, readonly: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in the catalogue, committed at the end of the block."""
        return self._transaction("catalogue", self.catalogue_schema, readonly=readonly)

    def session_locks(
        self, project: Project, keys: Sequence[str]
    ) -> AbstractAsyncContextManager[HeldLocks]:
        """Wait for these locks, and hold them while the block runs, over many transactions.

        They have a connection of their own, so they are released when the process ends.
        """
        numbers = [lock_key(project.schema_name, key) for key in keys]
        return self._locks.hold(numbers, self._advice)

    @asynccontextmanager
    async def own_session(self) -> AsyncIterator[Connection]:
        """A separate session that bypasses a pooler; for the modules of this package.

        Raises:
            DatabaseUnavailable: it is unavailable, or only reachable through a pooler.
        """
        with translated(self._advice):
            connection = await self._connect_directly()
            try:
                yield connection
            finally:
                await connection.close()

    @asynccontextmanager
    async def try_locks(self) -> AsyncIterator[ProjectTryLocks]:
        """Locks of any projects that are tried without waiting; released when the block ends."""
        locks = ProjectTryLocks(self._connect_directly, self._advice)
        try:
            yield locks
        finally:
            await locks.close()

    def pool_facts(self) -> PoolFacts:
        """How many connections of the pool are in use and idle, and how many callers wait."""
        return self._pool.facts()

    async def describe_standby(self) -> str | None:
        """Why searches do not use the standby; empty if they do, None if there is no standby."""
        if self._standby is None:
            return None
        fault = await self._standby.fault()
        return f"the standby of DATABASE_READ_URL {fault}" if fault else ""

    async def describe_roles(self) -> str:
        """Whether projects have database roles of their own, in words."""
        if not self._has_roles:
            return "no role per project, as CODEBASE_MCP_PROJECT_ROLES is off"
        async with self.catalogue(readonly=True) as transaction:
            schema = schema_of(None)
            return (await find_role(transaction, schema, await self.vector_schema())).in_words()

    async def without_role(self, schemas: Sequence[str]) -> set[str]:
        """The schemas of projects whose role is missing or incomplete, and can be made."""
        if not self._has_roles:
            return set()
        vector_schema = await self.vector_schema()
        async with self.catalogue(readonly=True) as transaction:
            roles = await find_roles(transaction, schemas, vector_schema)
        return {role.schema for role in roles if role.is_worth_making}

    async def vacuum(self, project: Project, tables: Iterable[str]) -> None:
        """Remove deleted rows from the pages of some tables; searches continue meanwhile."""
        names = [sql.Identifier(project.schema_name, table) for table in tables]
        statement = sql.SQL("VACUUM {}").format(sql.SQL(", ").join(names))
        with translated(self._advice):
            connection, _ = await self._pool.acquire()
            try:
                await connection.execute(statement)
            finally:
                await self._pool.release(connection)

    async def require_room(self) -> None:
        """Make sure that there is room to add to the database.

        Raises:
            DatabaseUnavailable: the disk of the embedded server is nearly full.
        """
        if self._server is not None:
            await asyncio.to_thread(self._server.require_room)

    async def make_room(self) -> None:
        """Prepare to delete: on a disk that is nearly full the embedded server starts anew."""
        if self._server is not None:
            await asyncio.to_thread(self._server.make_room)

    async def check(self) -> DatabaseFacts:
        """Connect, and report versions and folders.

        Raises:
            DatabaseUnavailable: it is unavailable, too old, or without pgvector.
        """
        _, vector_version = await self._find_vector()
        async with committed(self._bare("pg_catalog")) as transaction:
            [[server_version]] = await transaction.fetch_all("SHOW server_version")
        version = server_version.split(" ", maxsplit=1)[0]
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

    @asynccontextmanager
    async def unmigrated(
        self, schema: str, *, readonly: bool = False
    ) -> AsyncIterator[Transaction]:
        """A transaction in a schema that need not be up to date, nor exist."""
        vector_schema = "public" if readonly else await self.vector_schema()
        async with committed(self._bare(schema, vector_schema, readonly=readonly)) as transaction:
            yield transaction

    async def vector_schema(self) -> str:
        """Where pgvector is."""
        return (await self._find_vector())[0]

    async def migrate(self, scope: Scope, schema: str) -> int:
        """Bring a schema up to date now; returns the number of migrations applied."""
        async with self._migrating.setdefault(schema, asyncio.Lock()):
            return await self._migrate(scope, schema)

    def forget(self, schema: str) -> None:
        """Forget that a schema is up to date, as it was dropped."""
        self._migrated.discard(schema)
        self._roles.pop(schema, None)

    @asynccontextmanager
    async def _transaction(
        self, scope: Scope, schema: str, *, readonly: bool, is_bounded: bool = False
    ) -> AsyncIterator[Transaction]:
        if schema not in self._migrated:
            async with self._migrating.setdefault(schema, asyncio.Lock()):
                if schema not in self._migrated:
                    await self._migrate(scope, schema)
        vector_schema, _ = await self._find_vector()
        role = self._roles.get(schema)
        async with AsyncExitStack() as stack:
            lease = None
            if is_bounded and self._standby is not None:
                lease = await self._standby.lease()
            if lease is not None:
                stack.push_async_callback(lease.end)
            transaction = self._bare(
                schema,
                vector_schema,
                readonly=readonly,
                role=role,
                limit_s=self.search_limit_s if is_bounded else None,
                lease=lease,
            )
            yield await stack.enter_async_context(committed(transaction))

    async def _migrate(self, scope: Scope, schema: str) -> int:
        vector_schema, _ = await self._find_vector()
        async with committed(self._bare(schema, vector_schema)) as transaction:
            count = await migrate(transaction, scope, schema)
            role = None
            if scope == "project" and self._has_roles:
                role = await find_role(transaction, schema, vector_schema)
        if role is not None:
            await self._use_role(role)
        self._migrated.add(schema)
        return count

    async def _use_role(self, role: ProjectRole) -> None:
        """Run transactions as this role, made or completed if that is needed and allowed."""
        if role.is_worth_making:
            try:
                async with committed(self._bare(role.schema, role.vector_schema)) as transaction:
                    role = await make_role(transaction, role.schema, role.vector_schema)
            except (PermissionDenied, InternalError) as error:
                _log.warning("%s has no role of its own: %s", role.schema, error.message)
        if role.is_usable:
            self._roles[role.schema] = role.name

    def _bare(
        self,
        schema: str,
        vector_schema: str = "public",
        *,
        readonly: bool = False,
        role: str | None = None,
        limit_s: float | None = None,
        lease: Lease | None = None,
    ) -> Transaction:
        quoted = [sql.Identifier(name).as_string(None) for name in (schema, vector_schema)]
        return Transaction(
            lease or self._pool,
            schema=schema,
            search_path=", ".join(quoted),
            readonly=readonly,
            advice=ADVICE if lease else self._advice,
            role=role,
            limit_s=limit_s,
        )

    async def _find_vector(self) -> tuple[str, str]:
        """Schema and version of pgvector, installed into the database if the role may do so."""
        if self._vector is None:
            async with self._inspecting:
                if self._vector is None:
                    self._vector = await self._inspect_vector()
        return self._vector

    async def _inspect_vector(self) -> tuple[str, str]:
        async with committed(self._bare("pg_catalog")) as transaction:
            [(schema, version, available)] = await transaction.fetch_all(_QUERIES["find_vector"])
            if version is None and available is not None and is_recent(available):
                await transaction.lock("vector")
                await self._create_vector(transaction)
                [(schema, version, _)] = await transaction.fetch_all(_QUERIES["find_vector"])
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

    async def _position(self) -> Position:
        """Where the primary is."""
        with translated(self._advice):
            connection, _ = await self._pool.acquire()
            try:
                return await Position.read(connection)
            finally:
                await self._pool.release(connection)

    async def _connect_embedded(self) -> Connection:
        """A new connection; a server that has stopped is started again, once."""
        conninfo = await self._join(None)
        try:
            return await open_connection(conninfo, prepare_after=_PREPARE_AFTER)
        except psycopg.OperationalError:
            conninfo = await self._join(conninfo)
            return await open_connection(conninfo, prepare_after=_PREPARE_AFTER)

    async def _join(self, failed: str | None) -> str:
        """The conninfo of the embedded server; ``failed`` no longer works."""
        assert self._server is not None
        async with self._joining:
            if self._conninfo is None or failed is not None:
                self._conninfo = await asyncio.to_thread(self._server.join)
            return self._conninfo

    @property
    def _advice(self) -> Advice:
        if self._server is not None:
            return Advice(
                unavailable=f"The embedded server's log is {self._server.log_file}.",
                data_dir=self._server.placement.home,
            )
        return Advice(
            unavailable="Check DATABASE_URL, that the server it names is running and has"
            " connections left; the log holds its answer."
        )


def is_recent(vector_version: str) -> bool:
    """Whether this version of pgvector is supported."""
    return tuple(int(part) for part in vector_version.split(".")[:2]) >= _OLDEST_VECTOR
