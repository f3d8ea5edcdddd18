"""What would indexing this directory do? Writes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource, Resolver, require_seen
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import schema_of
from codebase_mcp.database.placement import has_cluster
from codebase_mcp.embedding.models import Models
from codebase_mcp.index.forecast import Forecast, Stored, forecast, load_stored
from codebase_mcp.index.identity import repository_id_in
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import RepositorySettings, repository_at, resolve_for
from codebase_mcp.source.source_tree import source_tree_at


@dataclass(frozen=True, slots=True)
class IndexForecast:
    """The forecast of an index run, its project, and the settings of the repository.

    ``second_tier`` is the model that embeds the same chunks later, in the background.
    """

    forecast: Forecast
    project_id: str | None
    project_source: ProjectSource
    repository: RepositorySettings
    second_tier: str | None


@dataclass(frozen=True, slots=True)
class DryRun:
    """Forecasts index runs."""

    settings: Settings
    database: Database
    resolver: Resolver
    models: Models

    async def of(
        self,
        repo_path: str | Path,
        project_id: str | None = None,
        *,
        force_reindex: bool = False,
        identity: Identity = ANONYMOUS,
    ) -> IndexForecast:
        """The result and cost of indexing a directory.

        Neither the project nor a database has to exist, and neither is created.

        Raises:
            InvalidInput: the path is not a readable directory, the project id is invalid, or the
                repository's context file is wrong.
            PermissionDenied: the caller may not create the project.
            IndexingFailed: HEAD of a bare repository leads to no commit.
            DatabaseUnavailable: the database exists and is unavailable.
        """
        root = await asyncio.to_thread(resolve_for, identity, self.settings, repo_path)
        repository = await asyncio.to_thread(repository_at, self.settings, root)
        choice = await self.resolver.choose(project_id, identity, repository=root)
        require_seen(choice, identity, create=True)
        stored = await self._stored(schema_of(choice.project_id), root)
        # The secondary model is not called: that may cost money, and says nothing about the files.
        model = await self.models.primary()
        tree = await asyncio.to_thread(source_tree_at, root, repository.selection)
        expected = await asyncio.to_thread(
            forecast,
            tree,
            stored,
            model=self.models.primary_embedder,
            dimension=model.facts.dimension,
            workers=self.settings.workers,
            force=force_reindex,
        )
        second = self.models.embedder.name if self.models.has_secondary else None
        return IndexForecast(expected, choice.project_id, choice.source, repository, second)

    async def _stored(self, schema: str, root: Path) -> Stored:
        is_embedded = self.settings.database_url is None
        if is_embedded and not await asyncio.to_thread(has_cluster, self.settings.data_dir):
            return Stored()
        return await load_stored(self.database, schema, repository_id_in(schema, str(root)))
