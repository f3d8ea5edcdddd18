"""Export, import, back up, restore, migrate and purge the data of projects.

The texts of a removed repository or file normally stay for an hour, so that undoing the change is
cheap. A purge deletes them at once, except texts that another file also has, and then counts the
remaining rows in every table.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal
from uuid import uuid4

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import Resolver
from codebase_mcp.app.freshness.verified_search import Freshness
from codebase_mcp.database.backup import BackupFacts, write_backup
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import Project
from codebase_mcp.database.projects import (
    SchemaState,
    check_schemas,
    count_in_project,
    drop_project,
    upgrade,
)
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.restore import restore_backup
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import IndexingFailed, NotFound, ProjectNotFound
from codebase_mcp.index import store
from codebase_mcp.index.build import Indexer
from codebase_mcp.index.identity import repository_id_in
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory
from codebase_mcp.index.plan import PathScope
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.records.following import refresh_anchors
from codebase_mcp.records.transfer import Imported, export_lines, import_lines, scan_lines
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.search.text_image import TextImages
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.source_tree import source_tree_at

_SQL = load_queries("codebase_mcp.app", "data.sql")

# Every table with data of a repository. The statement ``count_TABLE`` counts its rows.
TABLES = (
    "repository", "snapshot", "file", "blob", "chunk", "chunk_vector", "symbol", "blob_reference",
    "term_frequency", "index_run", "commit_entry", "commit_text",
)  # fmt: skip

_NO_PATHS = PathScope(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a purge: a repository, or some paths of it."""

    project: Project
    repository: RepositoryFacts
    scope: PathScope | None

    @property
    def kind(self) -> Literal["repository", "file"]:
        return "repository" if self.scope is None else "file"

    def parameters(self) -> dict[str, object]:
        """The parameters of statements that select its rows."""
        return {
            "repository_id": self.repository.id,
            "is_whole": self.scope is None,
            **(self.scope or _NO_PATHS).parameters(),
        }


