"""Is this schema what the program expects, and if not, how is it migrated? Who may use it?

Migrations are numbered SQL files, forward only. Each schema has its own ledger, so a project is
migrated on its first use. Checking a schema that is up to date only reads: it needs no lock and no
privilege to create anything.

The transactions of a project run as a database role that may only use the schema of this project.
So PostgreSQL refuses a statement that names tables of a different project, by a mistake of ours.
Schemas are made, migrated and dropped as the role of the connection. Where that role may not make
roles, it does everything.

On a Citus coordinator each project becomes a tenant, which may be on any node of the cluster. That
comes last, as Citus supports few of the statements that change the tables of a tenant. So
migrations that alter tables are written for it: a change per statement, none of storage.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, LiteralString

from psycopg import sql

from codebase_mcp.database.queries import load_queries, strip_comments
from codebase_mcp.database.transaction import Transaction
from codebase_mcp.errors import Conflict, DatabaseUnavailable, PermissionDenied

Scope = Literal["catalogue", "project"]

_SQL = load_queries("codebase_mcp.database", "migrate.sql")
_ROLES = load_queries("codebase_mcp.database", "roles.sql")

READ_LEDGER = _SQL["read_ledger"]

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_STATEMENT_END = re.compile(r";\s*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered file; the checksum is over its text with LF line ends."""

    version: int
    name: str
    script: LiteralString
    checksum: str


@cache
def known_migrations(scope: Scope) -> tuple[Migration, ...]:
    """The migrations of this program for a kind of schema, numbered from 1 without a gap."""
    migrations = []
    for file in files("codebase_mcp.database").joinpath("migrations", scope).iterdir():
        match = _FILE_NAME.fullmatch(file.name)
        if match:
            text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
            checksum = hashlib.sha256(text.encode()).hexdigest()
            migrations.append(Migration(int(match[1]), match[2], text, checksum))
    migrations.sort(key=lambda migration: migration.version)
    if [migration.version for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"the migrations of {scope} are not numbered from 1 without a gap")
    return tuple(migrations)


async def migrate(
    transaction: Transaction, scope: Scope, schema: str, *, version: int | None = None
) -> int:
    """Migrate a schema, creating it if needed; returns the number of migrations applied.

    With ``version`` it stops at that version, and the schema does not become a tenant yet.

    Raises:
        DatabaseUnavailable: the schema is newer than this program, or has a different history.
        Conflict: the schema holds another program's tables.
        PermissionDenied: the role may not create the schema, or not use it.
    """
    migrations = known_migrations(scope)[:version]
    if not pending(migrations, await read_ledger(transaction, schema)):
        return 0
    await transaction.lock("migrate")
    if await transaction.fetch_one(_SQL["find_schema"], schema=schema) is None:
        await transaction.run_script(with_names("CREATE SCHEMA {}", schema))
    if await transaction.fetch_one(_SQL["find_ledger"], schema=schema) is None:
        if await transaction.fetch_one(_SQL["find_relation"], schema=schema) is not None:
            raise Conflict(
                f"The schema {schema} holds tables that this program did not make",
                hint="Earlier versions of codebase-mcp used the same schema names: set DATABASE_URL"
                " to another database, or choose another project_id.",
                details={"schema_name": schema},
            )
        await transaction.run_script(_SQL["create_ledger"])
    applied = await read_ledger(transaction, schema)
    to_do = pending(migrations, applied)
    is_tenant = scope == "project" and bool(applied) and await _is_on_cluster(transaction)
    for migration in to_do:
        for script in statements_of(migration.script) if is_tenant else [migration.script]:
            await transaction.run_script(script)
        await transaction.execute(
            _SQL["add_to_ledger"],
            version=migration.version,
            name=migration.name,
            checksum=migration.checksum,
        )
    if scope == "project" and version is None and not is_tenant:
        await join_cluster(transaction, schema)
    return len(to_do)


async def join_cluster(transaction: Transaction, schema: str) -> None:
    """On a Citus coordinator, distribute this schema with its rows."""
    if await _is_on_cluster(transaction):
        await transaction.fetch_all(_SQL["distribute_schema"], schema=schema)


async def _is_on_cluster(transaction: Transaction) -> bool:
    return await transaction.fetch_one(_SQL["find_cluster"]) is not None


def statements_of(script: LiteralString) -> list[LiteralString]:
    """The statements of a migration: each ends with a semicolon at the end of a line."""
    return [part for part in _STATEMENT_END.split(strip_comments(script)) if part.strip()]


async def read_ledger(transaction: Transaction, schema: str) -> list[tuple[int, str]]:
    """Version and checksum of each migration applied to a schema; empty if it does not exist.

    Raises:
        PermissionDenied: the role may not use the schema.
    """
    row = await transaction.fetch_one(_SQL["find_ledger"], schema=schema)
    if row is None:
        return []
    if not row[0]:
        raise PermissionDenied(
            f"The database role may not use the schema {schema}",
            hint="Connect as the role that created it, or let that role grant its privileges.",
            details={"schema_name": schema},
        )
    return [(row[0], row[1]) for row in await transaction.fetch_all(READ_LEDGER)]


