"""What would indexing this directory do? Asks whom a run would ask, and changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import schema_of
from codebase_mcp.database.placement import has_cluster
from codebase_mcp.embedding.models import Models
from codebase_mcp.index.forecast import Forecast, Stored, forecast, load_stored
from codebase_mcp.index.identity import repository_id_in
from codebase_mcp.projects.identity import ANONYMOUS, Identity
from codebase_mcp.projects.resolution import ProjectSource, Resolver, require_seen
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.reach import resolve_for
from codebase_mcp.settings.repository import RepositorySettings, repository_at
from codebase_mcp.source.source_tree import source_tree_at


@dataclass(frozen=True, slots=True)
class IndexForecast:
    """What an index run would do, in which project, and under which settings of the repository.

    ``second_tier`` is the model that embeds the same chunks later, in the background.
    """

    forecast: Forecast
    project_id: str | None
    project_source: ProjectSource
    repository: RepositorySettings
    second_tier: str | None


class DryRun:
    """Says what a run would do."""

    def __init__(
        self, settings: Settings, database: Database, resolver: Resolver, models: Models
    ) -> None:
        self._settings = settings
        self._database = database
        self._resolver = resolver
        self._models = models

    async def of(
        self,
        repo_path: str | Path,
        project_id: str | None = None,
        *,
        force_reindex: bool = False,
        identity: Identity = ANONYMOUS,
    ) -> IndexForecast:
        """What indexing a directory would do and cost.

        Neither the project nor a database has to exist, and neither is created.

        Raises:
            InvalidInput: the path is not a readable directory, the project id is invalid, or the
                repository's context file is wrong.
            PermissionDenied: the caller may not create the project.
            IndexingFailed: HEAD of a bare repository leads to no commit.
            DatabaseUnavailable: there is a database, and it is away.
        """
        root = await asyncio.to_thread(resolve_for, identity, self._settings, repo_path)
        repository = await asyncio.to_thread(repository_at, self._settings, root)
        meant = await self._resolver.choose(project_id, identity, repository=root)
        require_seen(meant, identity, create=True)
        stored = await self._stored(schema_of(meant.project_id), root)
        # The secondary model is not called: that may cost money, and says nothing about the files.
        model = await self._models.primary()
        tree = await asyncio.to_thread(source_tree_at, root, repository.selection)
        expected = await asyncio.to_thread(
            forecast,
            tree,
            stored,
            model=self._models.primary_embedder,
            dimension=model.facts.dimension,
            workers=self._settings.workers,
            force=force_reindex,
        )
        second = self._models.embedder.name if self._models.has_secondary else None
        return IndexForecast(expected, meant.project_id, meant.source, repository, second)

    async def _stored(self, schema: str, root: Path) -> Stored:
        is_embedded = self._settings.database_url is None
        if is_embedded and not await asyncio.to_thread(has_cluster, self._settings.data_dir):
            return Stored()
        return await load_stored(self._database, schema, repository_id_in(schema, str(root)))
