"""How are the nearest of many vectors of chunks found without comparing all of them?

Below some thousands they are all compared. Above, pgvector's HNSW index finds them. A new vector
would cost it milliseconds, so it covers only what was there when it was built, one partial index a
profile: ``chunk_vector_near_PROFILE_SEALED``, where SEALED is the newest time that it covers. What
came later is compared one by one, and when that has become too much, another index is built in the
background, beside searches and runs, and takes the place of the old one.

Whoever reads needs to know nothing but that time; where its index has gone meanwhile, the same
statement finds the same chunks, only more slowly. So a build that is broken off, by a kill even,
leaves nothing but an index that no search uses, and the next build drops it.

Why not IVFFlat, which takes new vectors at once: on 58,400 chunks of code, for 101 questions, in
one run on a busy machine, it had to look into 28 % of 1,000 lists to find 99 % of the 10 nearest,
and that takes it about twice as long as HNSW; with 10 % of 240 lists 91 % are found. Hamming
distances of single bits, ranked again, find 95 % among 1,000. Of HNSW's parameters, a denser graph
(m = 24) finds more by reading less than a longer search does: 99.2 % with ef_search = 300 then.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Hashable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.pool import Connection
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row, Transaction, lock_key
from codebase_mcp.database.vectors import EXACT_VECTORS, MAX_INDEXED_DIMENSION
from codebase_mcp.errors import CodebaseError

_SQL = load_queries("codebase_mcp.database", "nearest.sql")
_log = logging.getLogger(__name__)
_NAME = re.compile(r"chunk_vector_near_(\d+)_(\d+)")
_LOCK = "nearest"

# Vectors from before there were times have time 0.
_NEVER = -1

# So many vectors, or this share of all, may be newer than the index: about 0.3 µs each and search.
NEWER_VECTORS = 3_000
NEWER_SHARE = 0.05

# After the last sign of a change; repositories are often indexed one after the other.
QUIET_S = 1.0

# A build that does not find room in memory goes on many times slower; more than this is not taken.
# A vector has some fifty links, of 24 bytes while it is being built.
_MOST_MEMORY = 1 << 30
_LINK_BYTES = 1_500

_PATIENCE_S = 3.0


@dataclass(frozen=True, slots=True)
class NearIndex:
    """An index, by the profile whose vectors it covers, up to a time."""

    profile_id: int
    sealed: int

    @classmethod
    def from_name(cls, name: str) -> NearIndex | None:
        """What the name of an index says, if it is one of these."""
        match = _NAME.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]))

    def write_into(self, statement: LiteralString, **numbers: int) -> LiteralString:
        """A statement about this index, with its profile and its time written out."""
        return write_numbers(statement, profile_id=self.profile_id, sealed=self.sealed, **numbers)


def sealed_times(names: Iterable[str]) -> dict[int, int]:
    """Up to which time each profile's vectors are covered, by the names of valid indexes."""
    found = sorted(filter(None, map(NearIndex.from_name, names)), key=_by_time)
    return {index.profile_id: index.sealed for index in found}


async def drop_near_indexes(tx: Transaction, profile_ids: Sequence[int]) -> None:
    """Drop the indexes of profiles whose chunks have no vectors any more.

    Unless one is being built just now, which would be waited for: then the builder drops them.
    """
    if not profile_ids or not await tx.lock_if_free(_LOCK):
        return
    for name, _ in await tx.fetch_all(_SQL["indexes"]):
        index = NearIndex.from_name(name)
        if index is not None and index.profile_id in profile_ids:
            await tx.execute(index.write_into(_SQL["drop_at_once"]))


