"""How is a project restored from a backup?

The rows are loaded into a separate schema of the version that the backup has. That schema is then
migrated and replaces the project's, all in a single transaction. So a project is restored as a
whole or not at all, and the existing project can be used until the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import BinaryIO, LiteralString
from uuid import UUID, uuid4

from psycopg import sql

from codebase_mcp.database.backup import (
    ArchiveReader,
    BackupFacts,
    TableShape,
    copy_statement,
    tables_of,
)
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.migrate import (
    join_cluster,
    known_migrations,
    migrate,
    pending,
    renew_grants,
    with_names,
)
from codebase_mcp.database.naming import Project, index_lock, schema_of
from codebase_mcp.database.projects import canonical, may_not_create, read
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import Conflict, DatabaseUnavailable, InternalError, PermissionDenied

_SQL = load_queries("codebase_mcp.database", "backup.sql")

IdentifyRepository = Callable[[str, str], UUID]
"""The id of the repository at a root, in the project with a schema."""


async def restore_backup(
    db: Database,
    file: BinaryIO,
    name: str,
    identify: IdentifyRepository,
    *,
    project_id: str | None = None,
    replace: bool = False,
) -> BackupFacts:
    """Restore a project under its own or a new id; ``name`` is the file's name in errors.

    Raises:
        InvalidInput: the file is not a backup, is damaged, or was made by a newer program.
        Conflict: the project exists and is not empty, and ``replace`` is not set.
        PermissionDenied: the database role may not create a schema.
    """
    reader = await asyncio.to_thread(ArchiveReader, file, name)
    manifest = reader.manifest
    _check_history(reader)
    target = canonical(manifest.project_id if project_id is None else project_id)
    schema = schema_of(target)
    async with AsyncExitStack() as stack:
        existing, repositories = await _existing(db, target, replace=replace)
        if existing is not None:
            locks = [index_lock(repository) for repository in repositories]
            await stack.enter_async_context(db.session_locks(existing, locks))
        try:
            tx = await stack.enter_async_context(db.unmigrated(schema))
            loading = _Loading(tx, reader, f"restore_{uuid4().hex}", await db.vector_schema())
            await tx.lock("migrate")  # so that no process creates or migrates the project meanwhile
            facts = await loading.load()
            await loading.replace_schema(schema, replace=replace)
            await loading.rename_repositories(schema, identify)
            await renew_grants(tx, schema, await db.vector_schema())
            await join_cluster(tx, schema)
            await loading.enter(db.catalogue_schema, target)
        except PermissionDenied as error:
            raise may_not_create(target) from error
    db.forget(schema)
    async with db.catalogue(readonly=True) as tx:
        restored = await read(tx, schema)
    assert restored is not None
    return BackupFacts(restored, *facts)


class _Loading:
    """A schema that is being filled from a backup."""

    def __init__(
        self, tx: Transaction, reader: ArchiveReader, schema: str, vector_schema: str
    ) -> None:
        self.tx = tx
        self._reader = reader
        self._schema = schema
        self._vector_schema = vector_schema

    async def load(self) -> tuple[int, int]:
        """Load the rows into the schema and migrate it; returns the number of rows and bytes."""
        manifest = self._reader.manifest
        await self.set_search_path(self._schema)
        await migrate(self.tx, "project", self._schema, version=len(manifest.migrations))
        expected = {t.name: set(t.columns) for t in await tables_of(self.tx, self._schema)}
        if {t.name: set(t.columns) for t in manifest.tables} != expected:
            raise self._reader.refused("its tables do not match its version")
        rows = {table.name: await self._fill(table) for table in manifest.tables}
        size = await asyncio.to_thread(self._reader.check_end, rows)
        await self._continue_sequences()
        latest = len(known_migrations("project"))
        await migrate(self.tx, "project", self._schema, version=latest)
        await self.tx.fetch_all(_SQL["flush_word_indexes"], schema=self._schema)
        names = [table.name for table in await tables_of(self.tx, self._schema)]
        await self.tx.run_script(with_names("ANALYZE {}", names))
        return sum(rows.values()), size

    async def replace_schema(self, schema: str, *, replace: bool) -> None:
        """Replace the schema of the project when the transaction commits."""
        old = await tables_of(self.tx, schema)
        if old:
            await self.set_search_path(schema)
            names = [table.name for table in old]
            await self.tx.run_script(with_names("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", names))
            if not replace and await _has_rows(self.tx, names):
                raise _not_empty(schema)
        await self.tx.run_script(with_names("DROP SCHEMA IF EXISTS {} CASCADE", schema))
        rename = with_names("ALTER SCHEMA {} RENAME TO {}", self._schema, schema)
        await self.tx.run_script(rename)
        await self.set_search_path(schema)

    async def rename_repositories(self, schema: str, identify: IdentifyRepository) -> None:
        """A repository's id depends on project and root: assign the ids for this project."""
        repositories = await self.tx.fetch_all(_SQL["repositories"])
        tables = [row[0] for row in await self.tx.fetch_all(_SQL["with_repository"], schema=schema)]
        renamed = {old: identify(schema, root) for old, root in repositories}
        await self.tx.fetch_all(_renaming(tables), was=list(renamed), is_now=list(renamed.values()))

    async def enter(self, catalogue: str, project_id: str | None) -> None:
        """Enter the project into the catalogue."""
        manifest = self._reader.manifest
        await self.set_search_path(catalogue)
        await self.tx.fetch_all(
            _SQL["enter_project"],
            project_id=project_id,
            schema_name=schema_of(project_id),
            name=manifest.name,
            description=manifest.description,
            created_at=manifest.project_created_at,
        )

    async def set_search_path(self, schema: str) -> None:
        """Set the search path to this schema."""
        await self.tx.fetch_all(
            _SQL["set_search_path"], schema=schema, vector_schema=self._vector_schema
        )

    async def _fill(self, table: TableShape) -> int:
        try:
            return await self.tx.copy(copy_statement(table, "FROM STDIN"), self._pieces(table.name))
        except (InternalError, Conflict) as error:  # rows that PostgreSQL does not take
            raise self._reader.refused("the backup is damaged or incomplete") from error

    async def _pieces(self, table: str) -> AsyncIterator[bytes]:
        pieces = self._reader.pieces(table)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece

    async def _continue_sequences(self) -> None:
        """Set identity sequences to continue after the highest restored value."""
        for table, column in await self.tx.fetch_all(_SQL["identities"], schema=self._schema):
            statement = sql.SQL(
                "SELECT setval(pg_get_serial_sequence({}, {}), max({})) FROM {}"
            ).format(
                sql.Literal(f'"{table}"'),
                sql.Literal(column),
                sql.Identifier(column),
                sql.Identifier(table),
            )
            await self.tx.fetch_all(statement.as_string(None))


