"""The index of vectors is built beside searches and runs, finds nearly all, and fills the limit."""

from __future__ import annotations

import asyncio
import sysconfig
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.database.test_vectors import (
    FILL,
    REPOSITORY,
    add_files,
    fill,
    near_indexes,
)

from codebase_mcp.database import nearest
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import dense_literal
from codebase_mcp.database.naming import Project
from codebase_mcp.database.nearest import NearestIndexes, maintain_near_indexes
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import DatabaseUnavailable
from codebase_mcp.index import secondary_model, store
from codebase_mcp.search.candidates import RANKED_BY_MEANING, find_candidates
from codebase_mcp.search.lists import DatabaseLists
from codebase_mcp.search.query import parse_query
from codebase_mcp.search.scope import FileFilters, QueryVector, load_scope

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
MANY = 10_500

QUESTIONS = (
    "where are failed requests retried", "parse json", "close the socket", "user login",
    "read a configuration file", "format a date", "walk a directory tree", "spawn a process",
    "compress data", "HTTPServer", "regular expression groups", "raise an error when a key is gone",
    "sort numbers", "thread pool", "send an email", "unicode normalisation", "random choice",
    "test that a file is closed", "import a module by name", "draw a window",
)  # fmt: skip

STORE = """
INSERT INTO chunk_vector (profile_id, blob_id, ordinal, dense)
SELECT %(profile_id)s, n, 0, dense::halfvec
FROM unnest(%(vectors)s::text[]) WITH ORDINALITY AS v (dense, n)
"""
EXACT = """
SELECT blob_id, dense <#> %(vector)s::halfvec
FROM chunk_vector
ORDER BY 2
LIMIT 10
"""
WAITING = """
SELECT count(*)
FROM pg_stat_activity
WHERE query LIKE 'CREATE INDEX CONCURRENTLY%%' AND wait_event_type = 'Lock'
  AND query LIKE '%%profile_id = ' || %(profile_id)s::text || ' %%'
  AND pid IN (SELECT pid FROM pg_locks WHERE relation = to_regclass('chunk_vector'))
"""


def pieces_of_code() -> list[str]:
    """Some thousand pieces of the standard library."""
    found: list[str] = []
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        lines = file.read_text(encoding="utf-8", errors="ignore").splitlines()
        found += ["\n".join(lines[first : first + 8]) for first in range(0, len(lines), 8)]
    return found[:MANY]


async def nearest_by_search(
    tx: Transaction, profile: Profile, question: str, embedder: StaticEmbedder, filters: FileFilters
) -> list[int]:
    """The texts that a search finds by meaning, the nearest first."""
    query = parse_query(question)
    scope = await load_scope(tx, query, {}, filters)
    asked = QueryVector(scope.profiles[0], await embedder.embed_query(question))
    assert asked.profile.id == profile.id
    found = await find_candidates(DatabaseLists(tx, query, scope), [asked])
    by_meaning = [c for c in found.files if c.evidence.meaning]
    by_meaning.sort(key=lambda c: -c.evidence.best_meaning)
    return [c.blob_id for c in by_meaning]


async def store_vectors(tx: Transaction, profile: Profile, texts: Sequence[str]) -> None:
    embedder = StaticEmbedder.load()
    vectors = list(map(dense_literal, await embedder.embed_passages(texts)))
    await tx.execute(STORE, profile_id=profile.id, vectors=vectors)


