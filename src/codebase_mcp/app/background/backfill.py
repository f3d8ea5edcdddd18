"""How does a project get the vectors of the secondary model, while searches answer without them?

Files are embedded in groups, the newest first, and each group is stored at once. While an index run
of the project is active the backfill pauses, so that new text is searchable first. A server and a
worker look for new chunks every few seconds; a lock selects a process for each project.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import numpy as np

from codebase_mcp.database.connection import Database, ProjectTryLocks
from codebase_mcp.database.naming import Project, backfill_lock, index_lock
from codebase_mcp.database.nearest import EXACT_VECTORS, maintain_near_indexes
from codebase_mcp.database.projects import list_projects
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import CodebaseError, EmbeddingUnavailable
from codebase_mcp.index import secondary_model
from codebase_mcp.index.inventory import load_repositories
from codebase_mcp.index.secondary_model import PendingText

_log = logging.getLogger(__name__)

# Concurrent requests to the embedding service, which also has to embed queries.
REQUESTS_AT_ONCE = 2

# How often a paused backfill checks whether the index run has ended.
RUN_POLL_S = 0.5

# How often projects are checked for new chunks.
POLL_S = 3.0

# The pause after the first failure of the model; doubled with each further failure.
MIN_PAUSE_S = 5.0
MAX_PAUSE_S = 300.0


@dataclass(slots=True, eq=False)
class Backfill:
    """Adds vectors of the configured secondary model to projects of one database."""

    database: Database
    models: Models
    _opened: set[tuple[str, str]] = field(default_factory=set)
    _complete: dict[str, Hashable] = field(default_factory=dict)

    async def run_forever(self) -> None:
        """Backfill every project with new chunks, wait, and repeat, until cancelled."""
        pause_s = 0.0
        async with self.database.try_locks() as locks:
            while True:
                try:
                    await self._backfill_all(locks)
                    pause_s = 0.0
                except EmbeddingUnavailable as error:
                    pause_s = min(max(2 * pause_s, MIN_PAUSE_S), MAX_PAUSE_S)
                    _log.warning(
                        "The secondary model is unavailable; next try in %.0f s: %s",
                        pause_s,
                        error.message,
                    )
                except CodebaseError as error:
                    _log.info("Projects cannot be listed: %s", error.message)
                await asyncio.sleep(pause_s or POLL_S)

    async def _backfill_all(self, locks: ProjectTryLocks) -> None:
        await locks.check()
        for project in await list_projects(self.database):
            try:
                await self._backfill_new(locks, project)
            except EmbeddingUnavailable:
                raise  # the model is unavailable for every project
            except CodebaseError as error:  # such as a project that was dropped
                _log.info("%s is skipped: %s", project.schema_name, error.message)

    async def _backfill_new(self, locks: ProjectTryLocks, project: Project) -> None:
        """Backfill a project that may have new chunks, unless another process does."""
        async with self.database.transaction(project, readonly=True) as tx:
            state = await secondary_model.chunks_state(tx)
        if not state or self._complete.get(project.schema_name) == state:
            return
        if await locks.acquire(project, backfill_lock()):
            try:
                await self.run(project)
            finally:
                await locks.release(project, backfill_lock())
            self._complete[project.schema_name] = state

    async def run(
        self,
        project: Project,
        repositories: Sequence[UUID] | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> bool:
        """Embed chunks without a vector of the secondary model, in a project or some repositories.

        ``progress`` is called with the number of chunks that were added. Returns False if the
        model's vectors were dropped since this object began to add them. It may be cancelled at any
        time; a second caller at the same time would repeat its work.

        Raises:
            EmbeddingUnavailable: the model is unavailable; finished groups are stored.
            DatabaseUnavailable: the database is unavailable.
        """
        try:
            await self._wait_for_runs(project)
            profile = await self._open_profile(project)
            if profile is None or not await self._add_all(project, profile, repositories, progress):
                return False
        except EmbeddingUnavailable as error:
            reason = " ".join(filter(None, (error.message, error.hint)))
            async with self.database.transaction(project) as tx:
                await secondary_model.note_unavailable(tx, self.models.embedder.name, reason)
            raise
        if repositories is None:
            await maintain_near_indexes(self.database, project)
            async with self.database.transaction(project) as tx:
                await secondary_model.complete(tx, profile)
        return True

    async def _open_profile(self, project: Project) -> Profile | None:
        """The profile to add vectors of; None if it was dropped after this process began."""
        model = await self.models.configured()
        profile = Profile.of(secondary_model.VERSION, model.facts, model.recipe)
        key = project.schema_name, profile.fingerprint
        if key in self._opened:
            async with self.database.transaction(project, readonly=True) as tx:
                stored = await secondary_model.load_secondaries(tx)
            if profile.fingerprint not in {existing.fingerprint for existing, _ in stored}:
                _log.info("The vectors of %s were dropped; they are not added again", profile.model)
                return None
        scale = await self.models.scale_of(model)
        async with self.database.transaction(project) as tx:
            profile = await secondary_model.open_secondary(tx, replace(profile, scale=scale))
        self._opened.add(key)
        return profile

    async def _add_all(
        self,
        project: Project,
        profile: Profile,
        repositories: Sequence[UUID] | None,
        progress: Callable[[int], None],
    ) -> bool:
        """Add all missing vectors; False if the profile was dropped or texts cannot be embedded."""
        added, before = 0, None
        while True:
            await self._wait_for_runs(project)
            async with self.database.transaction(project, readonly=True) as tx:
                texts = await secondary_model.missing(tx, profile, repositories)
            if not texts:
                return True
            if texts == before:
                _log.warning("%d texts cannot be embedded with %s", len(texts), profile.model)
                return False
            before = texts
            for group in grouped(texts, REQUESTS_AT_ONCE * self.models.access.batch_size):
                vectors = await self._embed(group)
                async with self.database.transaction(project) as tx:
                    if not await secondary_model.write_vectors(tx, profile, vectors):
                        return False
                count = sum(len(text.chunks) for text in group)
                progress(count)
                added += count
                if added >= EXACT_VECTORS:
                    await maintain_near_indexes(self.database, project)
                    added = 0

    async def _wait_for_runs(self, project: Project) -> None:
        """Wait until no index run of the project is active."""
        while True:
            async with self.database.transaction(project, readonly=True) as tx:
                locks = [index_lock(repository.id) for repository in await load_repositories(tx)]
                if not await tx.held(locks):
                    return
            await asyncio.sleep(RUN_POLL_S)

    async def _embed(self, group: Sequence[PendingText]) -> dict[int, Vectors]:
        """The vectors of a group of texts, by blob, a row for each chunk."""
        chunks = [chunk for text in group for chunk in text.chunks]
        most = REQUESTS_AT_ONCE * self.models.access.batch_size
        parts = [
            await self.models.embedder.embed_passages(chunks[first : first + most])
            for first in range(0, len(chunks), most)
        ]
        ends = np.cumsum([len(text.chunks) for text in group])
        of_texts = np.split(np.concatenate(parts), ends[:-1])
        return {text.blob_id: vectors for text, vectors in zip(group, of_texts, strict=True)}


def grouped(texts: Sequence[PendingText], most: int) -> Iterator[list[PendingText]]:
    """Groups of texts with at most ``most`` chunks together; a longer text is its own group."""
    group: list[PendingText] = []
    count = 0
    for text in texts:
        if group and count + len(text.chunks) > most:
            yield group
            group, count = [], 0
        group.append(text)
        count += len(text.chunks)
    if group:
        yield group
