"""Is this schema what the program expects, and if not, how is it migrated?

Migrations are numbered SQL files, forward only. Each schema has its own ledger, so a project is
migrated on its first use. Checking a schema that is up to date only
reads: it needs no lock and no privilege to create anything.

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
    queries = load_queries("codebase_mcp.database", "migrate.sql")
    if await transaction.fetch_one(queries["find_schema"], schema=schema) is None:
        await transaction.run_script(with_names("CREATE SCHEMA {}", schema))
    if await transaction.fetch_one(queries["find_ledger"], schema=schema) is None:
        if await transaction.fetch_one(queries["find_relation"], schema=schema) is not None:
            raise Conflict(
                f"The schema {schema} holds tables that this program did not make",
                hint="Earlier versions of codebase-mcp used the same schema names: set DATABASE_URL"
                " to another database, or choose another project_id.",
                details={"schema_name": schema},
            )
        await transaction.run_script(queries["create_ledger"])
    applied = await read_ledger(transaction, schema)
    to_do = pending(migrations, applied)
    is_tenant = scope == "project" and bool(applied) and await _is_on_cluster(transaction)
    for migration in to_do:
        for script in statements_of(migration.script) if is_tenant else [migration.script]:
            await transaction.run_script(script)
        await transaction.execute(
            queries["add_to_ledger"],
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
        queries = load_queries("codebase_mcp.database", "migrate.sql")
        await transaction.fetch_all(queries["distribute_schema"], schema=schema)


async def _is_on_cluster(transaction: Transaction) -> bool:
    queries = load_queries("codebase_mcp.database", "migrate.sql")
    return await transaction.fetch_one(queries["find_cluster"]) is not None


def statements_of(script: LiteralString) -> list[LiteralString]:
    """The statements of a migration: each ends with a semicolon at the end of a line."""
    return [part for part in _STATEMENT_END.split(strip_comments(script)) if part.strip()]


async def read_ledger(transaction: Transaction, schema: str) -> list[tuple[int, str]]:
    """Version and checksum of each migration applied to a schema; empty if it does not exist.

    Raises:
        PermissionDenied: the role may not use the schema.
    """
    queries = load_queries("codebase_mcp.database", "migrate.sql")
    row = await transaction.fetch_one(queries["find_ledger"], schema=schema)
    if row is None:
        return []
    if not row[0]:
        raise PermissionDenied(
            f"The database role may not use the schema {schema}",
            hint="Connect as the role that created it, or let that role grant its privileges.",
            details={"schema_name": schema},
        )
    return [(row[0], row[1]) for row in await transaction.fetch_all(queries["read_ledger"])]


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
