"""What leaves a project and comes back: records as lines, whole projects as backups, schemas of
earlier versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import BinaryIO

from codebase_mcp.database.backup import BackupFacts, write_backup
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import drop_project
from codebase_mcp.database.restore import restore_backup
from codebase_mcp.database.upgrade import SchemaState, check_schemas, upgrade
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index.identity import repository_id_in
from codebase_mcp.projects.identity import NOBODY, Identity
from codebase_mcp.projects.resolution import Resolver
from codebase_mcp.records.transfer import Imported, export_lines, import_lines, survey_lines


class Transfers:
    """Exports, imports, backups and upgrades of the projects of one database."""

    def __init__(self, database: Database, resolver: Resolver, models: Models) -> None:
        self._database = database
        self._resolver = resolver
        self._models = models

    async def export_records(
        self, project_id: str | None = None, identity: Identity = NOBODY
    ) -> AsyncIterator[str]:
        """What is kept beside the code, as lines of JSON, from one state of the database.

        Raises:
            ProjectNotFound: no such project.
        """
        project, source = await self._resolver.resolve(project_id, identity)
        async with (
            self._resolver.still_there(project, source),
            self._database.transaction(project, readonly=True) as tx,
        ):
            async for line in export_lines(tx, project.project_id, datetime.now(UTC)):
                yield line

    async def import_records(
        self,
        file: BinaryIO,
        project_id: str | None = None,
        identity: Identity = NOBODY,
        *,
        dry_run: bool = False,
    ) -> Imported:
        """Store the records of such lines, all or none; a project that is not there is made.

        ``file`` is read twice; with ``dry_run`` everything is done and undone.

        Raises:
            InvalidInput: lines that cannot be stored, by their numbers.
        """
        survey = await asyncio.to_thread(survey_lines, file)
        model = await self._models.configured() if survey.spots["observation"] else None
        try:
            project, _ = await self._resolver.resolve(project_id, identity)
            is_new = False
        except ProjectNotFound:
            project, _ = await self._resolver.resolve(project_id, identity, create=True)
            is_new = True
        is_kept = False
        try:
            async with self._database.transaction(project) as tx:
                imported = await import_lines(tx, file, survey, model)
                if dry_run:
                    await tx.close()
            is_kept = not dry_run
        finally:
            if is_new and not is_kept:
                await drop_project(self._database, project)
                self._resolver.forget(project)
        return imported

    async def backup(
        self, file: BinaryIO, project_id: str | None = None, identity: Identity = NOBODY
    ) -> BackupFacts:
        """Write a whole project, its index and its records, into a file.

        Raises:
            ProjectNotFound: no such project.
            OSError: the file cannot be written.
        """
        project, source = await self._resolver.resolve(project_id, identity)
        async with self._resolver.still_there(project, source):
            return await write_backup(self._database, project, file)

    async def restore(
        self,
        file: BinaryIO,
        name: str,
        project_id: str | None = None,
        *,
        replace: bool = False,
    ) -> BackupFacts:
        """Make a project of a backup, whole or not at all; ``name`` is what errors call the file.

        Raises:
            InvalidInput: the file is no backup, is damaged, or was made by a newer program.
            Conflict: the project holds something already.
        """
        restored = await restore_backup(
            self._database,
            file,
            name,
            repository_id_in,
            project_id=project_id,
            replace=replace,
        )
        self._resolver.forget(restored.project)
        return restored

    async def migrate(
        self, project_id: str | None = None, *, every: bool = False, check: bool = False
    ) -> list[SchemaState]:
        """Bring the catalogue and one project, or every one, up to date; or only look.

        Raises:
            ProjectNotFound: no such project.
        """
        work = check_schemas if check else upgrade
        return await work(self._database, project_id, every=every)
