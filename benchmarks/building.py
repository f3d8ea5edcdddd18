"""Is the vector index there, is it being built, and is anything still being done?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from codebase_mcp import App

# Nothing is being done when nothing was seen being done for so long.
QUIET_S = 2.0
LIMIT_S = 1_800.0
BUILT_WITHIN_S = 120.0
_POLL_S = 0.05

_VECTOR_INDEXES = """
SELECT quote_ident(c.relname)
FROM pg_index AS i
JOIN pg_class AS c ON c.oid = i.indexrelid
JOIN pg_am AS m ON m.oid = c.relam
WHERE m.amname IN ('ivfflat', 'hnsw')
  AND i.indisvalid
  AND c.relnamespace = current_schema()::regnamespace
"""
_BUSY = """
SELECT count(*)
FROM pg_stat_activity
WHERE pid <> pg_backend_pid()
  AND datname = current_database()
  AND (state <> 'idle' OR backend_type = 'autovacuum worker')
"""
_BUILDING = "SELECT count(*) FROM pg_stat_progress_create_index"


@dataclass(slots=True)
class Builds:
    """When an index was being built, as seen from outside."""

    spans: list[list[float]] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def watched(cls, app: App) -> AsyncIterator[Builds]:
        """Look again and again for as long as the block runs."""
        builds = cls()
        task = asyncio.create_task(builds._watch(app))
        try:
            yield builds
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def was_building(self, since: float, until: float) -> bool:
        """Whether it was, at some moment between two."""
        return any(first <= until and since <= last for first, last in self.spans)

    def seconds(self) -> float:
        """For how long altogether."""
        return sum(last - first for first, last in self.spans)

    async def _watch(self, app: App) -> None:
        is_building = False
        while True:
            now = time.perf_counter()
            found = await _count(app, _BUILDING)
            if found and is_building:
                self.spans[-1][1] = now
            elif found:
                self.spans.append([now, now])
            is_building = bool(found)
            await asyncio.sleep(_POLL_S)


async def until_settled(app: App) -> None:
    """Wait until the database has had nothing to do for a while, vacuuming included.

    A search comes first: it is what lets the vector index be built.
    """
    await app.search("whatever it is")
    limit = time.perf_counter() + LIMIT_S
    quiet_since = time.perf_counter()
    while time.perf_counter() - quiet_since < QUIET_S:
        if time.perf_counter() > limit:
            raise SystemExit(f"The database is still busy after {LIMIT_S:.0f} s")
        if await _count(app, _BUSY):
            quiet_since = time.perf_counter()
        await asyncio.sleep(_POLL_S)


async def until_built(app: App) -> None:
    """Wait until there is a vector index, as long as one may take."""
    limit = time.perf_counter() + BUILT_WITHIN_S
    while not await has_vector_index(app):
        if time.perf_counter() > limit:
            return
        await asyncio.sleep(_POLL_S)


async def has_vector_index(app: App) -> bool:
    """Whether nearest neighbours are looked up in an index."""
    async with app.enter(readonly=True) as here:
        return bool(await here.tx.fetch_all(_VECTOR_INDEXES))


async def drop_vector_indexes(app: App) -> None:
    """Make an index run find none."""
    async with app.enter() as here:
        for (name,) in await here.tx.fetch_all(_VECTOR_INDEXES):
            await here.tx.become_owner()
            await here.tx.run_script(f"DROP INDEX {name}")


async def _count(app: App, statement: str) -> int:
    async with app.enter(readonly=True) as here:
        [[found]] = await here.tx.fetch_all(statement)
    return int(found)
