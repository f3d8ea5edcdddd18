"""What does an index run do beside indexing?

It lets anchors follow the code, indexes the branches that are kept, and reads the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import DatabaseUnavailable, IndexingFailed
from codebase_mcp.index.plan import RunRequest
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import RepositorySettings, repository_at

if TYPE_CHECKING:
    from codebase_mcp.app.views import Views
    from codebase_mcp.index.build import Indexer, RunResult
    from codebase_mcp.index.commits import CommitIndexer, CommitRun
    from codebase_mcp.index.pool import PreparerPool

# The modules of index runs are loaded with the first run: a search does not need them.


@dataclass(eq=False)
class IndexRuns:
    """Runs index jobs of this process, each with the repository's history and anchors."""

    settings: Settings
    database: Database
    models: Models
    views: Callable[[], Views]

    @cached_property
    def _pool(self) -> PreparerPool:
        from codebase_mcp.index.pool import PreparerPool  # noqa: PLC0415

        return PreparerPool(self.settings.workers)

    @cached_property
    def indexer(self) -> Indexer:
        """Writes and removes indexes, without history and anchors."""
        from codebase_mcp.index.build import Indexer  # noqa: PLC0415

        return Indexer(self.database, self.models, self._pool)

    @cached_property
    def commits(self) -> CommitIndexer:
        """Makes commits searchable."""
        from codebase_mcp.index.commits import CommitIndexer  # noqa: PLC0415

        return CommitIndexer(self.database, self.models, self._pool)

    async def close(self) -> None:
        if "_pool" in vars(self):
            await asyncio.to_thread(self._pool.close)

    async def run(
        self,
        request: RunRequest,
        repository: RepositorySettings,
        *,
        paths: Iterable[str] | None = None,
        branches: Sequence[str] = (),
        history_depth: int | None = None,
    ) -> tuple[RunResult, Mapping[str, CommitRun], int]:
        """Index a tree, or some ``paths`` of it, and the history of the repository.

        A run of the whole tree also indexes the branches that are kept or named. Returns the run,
        the runs of the named branches, and the number of stored commits.

        Raises:
            DatabaseUnavailable, EmbeddingUnavailable: before anything was stored.
        """
        project = request.project
        run = await self.indexer.run(request, paths)
        run = await self._refresh_anchors(project, run, is_rebuilt=request.force)
        if run.status == "failed":
            return run, {}, 0
        refs: Mapping[str, CommitRun] = {}
        if paths is None:
            views = self.views()
            run = await views.follow(project, run, repository.git_branches)
            if branches:
                refs = await views.index(project, run.repository_id, request.root, branches)
        depth = repository.history_depth if history_depth is None else history_depth
        run, commits = await self._read_history(project, run, depth)
        if paths is None:
            run = await self._note_missing_vectors(project, run)
        return run, refs, commits

    async def bring_up_to_date(
        self, project: Project, root: Path, paths: Iterable[str] | None
    ) -> RunResult:
        """Index some paths of a tree, or all of it, by its own settings.

        Raises:
            IndexingFailed: only a part was stored.
        """
        repository = await asyncio.to_thread(repository_at, self.settings, root)
        request = RunRequest(project, root, repository.selection)
        run, _, _ = await self.run(request, repository, paths=paths or ["."])
        if run.status == "failed":
            raise IndexingFailed(run.errors[-1])
        return run

    async def _read_history(
        self, project: Project, run: RunResult, depth: int | None
    ) -> tuple[RunResult, int]:
        """Bring the history up to date, and count it; an error becomes a notice of the run."""
        from codebase_mcp.index.commit_history import refresh_history  # noqa: PLC0415

        try:
            model = await self.models.primary()
            return run, await refresh_history(
                self.database, model, project, run.repository_id, run.root, depth=depth, renew=True
            )
        except (IndexingFailed, DatabaseUnavailable) as error:
            return run.with_notice(f"The history could not be read: {error.message}"), 0

    async def _note_missing_vectors(self, project: Project, run: RunResult) -> RunResult:
        """Add a notice if vectors of the configured secondary model are missing."""
        if not self.models.has_secondary:
            return run
        from codebase_mcp.index.secondary_model import load_state, missing_notice  # noqa: PLC0415

        try:
            async with self.database.transaction(project, readonly=True) as tx:
                state = await load_state(tx, self.models.embedder.name, [run.repository_id])
        except DatabaseUnavailable:
            return run  # the next run tells it
        notice = missing_notice(state)
        return run.with_notice(notice) if notice else run

    async def _refresh_anchors(
        self, project: Project, run: RunResult, *, is_rebuilt: bool = False
    ) -> RunResult:
        """Let anchors follow the code, unless the run failed."""
        if run.status == "failed":
            return run
        from codebase_mcp.records.following import refresh_anchors  # noqa: PLC0415

        try:
            async with self.database.transaction(project) as tx:
                await refresh_anchors(
                    tx,
                    run.repository_id,
                    added=run.added,
                    changed=run.changed,
                    is_changed=is_rebuilt or run.files_indexed > 0 or run.files_removed > 0,
                )
        except DatabaseUnavailable as error:
            return replace(run, status="failed", errors=[*run.errors, error.message])
        return run
