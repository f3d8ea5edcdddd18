"""How are the nearest of many vectors found without comparing all of them?

Below some thousands they are all compared. Above, pgvector's IVFFlat index keeps them in lists of
neighbours, and a search looks into a share of the lists. Why not HNSW: it finds more per
millisecond, but takes a new vector two milliseconds where this takes some microseconds, and so
could not be there while an index run goes on. On 42,720 chunks of code, in one run on a busy
machine: built in 1.8 s (HNSW, m = 12: 8.1 s); with a tenth of 200 lists looked into, 92 % of the 10
nearest are found (HNSW, ef_search 200: 99 %).

Vectors of chunks lie side by side for every profile that the project's repositories were indexed
with; each profile has an index of its own, of its model's dimension.
"""

from __future__ import annotations

from math import isqrt
from typing import Literal, LiteralString

from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Transaction

_SQL = load_queries("codebase_mcp.database", "vectors.sql")

# The tables of vectors; the index of each is named after it, that of a profile's chunks after both.
VectorTable = Literal["chunk_vector", "observation_vector"]

# Up to so many vectors are compared one by one: about 0.3 µs each.
EXACT_VECTORS = 10_000

# pgvector indexes no halfvec of more dimensions; longer ones are all compared, however many.
MAX_INDEXED_DIMENSION = 4_000

# The share of the lists that a search looks into.
PROBED_SHARE = 0.1


def sized(query: LiteralString, dimension: int, profile_id: int = 0) -> LiteralString:
    """A statement for vectors of a dimension, of a profile: both are written out where it says 0.

    pgvector indexes only expressions whose dimension is written out, and a parameter cannot be.
    That the profile is written out too lets every plan see that its partial index will do.
    """
    number, profile = int(dimension), int(profile_id)
    return (
        query.replace("halfvec(0)", f"halfvec({number})")
        .replace("vector_dims(dense) = 0", f"vector_dims(dense) = {number}")
        .replace("profile_id = 0", f"profile_id = {profile}")
        .replace("chunk_vector_near_0", f"chunk_vector_near_{profile}")
    )


def wanted_lists(vectors: int) -> int:
    """How many lists an index of so many vectors should have."""
    return max(50, isqrt(vectors))


def probes(vectors: int) -> int:
    """How many lists a search should look into."""
    return max(1, round(wanted_lists(vectors) * PROBED_SHARE))


async def wants_vector_index(
    tx: Transaction,
    dimension: int,
    vectors: int,
    table: VectorTable = "chunk_vector",
    profile_id: int = 0,
) -> bool:
    """Whether the index is missing and worth having, or has become too coarse."""
    if vectors < EXACT_VECTORS or dimension > MAX_INDEXED_DIMENSION:
        return False
    index = f"{table}_near_{profile_id}" if table == "chunk_vector" else f"{table}_near"
    found = await tx.fetch_one(_SQL["vector_index_lists"], index=index, dimension=dimension)
    return found is None or found[0] * 2 <= wanted_lists(vectors)


async def tend_vector_index(
    tx: Transaction,
    dimension: int,
    vectors: int,
    table: VectorTable = "chunk_vector",
    profile_id: int = 0,
) -> bool:
    """Build the index where it is missing and worth having, again where it has become too coarse.

    Searches go on meanwhile; other writers of the table wait. Returns whether it was built.
    """
    if not await wants_vector_index(tx, dimension, vectors, table, profile_id):
        return False
    await tx.execute(_SQL["work_memory"])
    lists = f"lists = {wanted_lists(vectors)}"
    build = sized(_SQL[f"build_{table}"], dimension, profile_id)
    await tx.execute(build.replace("lists = 0", lists))
    await tx.execute(sized(_SQL[f"drop_{table}"], dimension, profile_id))
    await tx.execute(sized(_SQL[f"name_{table}"], dimension, profile_id))
    return True


async def drop_vector_index(tx: Transaction, profile_id: int) -> None:
    """Drop the index of a profile whose chunks have no vectors any more, if there is one."""
    await tx.execute(sized(_SQL["drop_chunk_vector"], 0, profile_id))
