"""Vectors of several models side by side: each found by an index of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.migrate import migrate
from codebase_mcp.database.naming import Project
from codebase_mcp.database.nearest import (
    EXACT_VECTORS,
    MAX_INDEXED_DIMENSION,
    NearIndex,
    maintain_near_indexes,
    sealed_times,
)
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.index import store
from codebase_mcp.index.identity import View

pytestmark = pytest.mark.anyio

_SEARCH = load_queries("codebase_mcp.search", "search.sql")

MANY = EXACT_VECTORS + 500
REPOSITORY = UUID(int=1)

FILL = """
INSERT INTO chunk_vector (profile_id, blob_id, ordinal, dense)
SELECT %(profile_id)s, n, 0, ARRAY(
    SELECT sin(n * %(profile_id)s + place * (n %% 97))
    FROM generate_series(1, %(dimension)s) AS place
)::halfvec
FROM generate_series(1, %(count)s) AS n
"""
BLOBS = """
INSERT INTO blob (id, hash, language, generation, chunk_count, text, comments)
SELECT n, '', 'python', 1, 1, '', '{}/1000000000'
FROM generate_series(1, %(count)s) AS n
"""
FILES = """
INSERT INTO file (snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind,
                  name_terms)
SELECT %(snapshot_id)s, n || '.py', n, 1, 1, 1, 'python', 'py', 'code', '{}'
FROM generate_series(1, %(count)s) AS n
"""
PROFILE = """
INSERT INTO profile (fingerprint, model, dimension)
VALUES (%(name)s, %(name)s, %(dimension)s)
RETURNING id
"""


async def fill(tx: Transaction, name: str, dimension: int, count: int) -> Profile:
    """A profile with so many vectors."""
    row = await tx.fetch_one(PROFILE, name=name, dimension=dimension)
    assert row is not None
    await tx.execute(FILL, profile_id=row[0], dimension=dimension, count=count)
    return Profile(row[0], name, name, dimension)


async def plan_of(tx: Transaction, name: str, profile: Profile, sealed: int, **more: object) -> str:
    """How a statement of the search is run, as the search runs it."""
    await tx.fetch_all(_SEARCH["prepare"], searched="100", most="20000", most_hidden=1)
    vector = await nearest_to(tx, profile, 7)
    statement = NearIndex(profile.id, sealed).write_into(_SEARCH[name], dimension=profile.dimension)
    rows = await tx.fetch_all(
        "EXPLAIN " + statement,  # type: ignore[arg-type]
        vector=vector,
        limit=10,
        **({"hidden": "{}"} | more),
    )
    return "\n".join(row[0] for row in rows)


async def near_indexes(tx: Transaction, profile: Profile) -> list[str]:
    """The vector indexes of a profile, by name."""
    rows = await tx.fetch_all(
        "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
        " AND indexname LIKE %(pattern)s",
        pattern=f"chunk\\_vector\\_near\\_{profile.id}\\_%",
    )
    return [name for (name,) in rows]


async def sealed_of(tx: Transaction, profile: Profile) -> int:
    """Up to which time a profile's vectors are in its index."""
    return sealed_times(await near_indexes(tx, profile))[profile.id]


async def nearest_to(tx: Transaction, profile: Profile, blob_id: int) -> str:
    """The vector of a chunk, as text."""
    row = await tx.fetch_one(
        "SELECT dense::text FROM chunk_vector"
        " WHERE profile_id = %(profile_id)s AND blob_id = %(blob_id)s",
        profile_id=profile.id,
        blob_id=blob_id,
    )
    assert row is not None
    text: str = row[0]
    return text


async def add_files(tx: Transaction, profile: Profile, count: int = MANY) -> store.Snapshot:
    """A repository whose files hold these chunks."""
    await tx.execute(
        "INSERT INTO repository (id, root, name) VALUES (%(id)s, '/r', 'r')", id=REPOSITORY
    )
    snapshot = await store.open_snapshot(tx, View(REPOSITORY), profile, rebuild=False)
    await tx.execute(BLOBS, count=count)
    await tx.execute(FILES, count=count, snapshot_id=snapshot.id)
    return snapshot


