"""How does a project get the vectors of the stronger model, while searches answer without them?

Some files after the other, the newest first; each is stored as soon as its vectors are there. While
an index run goes on in the project nothing is embedded: first the text, then what is finer.
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
from codebase_mcp.index import second_tier
from codebase_mcp.index.holdings import repositories_of
from codebase_mcp.index.second_tier import GrowingText

_log = logging.getLogger(__name__)

# So many requests to a service are under way at once: it has questions to answer, too.
REQUESTS_AT_ONCE = 2

# How often it is asked whether an index run has come to its end.
GIVE_WAY_S = 0.5


class Grower:
    """Adds vectors of the configured model of the second tier to projects of one database."""

    def __init__(self, database: Database, models: Models) -> None:
        self._database = database
        self._models = models
        self._begun: set[tuple[str, str]] = set()

    async def grow(
        self,
        project: Project,
        repositories: Sequence[UUID] | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
    ) -> bool:
        """Embed what has no vector of the stronger model, in a project or in some repositories.

        ``progress`` gets the number of chunks that were added. False where the model's vectors were
        dropped since this process began with them: somebody wants another model, or none. Only one
        caller at a time is of use; all of them may break off at any time.

        Raises:
            EmbeddingUnavailable: the model is away; what was embedded is stored.
            DatabaseUnavailable: the database is.
        """
        try:
            await self._give_way(project)
            profile = await self._opened(project)
            if profile is None:
                return False
            added, before = 0, None
            while texts := await self._next(project, profile, repositories):
                if texts == before:
                    _log.warning("%d texts cannot get vectors of %s", len(texts), profile.model)
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
                await second_tier.note_away(tx, self._models.embedder.name, words)
            raise
        if repositories is None:
            await maintain_near_indexes(self._database, project)
            async with self._database.transaction(project) as tx:
                await second_tier.complete(tx, profile)
        return True

    @property
    def _chunks_at_once(self) -> int:
        return REQUESTS_AT_ONCE * self._models.access.batch_size

    async def _opened(self, project: Project) -> Profile | None:
        """The profile to add vectors of; None where it was dropped after this process began."""
        model = await self._models.configured()
        made = Profile.of(second_tier.VERSION, model.facts, model.recipe)
        key = project.schema_name, made.fingerprint
        if key in self._begun:
            async with self._database.transaction(project, readonly=True) as tx:
                known = await second_tier.tiers(tx)
            if all(profile.fingerprint != made.fingerprint for profile, _ in known):
                _log.info("The vectors of %s were dropped; they are left so", made.model)
                return None
        scale = await self._models.scale_of(model)
        async with self._database.transaction(project) as tx:
            profile = await second_tier.open_tier(tx, replace(made, scale=scale))
        self._begun.add(key)
        return profile

    async def _next(
        self, project: Project, profile: Profile, repositories: Sequence[UUID] | None
    ) -> list[GrowingText]:
        """What to embed next, when no index run goes on."""
        await self._give_way(project)
        async with self._database.transaction(project, readonly=True) as tx:
            return await second_tier.missing(tx, profile, repositories)

    async def _give_way(self, project: Project) -> None:
        """Wait for the end of index runs."""
        while True:
            async with self._database.transaction(project, readonly=True) as tx:
                locks = [index_lock(number) for number, _ in await repositories_of(tx)]
                if not await tx.held(locks):
                    return
            await asyncio.sleep(GIVE_WAY_S)

    async def _add(self, project: Project, profile: Profile, group: Sequence[GrowingText]) -> bool:
        embedder = self._models.embedder
        vectors = await _embedded(embedder, group, self._chunks_at_once)
        async with self._database.transaction(project) as tx:
            return await second_tier.write_vectors(tx, profile, vectors)


def grouped(texts: Sequence[GrowingText], most: int) -> Iterator[list[GrowingText]]:
    """Runs of texts of at most so many chunks together, or one text of more."""
    group: list[GrowingText] = []
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
    embedder: Embedder, group: Sequence[GrowingText], most: int
) -> dict[int, Vectors]:
    """The vectors of some texts, no more than so many chunks at once."""
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
