"""How does a project get the vectors of the secondary model, while searches answer without them?

Files are embedded in groups, the newest first, and each group is stored at once. While an index run
of the project is active the backfill pauses, so that new text is searchable first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.nearest import maintain_near_indexes
from codebase_mcp.database.projects import Project
from codebase_mcp.database.vectors import EXACT_VECTORS
from codebase_mcp.embedding.embedder import Embedder, Vectors
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.index import secondary_model
from codebase_mcp.index.holdings import repositories_of
from codebase_mcp.index.secondary_model import PendingText

_log = logging.getLogger(__name__)

# Concurrent requests to the embedding service, which also has to embed queries.
REQUESTS_AT_ONCE = 2

# How often a paused backfill checks whether the index run has ended.
RUN_POLL_S = 0.5


class Backfill:
    """Adds vectors of the configured secondary model to projects of one database."""

    def __init__(self, database: Database, models: Models) -> None:
        self._database = database
        self._models = models
        self._begun: set[tuple[str, str]] = set()

    async def run(
        self,
        project: Project,
        repositories: Sequence[UUID] | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> bool:
        """Embed chunks without a vector of the secondary model, in a project or some repositories.

        ``progress`` is called with the number of chunks that were added. Returns False if the
        model's vectors were dropped since this process began to add them: another model is wanted,
        or none. One caller at a time is enough; it may be cancelled at any time.

        Raises:
            EmbeddingUnavailable: the model is unavailable; what was embedded is stored.
            DatabaseUnavailable: the database is unavailable.
        """
        try:
            await self._wait_for_runs(project)
            profile = await self._open_profile(project)
            if profile is None:
                return False
            added, before = 0, None
            while texts := await self._next(project, profile, repositories):
                if texts == before:
                    _log.warning("%d texts cannot be embedded with %s", len(texts), profile.model)
                    return False
                before = texts
                for group in grouped(texts, self._chunks_at_once):
                    if not await self._add(project, profile, group):
                        return False
                    count = sum(len(text.chunks) for text in group)
                    progress(count)
                    added += count
                    if added >= EXACT_VECTORS:
                        await maintain_near_indexes(self._database, project)
                        added = 0
        except EmbeddingUnavailable as error:
            words = " ".join(filter(None, (error.message, error.hint)))
            async with self._database.transaction(project) as tx:
                await secondary_model.note_unavailable(tx, self._models.embedder.name, words)
            raise
        if repositories is None:
            await maintain_near_indexes(self._database, project)
            async with self._database.transaction(project) as tx:
                await secondary_model.complete(tx, profile)
        return True

    @property
    def _chunks_at_once(self) -> int:
        return REQUESTS_AT_ONCE * self._models.access.batch_size

    async def _open_profile(self, project: Project) -> Profile | None:
        """The profile to add vectors of; None if it was dropped after this process began."""
        model = await self._models.configured()
        made = Profile.of(secondary_model.VERSION, model.facts, model.recipe)
        key = project.schema_name, made.fingerprint
        if key in self._begun:
            async with self._database.transaction(project, readonly=True) as tx:
                known = await secondary_model.load_secondaries(tx)
            if all(profile.fingerprint != made.fingerprint for profile, _ in known):
                _log.info("The vectors of %s were dropped; they are not added again", made.model)
                return None
        scale = await self._models.scale_of(model)
        async with self._database.transaction(project) as tx:
            profile = await secondary_model.open_secondary(tx, replace(made, scale=scale))
        self._begun.add(key)
        return profile

    async def _next(
        self, project: Project, profile: Profile, repositories: Sequence[UUID] | None
    ) -> list[PendingText]:
        """What to embed next, once no index run is active."""
        await self._wait_for_runs(project)
        async with self._database.transaction(project, readonly=True) as tx:
            return await secondary_model.missing(tx, profile, repositories)

    async def _wait_for_runs(self, project: Project) -> None:
        """Wait for the end of index runs."""
        while True:
            async with self._database.transaction(project, readonly=True) as tx:
                locks = [index_lock(number) for number, _ in await repositories_of(tx)]
                if not await tx.held(locks):
                    return
            await asyncio.sleep(RUN_POLL_S)

    async def _add(self, project: Project, profile: Profile, group: Sequence[PendingText]) -> bool:
        embedder = self._models.embedder
        vectors = await _embedded(embedder, group, self._chunks_at_once)
        async with self._database.transaction(project) as tx:
            return await secondary_model.write_vectors(tx, profile, vectors)


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


async def _embedded(
    embedder: Embedder, group: Sequence[PendingText], most: int
) -> dict[int, Vectors]:
    """The vectors of some texts, embedded in batches of at most ``most`` chunks."""
    chunks = [chunk for text in group for chunk in text.chunks]
    parts = [
        await embedder.embed_passages(chunks[first : first + most])
        for first in range(0, len(chunks), most)
    ]
    vectors = np.concatenate(parts)
    found, first = {}, 0
    for text in group:
        found[text.blob_id] = vectors[first : first + len(text.chunks)]
        first += len(text.chunks)
    return found