async def test_each_of_two_large_models_is_searched_by_its_own_index(
    few_are_many: None, database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        first = await fill(tx, "first", 32, MANY)
        snapshot = await add_files(tx, first)
        await store.flush_and_analyze(tx)
    await maintain_near_indexes(database, project)
    async with database.transaction(project) as tx:
        second = await fill(tx, "second", 24, MANY)  # the first one's index takes no harm
        await store.open_snapshot(tx, View(REPOSITORY), second, rebuild=True)
        await store.flush_and_analyze(tx)
    await maintain_near_indexes(database, project)
    filters = {
        "snapshots": f"{{{snapshot.id}}}",
        "languages": None,
        "directory": None,
        "kinds": None,
    }
    filters["extensions"] = ["py"]
    async with database.transaction(project, readonly=True) as tx:
        for profile in (first, second):
            sealed = await sealed_of(tx, profile)
            for name, more in (("meaning_sealed", {}), ("meaning_sealed_filtered", filters)):
                plan = await plan_of(tx, name, profile, sealed, **more)
                assert f"chunk_vector_near_{profile.id}_{sealed}" in plan, plan
        for profile in (first, second):
            vector = await nearest_to(tx, profile, 7)
            sealed = await sealed_of(tx, profile)
            statement = NearIndex(profile.id, sealed).write_into(
                _SEARCH["meaning_sealed"], dimension=profile.dimension
            )
            for _ in range(7):  # from the sixth time on the statement is prepared
                found = await tx.fetch_all(statement, vector=vector, limit=10, hidden="{}")
            assert 7 in {blob_id for blob_id, _, _ in found}


async def test_a_small_model_beside_a_large_one_is_compared_exactly(
    few_are_many: None, database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        large = await fill(tx, "large", 24, 500)
        small = await fill(tx, "small", 8, 100)
        await add_files(tx, large, 500)
        await store.open_snapshot(tx, View(REPOSITORY), small, rebuild=True)
        await store.flush_and_analyze(tx)
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert await near_indexes(tx, large)
        assert not await near_indexes(tx, small)
        vector = await nearest_to(tx, small, 7)
        found = await tx.fetch_all(
            write_numbers(_SEARCH["meaning"], profile_id=small.id),
            vector=vector,
            limit=300,
            hidden="{}",
        )
        assert len(found) == 100


async def test_vectors_too_long_for_an_index_are_all_compared(
    database: Database, project: Project
) -> None:
    dimension = MAX_INDEXED_DIMENSION + 96
    async with database.transaction(project) as tx:
        long = await fill(tx, "long", dimension, 30)
        await add_files(tx, long)
        await tx.execute(  # many in number, as far as anybody counts
            "INSERT INTO chunk_vector (profile_id, blob_id, ordinal, dense)"
            " SELECT profile_id, blob_id, n, dense FROM chunk_vector, generate_series(1, 400) AS n"
        )
        await store.flush_and_analyze(tx)
    await maintain_near_indexes(database, project)
    async with database.transaction(project, readonly=True) as tx:
        assert not await near_indexes(tx, long)
        vector = await nearest_to(tx, long, 7)
        found = await tx.fetch_all(
            write_numbers(_SEARCH["meaning"], profile_id=long.id),
            vector=vector,
            limit=401,
            hidden="{}",
        )
    assert {blob_id for blob_id, _, _ in found} == {7}


async def test_an_index_goes_with_the_last_snapshot_of_its_profile(
    few_are_many: None, database: Database, project: Project
) -> None:
    async with database.transaction(project) as tx:
        profile = await fill(tx, "gone", 8, 500)
        await add_files(tx, profile, 500)
    await maintain_near_indexes(database, project)
    async with database.transaction(project) as tx:
        assert await near_indexes(tx, profile)
        await store.remove_repository(tx, REPOSITORY)
        assert not await near_indexes(tx, profile)


OLD_ROWS = """
INSERT INTO profile (fingerprint, model, dimension)
VALUES ('1.1.1-b', 'builtin', 3), ('1.1.1-o', 'other', 3);
INSERT INTO blob (id, hash, language, profile_id, generation, chunk_count, text, comments)
SELECT n, '', 'c', 1 + n % 2, 1, 1, '', '{}/1000000000' FROM generate_series(1, 4) AS n;
INSERT INTO chunk_vector (blob_id, ordinal, dense)
SELECT n, 0, '[1,2,3]' FROM generate_series(1, 4) AS n;
CREATE INDEX chunk_vector_near
ON chunk_vector USING ivfflat ((dense::halfvec(3)) halfvec_ip_ops) WITH (lists = 1);
"""


async def test_vectors_of_before_belong_to_the_model_that_made_them(database: Database) -> None:
    project = Project(None, f"project_test_{uuid4().hex[:12]}", datetime.now(UTC))
    async with database.unmigrated(project.schema_name) as tx:
        await migrate(tx, "project", project.schema_name, version=2)
        await tx.run_script(OLD_ROWS)
    async with database.transaction(project) as tx:
        rows = await tx.fetch_all("SELECT blob_id, profile_id FROM chunk_vector ORDER BY 1")
        assert rows == [(1, 2), (2, 1), (3, 2), (4, 1)]
        sources = await tx.fetch_all("SELECT source, provider, slope FROM profile ORDER BY id")
        assert sources == [(None, "static", 1.0), ("other", "static", 1.0)]
        assert await tx.fetch_one("SELECT to_regclass('chunk_vector_near')") == (None,)
        await fill(tx, "longer", 5, 10)
        await tx.become_owner()
        await tx.execute(f"DROP SCHEMA {project.schema_name} CASCADE")  # type: ignore[arg-type]