def pending(
    migrations: Sequence[Migration], applied: Sequence[tuple[int, str]]
) -> Sequence[Migration]:
    """The migrations still to apply, in order, given those in the ledger (version, checksum).

    Raises:
        DatabaseUnavailable: the ledger has migrations that this program lacks.
    """
    if len(applied) > len(migrations):
        raise DatabaseUnavailable(
            "This program is older than the database:"
            f" it knows schema version {len(migrations)}, the database has {applied[-1][0]}",
            hint="Upgrade codebase-mcp.",
        )
    for migration, (version, checksum) in zip(migrations, applied, strict=False):
        if (migration.version, migration.checksum) != (version, checksum):
            raise DatabaseUnavailable(
                f"The database was made with a different text of migration"
                f" {migration.version:04d}_{migration.name}",
                hint="Use the version of codebase-mcp that made it, or start with a new database.",
            )
    return migrations[len(applied) :]


def with_names(statement: LiteralString, *names: str | Iterable[str]) -> LiteralString:
    """A statement with quoted names, or lists of names, in place of each ``{}``."""
    quoted = (
        sql.SQL(", ").join(map(sql.Identifier, [each] if isinstance(each, str) else each))
        for each in names
    )
    return sql.SQL(statement).format(*quoted).as_string(None)


@dataclass(frozen=True, slots=True)
class ProjectRole:
    """The role of a schema, and the rights of ours.

    ``may_set`` says that this session may run as it. On a Citus cluster it is not used, as the
    nodes would need it too.
    """

    name: str
    exists: bool
    may_set: bool
    has_grants: bool
    reaches_vectors: bool
    has_vector_grant: bool
    may_create: bool
    may_drop: bool
    is_on_cluster: bool
    our_role: str
    schema: str
    vector_schema: str

    @property
    def is_usable(self) -> bool:
        """Whether transactions can run as it."""
        is_whole = self.may_set and self.has_grants and self.reaches_vectors
        return is_whole and not self.is_on_cluster

    @property
    def is_worth_making(self) -> bool:
        """Whether it is missing or incomplete, and we may be able to change that."""
        can_be_made = (self.exists or self.may_create) and not self.is_on_cluster
        return can_be_made and not self.is_usable

    def in_words(self) -> str:
        """Whether projects have roles; if not, why, and the grant that allows it."""
        if self.is_on_cluster:
            return "no role per project, as this is a Citus cluster"
        if self.is_usable or self.may_create:
            return "a role per project"
        grant = sql.SQL("ALTER ROLE {} CREATEROLE").format(sql.Identifier(self.our_role))
        return f"no role per project; to allow it, run {grant.as_string(None)}"


async def find_role(tx: Transaction, schema: str, vector_schema: str) -> ProjectRole:
    """The role of a project's schema, as it is now."""
    [role] = await find_roles(tx, [schema], vector_schema)
    return role


async def find_roles(
    tx: Transaction, schemas: Sequence[str], vector_schema: str
) -> list[ProjectRole]:
    """The roles of some schemas, in any order."""
    rows = await tx.fetch_all(
        _ROLES["find_roles"], schemas=list(schemas), vector_schema=vector_schema
    )
    return [ProjectRole(*row) for row in rows]


async def make_role(tx: Transaction, schema: str, vector_schema: str) -> ProjectRole:
    """Make the role, or complete it, as far as our own role may.

    Raises:
        PermissionDenied: it may not; the transaction has failed.
    """
    await tx.lock("migrate")
    role = await find_role(tx, schema, vector_schema)
    if not role.exists:
        await _run_for_role(tx, "create", role)
        role = await find_role(tx, schema, vector_schema)
    if not role.may_set:
        await _run_for_role(tx, "join", role)
    if not role.has_grants:
        await _run_for_role(tx, "grant", role)
    if not role.reaches_vectors:
        await _run_for_role(tx, "grant_vectors", role)
    return await find_role(tx, schema, vector_schema)


async def renew_grants(tx: Transaction, schema: str, vector_schema: str) -> None:
    """Let an existing role use a schema that has replaced an earlier schema."""
    role = await find_role(tx, schema, vector_schema)
    if role.exists:
        await _run_for_role(tx, "grant", role)


async def drop_role(tx: Transaction, schema: str, vector_schema: str) -> None:
    """Drop the role of a schema that was dropped, if it exists and we may drop it."""
    role = await find_role(tx, schema, vector_schema)
    if role.exists and role.may_drop:
        if role.has_vector_grant:
            await _run_for_role(tx, "revoke_vectors", role)
        await _run_for_role(tx, "drop", role)


async def _run_for_role(tx: Transaction, statements: str, role: ProjectRole) -> None:
    script = sql.SQL(_ROLES[statements]).format(
        role=sql.Identifier(role.name),
        schema=sql.Identifier(role.schema),
        vector_schema=sql.Identifier(role.vector_schema),
    )
    await tx.run_script(script.as_string(None))
