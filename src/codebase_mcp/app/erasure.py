"""Purge files, repositories or projects, and verify that nothing is left.

Data of a removed repository is kept for an hour before it is deleted. A purge deletes it at once,
and then counts the remaining rows in every table.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import Resolver
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project, count_in_project, drop_project
from codebase_mcp.errors import IndexingFailed, NotFound
from codebase_mcp.index.build import Indexer
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory
from codebase_mcp.index.plan import PathScope
from codebase_mcp.index.purge import Purged
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.records.following import refresh_anchors
from codebase_mcp.search.memory_indexes import MemoryIndexes
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.source_tree import source_tree_at


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a purge: a repository, or some paths of it."""

    project: Project
    repository: RepositoryFacts
    scope: PathScope | None

    @property
    def kind(self) -> Literal["repository", "file"]:
        return "repository" if self.scope is None else "file"


@dataclass(frozen=True, slots=True)
class Erasure:
    """Purges in the projects of one database."""

    database: Database
    resolver: Resolver
    indexer: Indexer
    jobs: JobQueue
    memory_indexes: MemoryIndexes

    async def find(
        self, name: str | Path, project_id: str | None = None, identity: Identity = ANONYMOUS
    ) -> Target:
        """Find the target: a repository by its directory or id, or a path inside a repository.

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
        purged = await self.indexer.purge(project, repository.id, target.scope)
        if not any(purged.before.values()):
            raise NotFound(
                f"The path is not in the index of {repository.root}",
                hint="codebase-mcp status shows what is indexed.",
            )
        async with self.database.transaction(project) as tx:
            await refresh_anchors(tx, repository.id)
        await self.database.vacuum(project, purged.before)
        return purged

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
        await drop_project(self.database, project)
        self.resolver.forget(project)
        await self.memory_indexes.forget(project)

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
