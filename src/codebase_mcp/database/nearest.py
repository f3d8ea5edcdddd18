"""How are the nearest of many vectors found without comparing all of them?

Up to some ten thousands of vectors of chunks, all are compared. Beyond that, pgvector's HNSW index
finds them. Inserting a new vector into it takes milliseconds, so an index covers only the vectors
that existed when it was built. Each profile has such a partial index,
``chunk_vector_near_PROFILE_SEALED``, where SEALED is the time of the newest vector that it covers.
Newer vectors are compared singly. When there are too many of them, a new index is built in
the background, beside searches and index runs, and replaces the old index.

A search needs to know only that time. Where the index was dropped meanwhile, the same statement
finds the same chunks, only more slowly. A build that is interrupted, even by a kill, leaves an
index that no search uses, and the next build drops it.

Why not IVFFlat, which takes new vectors at once: on 58,400 chunks of code, for 101 questions, in
a run on a busy machine, it had to search 28 % of 1,000 lists to find 99 % of the 10 nearest,
which takes about twice as long as HNSW; with 10 % of 240 lists it finds 91 %. Hamming distances of
single bits, reranked, find 95 % among 1,000. Of HNSW's parameters, a denser graph (m = 24) finds
more for the same work than a longer search does: 99.2 % with ef_search = 300.

Observations come singly, and there are fewer of them. Beyond some thousands of their vectors,
an IVFFlat index keeps them in lists of neighbours, and a search reads a share of the lists.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Hashable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from math import isqrt
from typing import LiteralString

import psycopg
from psycopg import sql

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.pool import Connection
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row, Transaction, lock_key
from codebase_mcp.errors import CodebaseError

_SQL = load_queries("codebase_mcp.database", "nearest.sql")
_OBSERVATIONS = load_queries("codebase_mcp.database", "vectors.sql")
_log = logging.getLogger(__name__)
_NAME = re.compile(r"chunk_vector_near_(\d+)_(\d+)")
_LOCK = "nearest"

# Below this many numbers in all vectors (50,000 vectors of the built-in model) all are compared,
# which takes 30 ms at most, against 6. An HNSW index misses some, and which depends on the order in
# which vectors came: the same code, indexed again, would be ranked differently. An index that
# exists is kept until there are some fewer, so that it is not built again and again.
EXACT_NUMBERS = 50_000 * 256
_KEPT_SHARE = 0.8

# Up to this many vectors of observations are all compared, which takes about 0.3 µs each.
EXACT_VECTORS = 10_000

# pgvector cannot index a halfvec with more dimensions; longer vectors are always all compared.
MAX_INDEXED_DIMENSION = 4_000

# The share of the lists of observations that a search reads.
PROBED_SHARE = 0.1

# Vectors that were stored before this column existed have time 0.
_NEVER = -1

# How many vectors, and which share of all, may be newer than the index: each adds about 0.3 µs to a
# search.
NEWER_VECTORS = 3_000
NEWER_SHARE = 0.05

# How long to wait before maintenance: repositories are often indexed in a row.
QUIET_S = 1.0

# The memory a build may use. Without enough of it a build is many times slower: 1 GB was full after
# 724,000 vectors of the built-in model, and the rest took ten times as long each. A vector has some
# fifty links, of 24 bytes each during the build.
_LEAST_MEMORY = 64 << 20
_MOST_MEMORY = 2 << 30
_LINK_BYTES = 1_500

# How long to clean up after a failed build.
_CLEAN_UP_S = 3.0


@dataclass(frozen=True, slots=True)
class NearIndex:
    """An index, by the profile whose vectors it covers, up to a time."""

    profile_id: int
    sealed: int

    @classmethod
    def from_name(cls, name: str) -> NearIndex | None:
        """The index with this name; None where the name is not such an index's."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]))

    def write_into(self, statement: LiteralString, **numbers: int) -> LiteralString:
        """A statement about this index, with its profile and its time written out."""
        return write_numbers(statement, profile_id=self.profile_id, sealed=self.sealed, **numbers)