@dataclass(frozen=True, slots=True)
class Purged:
    """The rows of the purged data in each table, before and after.

    ``kept`` are further files with the same text, which stays because of them.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    paths: Sequence[str] = ()
    kept: Sequence[str] = ()

    @property
    def is_complete(self) -> bool:
        return not any(self.after.values())


@dataclass(frozen=True, slots=True)
class ProjectData:
    """The data of the projects of one database."""

    database: Database
    resolver: Resolver
    models: Models
    indexer: Indexer
    jobs: JobQueue
    memory_indexes: MemoryIndexes
    text_images: TextImages
    freshness: Freshness

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

    async def find(
        self, name: str | Path, project_id: str | None = None, identity: Identity = ANONYMOUS
    ) -> Target:
        """Find the target of a purge: a repository by its directory or id, or a path inside it.

        It need not exist on disk any more.

        Raises:
            NotFound: it is not a repository of the project, nor inside a repository.
            ProjectNotFound: no such project.
        """
        project, _ = await self.resolver.resolve(project_id, identity)
        async with self.database.transaction(project, readonly=True) as tx:
            repositories = await load_inventory(tx)
        absolute = Path(os.path.abspath(Path(name).expanduser()))  # noqa: PTH100 - links stay
        candidates = {absolute, absolute.parent.resolve() / absolute.name, absolute.resolve()}
        for repository in repositories:
            if str(repository.id) == str(name) or Path(repository.root) in candidates:
                return Target(project, repository, None)
        for repository in sorted(repositories, key=lambda r: -len(r.root)):  # the innermost first
            for candidate in candidates:
                if candidate.is_relative_to(repository.root):
                    path = candidate.relative_to(repository.root).as_posix()
                    scope = PathScope(frozenset([path]), frozenset([path]))
                    return Target(project, repository, scope)
        raise NotFound(
            f"Nothing is indexed at {name}",
            hint="Indexed repositories: " + (", ".join(r.root for r in repositories) or "none"),
        )

    async def purge(self, target: Target) -> Purged:
        """Delete the target, and count its remaining rows.

        Records anchored to it stay, and report that the code is gone.

        Raises:
            NotFound: it is not in the index.
        """
        await self.database.make_room()
        project, repository = target.project, target.repository
        if target.scope is None:
            await self.jobs.stop(project.schema_name, repository.id)
        async with self.indexer.locked(project, repository.id):
            async with self.database.transaction(project) as tx:
                rows, paths, shared = await _mark(tx, target)
                before = await _count_rows(tx, rows)
                await _erase(tx, target)
            async with self.database.transaction(project, readonly=True) as tx:
                after = await _count_rows(tx, rows)
        if not any(before.values()):
            raise NotFound(
                f"The path is not in the index of {repository.root}",
                hint="codebase-mcp status shows what is indexed.",
            )
        async with self.database.transaction(project) as tx:
            await refresh_anchors(tx, repository.id)
        await self.database.vacuum(project, before)
        await self.forget_copies(project, str(repository.id))
        return Purged(before, after, paths, shared)

    async def purge_project(
        self, project_id: str | None = None, identity: Identity = ANONYMOUS
    ) -> Purged:
        """Delete a whole project with its records, and count the remaining rows.

        Raises:
            ProjectNotFound: no such project.
        """
        await self.database.make_room()
        project, _ = await self.resolver.resolve(project_id, identity)
        await self.jobs.stop(project.schema_name)
        before = await count_in_project(self.database, project)
        await self.drop(project)
        left = await count_in_project(self.database, project)
        return Purged(before, {table: left.get(table, 0) for table in before})

    async def drop(self, project: Project) -> None:
        """Delete a project with everything in it."""
        await self.jobs.stop(project.schema_name)
        await self.freshness.forget(project)
        await drop_project(self.database, project)
        self.resolver.forget(project)
        await self.forget_copies(project)

    async def forget_copies(self, project: Project, repository_id: str = "") -> None:
        """Delete what this machine has copied of a project, or of a repository of it."""
        await self.memory_indexes.forget(project)
        self.text_images.forget(f"{project.schema_name}-{repository_id}")

    async def still_on_disk(self, target: Target, purged: Purged) -> bool:
        """Whether any of the purged files still exists on disk."""
        root = Path(target.repository.root)
        paths = [root / path for path in purged.paths] or [root]
        return await asyncio.to_thread(lambda: any(path.exists() for path in paths))

    async def is_read_again(
        self, target: Target, purged: Purged, selection: Selection = EVERYTHING
    ) -> bool:
        """Whether files exist on disk and are not ignored, so that they will be indexed again."""
        root = Path(target.repository.root)
        if not await asyncio.to_thread(root.is_dir):
            return False
        try:
            tree = await asyncio.to_thread(source_tree_at, root, selection)
        except IndexingFailed:  # a bare repository without a commit
            return False
        listing = await asyncio.to_thread(tree.list_files, purged.paths)
        return bool(listing.files)


async def _mark(
    tx: Transaction, target: Target
) -> tuple[dict[str, object], tuple[str, ...], tuple[str, ...]]:
    """Find the rows that belong only to a target, also texts that wait for the sweep.

    Returns the parameters by which the rows can be counted after the purge too, the paths of the
    files, and further files with the same text.
    """
    await tx.lock(store.WRITE_LOCK)
    parameters = target.parameters()
    await tx.execute(_SQL["renew_versions"], repository_id=target.repository.id, version=uuid4())
    rows = await tx.fetch_many([(_SQL[name], parameters) for name in ("paths", "blobs", "shared")])
    paths, blobs, shared = (tuple(row[0] for row in of_statement) for of_statement in rows)
    terms = [row[0] for row in await tx.fetch_all(_SQL["terms"], blobs=list(blobs))]
    return parameters | {"blobs": list(blobs), "terms": terms}, paths, shared


async def _count_rows(tx: Transaction, parameters: dict[str, object]) -> dict[str, int]:
    counts = await tx.fetch_many([(_SQL[f"count_{table}"], parameters) for table in TABLES])
    return {table: rows[0][0] for table, rows in zip(TABLES, counts, strict=True)}


async def _erase(tx: Transaction, target: Target) -> None:
    """Delete the rows of a target, in the transaction that found them."""
    if target.scope is None:
        await store.remove_repository(tx, target.repository.id)
        return
    parameters = target.parameters()
    for statement in (
        *("delete_files", "delete_replaced", "forget_failures"),
        *("forget_commit_texts", "forget_paths", "forget_errors"),
    ):
        await tx.execute(_SQL[statement], **parameters)
    await store.clear(tx)