async def test_the_index_finds_nearly_all_and_fills_the_limit_whatever_the_filters_leave(
    few_are_many: None, database: Database, project: Project
) -> None:
    embedder = StaticEmbedder.load()
    texts = pieces_of_code()
    assert len(texts) == MANY
    async with database.transaction(project) as tx:
        profile = await fill(tx, "real", embedder.dimension, 0)
        await store_vectors(tx, profile, texts)
        await add_files(tx, profile)
        await tx.execute(
            "UPDATE file SET path = CASE WHEN blob_id %% 200 = 0 THEN 'few/'"
            " WHEN blob_id %% 5 = 0 THEN 'some/' ELSE 'rest/' END || path"
        )
        await store.flush_and_analyze(tx)
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert await near_indexes(tx, profile)
        right = 0
        for question in QUESTIONS:
            found = await nearest_by_search(tx, profile, question, embedder, FileFilters())
            vector = dense_literal(await embedder.embed_query(question))
            exact = await tx.fetch_all(EXACT, vector=vector)
            # Texts that are alike may change places.
            right += len({blob_id for blob_id, _ in exact} & set(found[:12]))
        assert right >= 0.99 * 10 * len(QUESTIONS)
        for filters in (
            FileFilters(directory="few"),
            FileFilters(directory="**/few"),
            FileFilters(directory="some"),
            FileFilters(extensions=("py",)),
            FileFilters(languages=("python",), directory="rest"),
        ):
            for question in QUESTIONS[:5]:
                found = await nearest_by_search(tx, profile, question, embedder, filters)
                assert len(found) == RANKED_BY_MEANING, filters
        none = await nearest_by_search(
            tx, profile, QUESTIONS[0], embedder, FileFilters(extensions=("rs",))
        )
        assert none == []


async def test_some_ten_thousand_vectors_are_all_compared_also_where_an_index_was_built(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        profile = await fill(tx, "real", 256, MANY)
        await add_files(tx, profile)
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert not await near_indexes(tx, profile)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "EXACT_NUMBERS", 0)
        await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert await near_indexes(tx, profile)
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert not await near_indexes(tx, profile)


async def make_profile(database: Database, project: Project) -> Profile:
    """A profile with enough vectors for an index."""
    async with database.transaction(project) as tx:
        profile = await fill(tx, "many", 8, 500)
        await add_files(tx, profile, 500)
    return profile


@asynccontextmanager
async def held_open(
    database: Database, project: Project, profile: Profile
) -> AsyncIterator[asyncio.Task[None]]:
    """A build that cannot end before the block does: it waits for an older transaction."""
    async with database.transaction(project) as older:
        await older.execute(FILL, profile_id=profile.id + 100, dimension=2, count=1)
        task = asyncio.create_task(maintain_near_indexes(database, project))
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with database.transaction(project, readonly=True) as tx:
                    await tx.become_owner()
                    row = await tx.fetch_one(WAITING, profile_id=profile.id)
                if row == (1,):
                    break
                assert not task.done()
        yield task


async def is_valid(tx: Transaction) -> list[bool]:
    """Of each vector index, whether it is valid."""
    rows = await tx.fetch_all(
        "SELECT i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid"
        " WHERE i.indrelid = to_regclass('chunk_vector') AND c.relname LIKE '%%near%%'"
    )
    return [valid for (valid,) in rows]


async def test_searches_and_runs_go_on_while_an_index_is_built(
    few_are_many: None, database: Database, project: Project
) -> None:
    profile = await make_profile(database, project)
    async with held_open(database, project, profile) as task:
        async with asyncio.timeout(PATIENCE_S):
            async with database.transaction(project) as tx:
                await tx.lock(store.WRITE_LOCK)
                await tx.execute(FILL, profile_id=profile.id + 200, dimension=2, count=5)
                await store.flush_and_analyze(tx)
            async with database.transaction(project, readonly=True) as tx:
                scope = await load_scope(tx, parse_query("anything"), {}, FileFilters())
                assert scope.sealed == {}  # so the search compares all
                rows = await tx.fetch_all("SELECT count(*) FROM chunk_vector")
                assert rows == [(505,)]
            await maintain_near_indexes(database, project)  # somebody is at it already
            async with database.transaction(project) as tx:
                await store.remove_repository(tx, REPOSITORY)
        assert not task.done()
    await task
    async with database.transaction(project, readonly=True) as tx:
        assert all(await is_valid(tx))