def sealed_times(names: Iterable[str]) -> dict[int, int]:
    """Up to which time each profile's vectors are indexed, by the names of valid indexes."""
    indexes = filter(None, map(NearIndex.from_name, names))
    by_time = sorted(indexes, key=lambda index: index.sealed)
    return {index.profile_id: index.sealed for index in by_time}


async def drop_near_indexes(tx: Transaction, profile_ids: Sequence[int]) -> None:
    """Drop the indexes of profiles whose chunks have no vectors any more.

    While an index is being built nothing is dropped, since that would wait for the build; the
    builder drops them.
    """
    if not profile_ids or not await tx.lock_if_free(_LOCK):
        return
    for name, _ in await tx.fetch_all(_SQL["indexes"]):
        index = NearIndex.from_name(name)
        if index is not None and index.profile_id in profile_ids:
            await tx.become_owner()
            await tx.execute(index.write_into(_SQL["drop_at_once"]))


async def maintain_near_indexes(database: Database, project: Project) -> None:
    """Build the vector indexes that are worth having, and drop those that are not.

    Does nothing while another session does the same.

    Raises:
        DatabaseUnavailable: the database is not reachable, or its disk is full.
    """
    schema, vector_schema = project.schema_name, await database.vector_schema()
    async with database.own_session() as connection:
        if not await _try_lock(connection, schema):
            return
        maintenance = _Maintenance(connection, f'"{schema}", "{vector_schema}"')
        try:
            await maintenance.run()
        except (asyncio.CancelledError, psycopg.Error):
            # An unfinished index is of no use, and the planner considers it for every search.
            with suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_CLEAN_UP_S):
                    await maintenance.drop_invalid()
            raise
        # The server notices some time later that the session has ended.
        await connection.execute(_SQL["unlock"], {"key": lock_key(schema, _LOCK)})


async def _try_lock(connection: Connection, schema: str) -> bool:
    """Whether this session got the lock, which it holds until it ends or is killed."""
    cursor = await connection.execute(_SQL["try_lock"], {"key": lock_key(schema, _LOCK)})
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


class _Maintenance:
    """A session that maintains the indexes of a schema."""

    def __init__(self, connection: Connection, search_path: str) -> None:
        self._connection = connection
        self._search_path = search_path

    async def run(self) -> None:
        """Drop unused indexes, build missing indexes, drop those that they replace."""
        await self._configure(_LEAST_MEMORY)
        if not await self._rows(_SQL["table"]):
            return  # the project was removed meanwhile
        await self.drop_invalid()
        profiles = await self._rows(_SQL["profiles"])
        used = [number for number, _, _ in profiles]
        for index, _ in await self._indexes():
            if index.profile_id not in used:
                await self._drop(index)
        for profile_id, dimension, newest in profiles:
            if newest is not None and dimension <= MAX_INDEXED_DIMENSION:
                await self._maintain_profile(profile_id, dimension, newest)

    async def drop_invalid(self) -> None:
        """Drop indexes that were not built to the end, and those of earlier versions."""
        for name, _ in await self._rows(_SQL["indexes"]):
            if NearIndex.from_name(name) is None:
                drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}")
                await self._connection.execute(drop.format(sql.Identifier(name)))
        for index, is_valid in await self._indexes():
            if not is_valid:
                await self._drop(index)

    async def _maintain_profile(self, profile_id: int, dimension: int, newest: int) -> None:
        present = [index for index, _ in await self._indexes() if index.profile_id == profile_id]
        sealed = max((index.sealed for index in present), default=_NEVER)
        newer = await self._count(profile_id, sealed)
        vectors = await self._count(profile_id, _NEVER)
        are_many = newer > max(NEWER_VECTORS, vectors * NEWER_SHARE)
        if are_many and vectors * dimension >= EXACT_NUMBERS:
            missing = NearIndex(profile_id, newest)
            await self._configure(vectors * (2 * dimension + _LINK_BYTES))
            await self._connection.execute(missing.write_into(_SQL["build"], dimension=dimension))
            present.append(missing)
            sealed = newest
        for index in present:
            if index.sealed < sealed or vectors * dimension < EXACT_NUMBERS * _KEPT_SHARE:
                await self._drop(index)

    async def _count(self, profile_id: int, after: int) -> int:
        [(count,)] = await self._rows(_SQL["vectors"], profile_id=profile_id, time=after)
        return int(count)

    async def _configure(self, memory: int) -> None:
        """Set the search path, and the memory in bytes (within bounds) for the next build."""
        kilobytes = min(max(memory, _LEAST_MEMORY), _MOST_MEMORY) >> 10
        await self._rows(_SQL["session"], search_path=self._search_path, memory=f"{kilobytes}kB")

    async def _indexes(self) -> list[tuple[NearIndex, bool]]:
        rows = await self._rows(_SQL["indexes"])
        return [
            (index, is_valid)
            for name, is_valid in rows
            if (index := NearIndex.from_name(name)) is not None
        ]

    async def _drop(self, index: NearIndex) -> None:
        await self._connection.execute(index.write_into(_SQL["drop"]))

    async def _rows(self, query: LiteralString, **params: object) -> list[Row]:
        cursor = await self._connection.execute(query, params)
        return await cursor.fetchall()