async def tend(database: Database, project: Project) -> None:
    """Build the indexes of vectors that are worth having, and drop those that are not.

    It does nothing where somebody else is at it.

    Raises:
        DatabaseUnavailable: it is away, or has no room.
    """
    schema, vector_schema = project.schema_name, await database.vector_schema()
    async with database.own_session() as connection:
        if not await _is_alone(connection, schema):
            return
        work = _Work(connection)
        await work.begin(f'"{schema}", "{vector_schema}"')
        try:
            await work.to_the_end()
        except (asyncio.CancelledError, psycopg.Error):
            # What was begun is of no use, and every search would be planned with it in mind.
            with suppress(psycopg.Error, TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await work.drop_broken()
            raise


async def _is_alone(connection: Connection, schema: str) -> bool:
    """Whether this session got the lock; it holds it until it ends, so also after a kill."""
    cursor = await connection.execute(_SQL["alone"], {"key": lock_key(schema, _LOCK)})
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


class _Work:
    """What one session does to the indexes of a schema."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._search_path = ""

    async def begin(self, search_path: str) -> None:
        """Settle where and with what it works."""
        self._search_path = search_path
        await self._use(0)

    async def to_the_end(self) -> None:
        """Drop what is of no use, build what is wanted, drop what that replaces."""
        if not await self._rows(_SQL["table"]):
            return  # the project was dropped meanwhile
        await self.drop_broken()
        profiles = await self._rows(_SQL["profiles"])
        known = [number for number, _, _ in profiles]
        for index, _ in await self._indexes():
            if index.profile_id not in known:
                await self._drop(index)
        for profile_id, dimension, newest in profiles:
            if newest is not None and dimension <= MAX_INDEXED_DIMENSION:
                await self._tend(profile_id, dimension, newest)

    async def drop_broken(self) -> None:
        """Drop indexes whose building was broken off, and those of earlier programs."""
        for name, _ in await self._rows(_SQL["indexes"]):
            if NearIndex.from_name(name) is None:
                drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}")
                await self._connection.execute(drop.format(sql.Identifier(name)))
        for index, is_valid in await self._indexes():
            if not is_valid:
                await self._drop(index)

    async def _tend(self, profile_id: int, dimension: int, newest: int) -> None:
        present = [index for index, _ in await self._indexes() if index.profile_id == profile_id]
        sealed = max((index.sealed for index in present), default=_NEVER)
        newer = await self._count(profile_id, sealed)
        if newer > NEWER_VECTORS:
            vectors = await self._count(profile_id, _NEVER)
            if vectors >= EXACT_VECTORS and newer > vectors * NEWER_SHARE:
                wanted = NearIndex(profile_id, newest)
                await self._use(vectors * (2 * dimension + _LINK_BYTES))
                await self._connection.execute(
                    wanted.write_into(_SQL["build"], dimension=dimension)
                )
                present.append(wanted)
                sealed = newest
        for index in present:
            if index.sealed < sealed:
                await self._drop(index)

    async def _count(self, profile_id: int, after: int) -> int:
        [(count,)] = await self._rows(_SQL["vectors"], profile_id=profile_id, time=after)
        return int(count)

    async def _use(self, memory: int) -> None:
        """Take so many bytes of memory for what comes next, within bounds."""
        kilobytes = min(max(memory, 64 << 20), _MOST_MEMORY) >> 10
        await self._rows(_SQL["session"], search_path=self._search_path, memory=f"{kilobytes}kB")

    async def _indexes(self) -> list[tuple[NearIndex, bool]]:
        rows = await self._rows(_SQL["indexes"])
        found = [(NearIndex.from_name(name), is_valid) for name, is_valid in rows]
        return [(index, is_valid) for index, is_valid in found if index is not None]

    async def _drop(self, index: NearIndex) -> None:
        await self._connection.execute(index.write_into(_SQL["drop"]))

    async def _rows(self, query: LiteralString, **params: object) -> list[Row]:
        cursor = await self._connection.execute(query, params)
        return await cursor.fetchall()


class NearestIndexes:
    """Tends indexes of vectors in the background, a project at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[str, Set[Hashable]] = {}
        self._waiting: dict[str, Project] = {}
        self._tending: asyncio.Task[None] | None = None
        self._closed = False

    def look_at(self, project: Project, state: Set[Hashable]) -> None:
        """See to a project's indexes soon, unless the last time knew all of this state."""
        if self._closed or state <= self._seen.get(project.schema_name, frozenset()):
            return
        self._seen[project.schema_name] = state
        self._waiting[project.schema_name] = project
        if self._tending is None or self._tending.done():
            self._tending = asyncio.create_task(self._tend_all())

    async def settled(self) -> None:
        """Wait until nothing is left to do."""
        if self._tending is not None:
            await asyncio.wait([self._tending])

    async def close(self) -> None:
        """Give up what is being built; nothing of it stays."""
        self._closed = True
        if self._tending is not None:
            self._tending.cancel()
            await self.settled()

    async def _tend_all(self) -> None:
        while self._waiting:
            await asyncio.sleep(QUIET_S)
            project = self._waiting.pop(next(iter(self._waiting)))
            try:
                await tend(self._database, project)
            except CodebaseError as error:
                # Searches go on without; the next change of the index is another chance.
                _log.warning("the index of vectors could not be built: %s", error.message)


def _by_time(index: NearIndex) -> int:
    return index.sealed
