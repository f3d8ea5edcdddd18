"""How is a project written to a file?

A backup is a consistent snapshot: every table of the project's schema, read in one transaction that
blocks no writer. It needs no PostgreSQL programs and works across versions, as the binary COPY
format of the types that we use is the same in all of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from importlib.metadata import version
from typing import BinaryIO, LiteralString

from codebase_mcp.database.archive import ArchiveWriter, Manifest, TableShape
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.migrate import read_ledger, with_names
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries

_SQL = load_queries("codebase_mcp.database", "backup.sql")


@dataclass(frozen=True, slots=True)
class BackupFacts:
    """The contents of a backup: the number of rows, and their size before compression."""

    project: Project
    rows: int
    size: int


async def write_backup(db: Database, project: Project, file: BinaryIO) -> BackupFacts:
    """Write a snapshot of a project to a file.

    Raises:
        OSError: the file cannot be written.
    """
    async with db.transaction(project, readonly=True) as tx:
        manifest = await _describe(tx, project)
        with await asyncio.to_thread(ArchiveWriter, file, manifest) as writer:
            for table in manifest.tables:
                await _write_table(tx, table, writer)
            sums = (await asyncio.to_thread(writer.finish)).values()
    return BackupFacts(project, sum(s.rows for s in sums), sum(s.size for s in sums))


async def tables_of(tx: Transaction, schema: str) -> tuple[TableShape, ...]:
    """The tables of a schema, each after those that it references."""
    shapes, references = await tx.fetch_many(
        [(_SQL["tables"], {"schema": schema}), (_SQL["references"], {"schema": schema})]
    )
    columns = {table: tuple(names) for table, names in shapes}
    graph: dict[str, set[str]] = {name: set() for name in columns}
    for name, referred in references:
        graph[name].add(referred)
    return tuple(
        TableShape(name, columns[name]) for name in TopologicalSorter(graph).static_order()
    )


def copy_statement(table: TableShape, direction: LiteralString) -> LiteralString:
    """The statement that copies the rows of a table out or in."""
    statement = "COPY {} ({}) " + direction + " (FORMAT BINARY)"
    return with_names(statement, table.name, table.columns)


async def _describe(tx: Transaction, project: Project) -> Manifest:
    """Describe the project, and lock its tables so that none can be dropped."""
    schema = project.schema_name
    tables = await tables_of(tx, schema)
    names = [table.name for table in tables]
    await tx.run_script(with_names("LOCK TABLE {} IN ACCESS SHARE MODE", names))
    [[server_version]], indexes = await tx.fetch_many(
        [(_SQL["server_version"], {}), (_SQL["vector_indexes"], {"schema": schema})]
    )
    return Manifest(
        program_version=version("codebase-mcp"),
        server_version=server_version,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        project_id=project.project_id,
        schema_name=schema,
        name=project.name,
        description=project.description,
        project_created_at=project.created_at.isoformat(),
        migrations=tuple(await read_ledger(tx, schema)),
        tables=tables,
        vector_indexes=tuple(definition for (definition,) in indexes),
    )


async def _write_table(tx: Transaction, table: TableShape, writer: ArchiveWriter) -> None:
    async def take(piece: bytes) -> None:
        if writer.add_rows(piece):
            await asyncio.to_thread(writer.flush, table.name)

    rows = await tx.copy_out(copy_statement(table, "TO STDOUT"), take)
    await asyncio.to_thread(writer.end_table, table.name, rows)