class NearestIndexes:
    """Maintains vector indexes in the background, a project at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[str, Set[Hashable]] = {}
        self._waiting: dict[str, Project] = {}
        self._maintaining: asyncio.Task[None] | None = None
        self._closed = False

    def schedule(self, project: Project, state: Set[Hashable]) -> None:
        """Maintain a project's indexes soon, unless this state was scheduled before."""
        if self._closed or state <= self._seen.get(project.schema_name, frozenset()):
            return
        self._seen[project.schema_name] = state
        self._waiting[project.schema_name] = project
        if self._maintaining is None or self._maintaining.done():
            self._maintaining = asyncio.create_task(self._maintain_all())

    async def wait_idle(self) -> None:
        """Wait until no maintenance is running or scheduled."""
        if self._maintaining is not None:
            await asyncio.wait([self._maintaining])

    async def close(self) -> None:
        """Cancel a build; nothing of it is left."""
        self._closed = True
        if self._maintaining is not None:
            self._maintaining.cancel()
            await self.wait_idle()

    async def _maintain_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(QUIET_S)
            project = self._waiting.pop(next(iter(self._waiting)))
            try:
                await maintain_near_indexes(self._database, project)
            except CodebaseError as error:
                # Searches work without it; the next change of the index triggers another try.
                _log.warning("could not build a vector index: %s", error.message)


def wanted_lists(vectors: int) -> int:
    """How many lists an index of this many vectors of observations should have."""
    return max(50, isqrt(vectors))


def probes(vectors: int) -> int:
    """How many lists a search should read."""
    return max(1, round(wanted_lists(vectors) * PROBED_SHARE))


async def wants_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Whether the index is worth having and missing, or has too few lists by now."""
    if vectors < EXACT_VECTORS or dimension > MAX_INDEXED_DIMENSION:
        return False
    row = await tx.fetch_one(_OBSERVATIONS["vector_index_lists"], dimension=dimension)
    return row is None or row[0] * 2 <= wanted_lists(vectors)


async def maintain_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Build the index if it is worth having and missing, or has too few lists by now.

    Searches continue meanwhile; other writers of the table wait. Returns whether it was built.
    """
    if not await wants_vector_index(tx, dimension, vectors):
        return False
    await tx.become_owner()
    await tx.execute(_OBSERVATIONS["work_memory"])
    lists = wanted_lists(vectors)
    await tx.execute(write_numbers(_OBSERVATIONS["build"], dimension=dimension, lists=lists))
    await tx.execute(_OBSERVATIONS["drop"])
    await tx.execute(_OBSERVATIONS["name"])
    return True