def _check_history(reader: ArchiveReader) -> None:
    """Refuse a backup of a newer schema version."""
    migrations, applied = known_migrations("project"), reader.manifest.migrations
    if len(applied) > len(migrations):
        raise reader.too_new(reader.manifest.program_version)
    try:
        pending(migrations, applied)
    except DatabaseUnavailable as error:
        raise reader.refused("its schema was made by a different text of a migration") from error


async def _existing(
    db: Database, project_id: str | None, *, replace: bool
) -> tuple[Project | None, list[UUID]]:
    """The existing project that has the target's schema, and its repositories.

    Raises:
        Conflict: it has another id, or is not empty and must not be replaced.
    """
    schema = schema_of(project_id)
    async with db.catalogue() as tx:
        existing = await read(tx, schema)
    if existing is None:
        return None, []
    if existing.project_id != project_id:
        raise Conflict(
            f"Project identifier {project_id} is taken: another project has the same schema",
            hint="Restore under another id with --project.",
            details={"project_id": project_id, "schema_name": schema},
        )
    async with db.transaction(existing, readonly=True) as tx:
        tables = [table.name for table in await tables_of(tx, schema)]
        if not replace and await _has_rows(tx, tables):
            raise _not_empty(schema)
        return existing, [row[0] for row in await tx.fetch_all(_SQL["repositories"])]


async def _has_rows(tx: Transaction, tables: Sequence[str]) -> bool:
    has_rows = " OR ".join(["EXISTS (SELECT FROM {})"] * len(tables))
    row = await tx.fetch_one(with_names("SELECT " + has_rows, *tables))
    return row is not None and bool(row[0])


def _not_empty(schema: str) -> Conflict:
    return Conflict(
        "The project to restore into is not empty",
        hint="Restore under another id with --project, or replace everything in it with --replace.",
        details={"schema_name": schema},
    )


def _renaming(tables: Sequence[str]) -> LiteralString:
    """A single statement for ids and references, as constraints are checked at its end."""
    pairs = "SELECT * FROM unnest(%(was)s::uuid[], %(is_now)s::uuid[])"
    change = "SET repository_id = is_now FROM renamed WHERE repository_id = was"
    updates = [
        with_names("{} AS (UPDATE {} " + change + ")", f"of_{table}", table) for table in tables
    ]
    parts = ", ".join([f"WITH renamed (was, is_now) AS ({pairs})", *updates])
    update = "UPDATE repository SET id = is_now FROM renamed WHERE id = was RETURNING id"
    return f"{parts} {update}"
