"""How is a project written to a file, and which format has that file?

A backup is a consistent snapshot: every table of the project's schema, read in one transaction that
blocks no writer. It needs no PostgreSQL programs and works across versions, as the binary COPY
format of the types that we use is the same in all of them.

The file is a compressed tar that standard tools can open. First ``manifest.json``, which describes
the contents; then each table's rows in PostgreSQL's binary COPY format, split into members of some
megabytes, as a tar header needs the size in advance; last ``end.json``, with a count and a checksum
per table. A file without ``end.json`` is incomplete. Nothing is unpacked to disk.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from importlib.metadata import version
from typing import Any, BinaryIO, LiteralString, Self

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.migrate import read_ledger, with_names
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput

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
    [[server_version]] = await tx.fetch_all(_SQL["server_version"])
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
    )


async def _write_table(tx: Transaction, table: TableShape, writer: ArchiveWriter) -> None:
    async def take(piece: bytes) -> None:
        if writer.add_rows(piece):
            await asyncio.to_thread(writer.flush, table.name)

    rows = await tx.copy_out(copy_statement(table, "TO STDOUT"), take)
    await asyncio.to_thread(writer.end_table, table.name, rows)


FORMAT = 1

# Vectors and weights hardly compress, so a higher level costs time and saves little.
_LEVEL = 2
_MEMBER_BYTES = 4 << 20
_LONGEST_JSON = 64 << 20


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table and its columns, in the order of the rows."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents and origin of a backup.

    ``tables`` are sorted: each follows the tables that it references. ``vector_indexes`` were
    stored by earlier versions, which still require the field; the index is built when needed.
    """

    program_version: str
    server_version: str
    created_at: str
    project_id: str | None
    schema_name: str
    name: str | None
    description: str | None
    project_created_at: str
    migrations: tuple[tuple[int, str], ...]
    tables: tuple[TableShape, ...]
    vector_indexes: tuple[str, ...] = ()
    format: int = FORMAT


@dataclass(slots=True)
class TableSum:
    """Row count, size and checksum of a table."""

    rows: int = 0
    size: int = 0
    sha256: Any = field(default_factory=hashlib.sha256)

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.sha256.update(piece)

    def as_json(self) -> dict[str, object]:
        return {"rows": self.rows, "bytes": self.size, "sha256": self.sha256.hexdigest()}


class ArchiveWriter:
    """Writes a backup sequentially. Blocking: call it from a thread."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        self._gzip = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_LEVEL, filename="")
        self._tar = tarfile.open(fileobj=self._gzip, mode="w")  # noqa: SIM115 - `finish` closes it
        self._manifest = json.dumps(asdict(manifest), indent=1).encode()
        self._add("manifest.json", self._manifest)
        self._sums: dict[str, TableSum] = {}
        self._rest = bytearray()
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # Otherwise the garbage collector closes a failed writer, and prints why it cannot.
        with suppress(OSError):
            self._gzip.close()

    def add_rows(self, piece: bytes) -> bool:
        """Buffer bytes of the current table; whether they should be flushed."""
        self._rest += piece
        return len(self._rest) >= _MEMBER_BYTES

    def flush(self, table: str) -> None:
        """Compress and write the buffer."""
        if self._rest:
            content = bytes(self._rest)
            self._rest.clear()
            self._sum(table).add(content)
            self._add(f"{table}/{self._number:06}", content)
            self._number += 1

    def end_table(self, table: str, rows: int) -> None:
        """Complete a table."""
        self.flush(table)
        self._sum(table).rows = rows
        self._number = 0

    def finish(self) -> dict[str, TableSum]:
        """Write counts and checksums, and close the file."""
        end = {
            "manifest_sha256": hashlib.sha256(self._manifest).hexdigest(),
            "tables": {name: table.as_json() for name, table in self._sums.items()},
        }
        self._add("end.json", json.dumps(end, indent=1).encode())
        self._tar.close()
        self._gzip.close()
        return self._sums

    def _sum(self, table: str) -> TableSum:
        return self._sums.setdefault(table, TableSum())

    def _add(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        self._tar.addfile(member, io.BytesIO(content))


class ArchiveReader:
    """Reads a backup sequentially, once. Blocking: call it from a thread.

    Raises:
        InvalidInput: it is not a backup, is damaged, or was made by a newer program.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._name = name
        self._has_begun = False
        self._sums: dict[str, TableSum] = {}
        with self._readable():
            self._tar = tarfile.open(fileobj=gzip.GzipFile(fileobj=file), mode="r|")  # noqa: SIM115
            self._member = self._tar.next()
            raw = self._json_of("manifest.json")
        self._has_begun = True
        self._manifest_sha256 = hashlib.sha256(raw).hexdigest()
        self.manifest = self._parsed(raw)

    def pieces(self, table: str) -> Iterator[bytes]:
        """The bytes of a table, member after member."""
        table_sum = self._sums.setdefault(table, TableSum())
        with self._readable():
            while self._member is not None and self._member.name.partition("/")[0] == table:
                piece = self._content(4 * _MEMBER_BYTES)
                table_sum.add(piece)
                self._member = self._tar.next()
                yield piece

    def check_end(self, rows: Mapping[str, int]) -> int:
        """Check row counts and checksums.

        Returns the number of bytes of all rows.
        """
        with self._readable():
            end = json.loads(self._json_of("end.json"))
            for name, count in rows.items():
                self._sums[name].rows = count
            read = {name: table.as_json() for name, table in self._sums.items()}
            is_whole = end == {"manifest_sha256": self._manifest_sha256, "tables": read}
        if not is_whole:
            raise self.refused("the backup is damaged: its checksums differ")
        return sum(table.size for table in self._sums.values())

    def _json_of(self, name: str) -> bytes:
        if self._member is None or self._member.name != name:
            raise tarfile.ReadError
        content = self._content(_LONGEST_JSON)
        self._member = self._tar.next()
        return content

    def _content(self, limit: int) -> bytes:
        assert self._member is not None
        file = self._tar.extractfile(self._member) if self._member.size <= limit else None
        if file is None:
            raise tarfile.ReadError
        return file.read()

    def _parsed(self, raw: bytes) -> Manifest:
        try:
            content = json.loads(raw)
            made_by = content["program_version"]
            if content["format"] > FORMAT:
                raise self.too_new(made_by)
            content["tables"] = tuple(
                TableShape(table["name"], tuple(table["columns"])) for table in content["tables"]
            )
            content["migrations"] = tuple(
                (int(version), str(checksum)) for version, checksum in content["migrations"]
            )
            content["vector_indexes"] = ()
            return Manifest(**content)
        except (ValueError, KeyError, TypeError):
            raise self.refused("it is not a backup") from None

    def too_new(self, made_by: str) -> InvalidInput:
        """The error for a backup that was made by a newer program."""
        return self.refused(
            f"the backup was made by codebase-mcp {made_by}, which is newer than this one",
            hint="Upgrade codebase-mcp, then restore again.",
        )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
            why = "the backup is damaged or incomplete" if self._has_begun else "it is not a backup"
            raise self.refused(why) from error

    def refused(self, why: str, hint: str | None = None) -> InvalidInput:
        """The error for this file, with a reason."""
        return InvalidInput.of(
            "file",
            self._name,
            f"{self._name}: {why}; nothing was restored",
            rule="a backup made by codebase-mcp backup",
            hint=hint or "Restore another backup, or make a new one.",
        )