async def test_a_build_that_is_given_up_leaves_nothing(
    few_are_many: None, database: Database, project: Project
) -> None:
    profile = await make_profile(database, project)
    async with held_open(database, project, profile) as task:
        async with database.transaction(project, readonly=True) as tx:
            assert await is_valid(tx) == [False]
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.transaction(project, readonly=True) as tx:
        assert await is_valid(tx) == []


async def test_what_a_killed_build_left_is_dropped_by_the_next(
    few_are_many: None, database: Database, project: Project
) -> None:
    profile = await make_profile(database, project)
    async with held_open(database, project, profile) as task:
        async with database.transaction(project) as tx:
            await tx.become_owner()
            await tx.fetch_all(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE"
                f" 'CREATE INDEX CONCURRENTLY chunk_vector_near_{profile.id}_%%'"  # type: ignore[arg-type]
            )
        with pytest.raises(DatabaseUnavailable):
            await task
        async with database.transaction(project, readonly=True) as tx:
            assert await is_valid(tx) == [False]
            assert (await load_scope(tx, parse_query("anything"), {}, FileFilters())).sealed == {}
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert await is_valid(tx) == [True]


async def test_newer_vectors_are_found_at_once_and_get_into_an_index_when_they_are_many(
    few_are_many: None, database: Database, project: Project
) -> None:
    profile = await make_profile(database, project)
    await maintain_near_indexes(database, project)
    async with database.transaction(project) as tx:
        first = await near_indexes(tx, profile)
        await tx.execute(
            "INSERT INTO chunk_vector (profile_id, blob_id, ordinal, dense)"
            " SELECT profile_id, blob_id, n, dense FROM chunk_vector, generate_series(1, 2) AS n"
            " WHERE blob_id <= 40"
        )
    await maintain_near_indexes(database, project)  # 80 more: too few
    async with database.transaction(project) as tx:
        assert await near_indexes(tx, profile) == first
        await tx.execute(
            "INSERT INTO chunk_vector (profile_id, blob_id, ordinal, dense)"
            " SELECT profile_id, blob_id, 9, dense FROM chunk_vector WHERE ordinal = 0"
        )
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        [second] = await near_indexes(tx, profile)
        assert second not in first


async def test_a_change_is_followed_by_a_build_in_the_background(
    few_are_many: None,
    monkeypatch: pytest.MonkeyPatch,
    database: Database,
    project: Project,
) -> None:
    monkeypatch.setattr(nearest, "QUIET_S", 0.0)
    profile = await make_profile(database, project)
    indexes = NearestIndexes(database)
    indexes.schedule(project, {"first"})
    await indexes.wait_idle()
    async with database.transaction(project) as tx:
        [name] = await near_indexes(tx, profile)
        await tx.become_owner()
        await tx.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
    indexes.schedule(project, {"first"})
    await indexes.wait_idle()
    async with database.transaction(project, readonly=True) as tx:
        assert await near_indexes(tx, profile) == []  # nothing had changed
    indexes.schedule(project, {"second"})
    await indexes.wait_idle()
    async with database.transaction(project, readonly=True) as tx:
        assert await near_indexes(tx, profile) == [name]
    await indexes.close()
    indexes.schedule(project, {"third"})
    await indexes.wait_idle()


async def test_the_secondary_model_has_an_index_of_its_own_until_it_is_dropped(
    few_are_many: None, database: Database, project: Project
) -> None:
    first = await make_profile(database, project)
    async with database.transaction(project) as tx:
        second = await secondary_model.open_secondary(tx, Profile(0, "second-two", "two", 4))
        await tx.execute(FILL, profile_id=second.id, dimension=4, count=500)
    await maintain_near_indexes(database, project)
    async with database.transaction(project) as tx:
        assert len(await near_indexes(tx, first)) == len(await near_indexes(tx, second)) == 1
        assert await secondary_model.drop(tx)
        assert await near_indexes(tx, second) == []
        assert len(await near_indexes(tx, first)) == 1
