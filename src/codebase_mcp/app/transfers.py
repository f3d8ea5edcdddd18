"""Export and import of records, backup and restore of projects, and migration of schemas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import Resolver
from codebase_mcp.database.backup import BackupFacts, write_backup
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import SchemaState, check_schemas, drop_project, upgrade
from codebase_mcp.database.restore import restore_backup
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index.identity import repository_id_in
from codebase_mcp.records.transfer import Imported, export_lines, import_lines, scan_lines


@dataclass(frozen=True, slots=True)
class Transfers:
    """Exports, imports, backups and upgrades of the projects of one database."""

    database: Database
    resolver: Resolver
    models: Models

    async def export_records(
        self, project_id: str | None = None, identity: Identity = ANONYMOUS
    ) -> AsyncIterator[str]:
        """The records of a project as lines of JSON, from one snapshot of the database.

        Raises:
            ProjectNotFound: no such project.
        """
        project, source = await self.resolver.resolve(project_id, identity)
        async with (
            self.resolver.raise_not_found_if_dropped(project, source),
            self.database.transaction(project, readonly=True) as tx,
        ):
            async for line in export_lines(tx, project.project_id, datetime.now(UTC)):
                yield line

    async def import_records(
        self,
        file: BinaryIO,
        project_id: str | None = None,
        identity: Identity = ANONYMOUS,
        *,
        dry_run: bool = False,
    ) -> Imported:
        """Import such lines, all or none; the project is created if it does not exist.

        ``file`` is read twice; with ``dry_run`` the import is rolled back.

        Raises:
            InvalidInput: some lines are invalid; lists them by number.
        """
        scan = await asyncio.to_thread(scan_lines, file)
        model = await self.models.configured() if scan.lines["observation"] else None
        try:
            project, _ = await self.resolver.resolve(project_id, identity)
            is_new = False
        except ProjectNotFound:
            project, _ = await self.resolver.resolve(project_id, identity, create=True)
            is_new = True
        is_imported = False
        try:
            async with self.database.transaction(project) as tx:
                imported = await import_lines(tx, file, scan, model)
                if dry_run:
                    await tx.close()
            is_imported = not dry_run
        finally:
            if is_new and not is_imported:
                await drop_project(self.database, project)
                self.resolver.forget(project)
        return imported

    async def backup(
        self, file: BinaryIO, project_id: str | None = None, identity: Identity = ANONYMOUS
    ) -> BackupFacts:
        """Write a whole project, with index and records, to a file.

        Raises:
            ProjectNotFound: no such project.
            OSError: the file cannot be written.
        """
        project, source = await self.resolver.resolve(project_id, identity)
        async with self.resolver.raise_not_found_if_dropped(project, source):
            return await write_backup(self.database, project, file)

    async def restore(
        self, file: BinaryIO, name: str, project_id: str | None = None, *, replace: bool = False
    ) -> BackupFacts:
        """Restore a project from a backup, as a whole or not at all; ``name`` names it in errors.

        Raises:
            InvalidInput: the file is not a backup, is damaged, or was made by a newer program.
            Conflict: the project is not empty.
        """
        restored = await restore_backup(
            self.database, file, name, repository_id_in, project_id=project_id, replace=replace
        )
        self.resolver.forget(restored.project)
        return restored

    async def migrate(
        self, project_id: str | None = None, *, every: bool = False, check: bool = False
    ) -> list[SchemaState]:
        """Migrate the catalogue and a project, or all projects; with ``check`` only report.

        Raises:
            ProjectNotFound: no such project.
        """
        work = check_schemas if check else upgrade
        return await work(self.database, project_id, every=every)
