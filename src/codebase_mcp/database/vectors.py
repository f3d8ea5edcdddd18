"""How are the nearest observations found without comparing all of them?

A few thousand vectors are compared exactly. Beyond that pgvector's IVFFlat index keeps them in
lists of neighbours, and a search probes a share of the lists. Its recall per millisecond is below
that of HNSW, but inserts are cheap, and observations come one at a time. For vectors of chunks see
`nearest.py`.
"""

from __future__ import annotations

from math import isqrt
from typing import LiteralString

from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Transaction

_SQL = load_queries("codebase_mcp.database", "vectors.sql")

# Up to this many vectors are compared exactly: about 0.3 µs each.
EXACT_VECTORS = 10_000

# pgvector cannot index longer halfvecs; those are always compared exactly.
MAX_INDEXED_DIMENSION = 4_000

# The share of the lists that a search probes.
PROBED_SHARE = 0.1


def sized(
    query: LiteralString, dimension: int, profile_id: int = 0, sealed: int = 0
) -> LiteralString:
    """A statement for vectors of a dimension, of a profile, in an index up to a time.

    The values replace the zeros in the text. pgvector only indexes expressions with a literal
    dimension, which a parameter is not. The other values are literals so that the planner can
    choose a partial index.
    """
    number, profile, time = int(dimension), int(profile_id), int(sealed)
    return (
        query.replace("halfvec(0)", f"halfvec({number})")
        .replace("vector_dims(dense) = 0", f"vector_dims(dense) = {number}")
        .replace("profile_id = 0", f"profile_id = {profile}")
        .replace("added <= 0", f"added <= {time}")
        .replace("added > 0", f"added > {time}")
        .replace("chunk_vector_near_0_0", f"chunk_vector_near_{profile}_{time}")
    )


def wanted_lists(vectors: int) -> int:
    """The number of lists that suits an index of this size."""
    return max(50, isqrt(vectors))


def probes(vectors: int) -> int:
    """The number of lists that a search should probe."""
    return max(1, round(wanted_lists(vectors) * PROBED_SHARE))


async def wants_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Whether the index is missing and worth having, or has become too coarse."""
    if vectors < EXACT_VECTORS or dimension > MAX_INDEXED_DIMENSION:
        return False
    found = await tx.fetch_one(_SQL["vector_index_lists"], dimension=dimension)
    return found is None or found[0] * 2 <= wanted_lists(vectors)


async def maintain_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Build the index if it is missing and worth having; rebuild it if it has become too coarse.

    Searches continue meanwhile; other writers of the table wait. Returns whether it was built.
    """
    if not await wants_vector_index(tx, dimension, vectors):
        return False
    await tx.execute(_SQL["work_memory"])
    build = sized(_SQL["build"], dimension)
    await tx.execute(build.replace("lists = 0", f"lists = {wanted_lists(vectors)}"))
    await tx.execute(_SQL["drop"])
    await tx.execute(_SQL["name"])
    return True
