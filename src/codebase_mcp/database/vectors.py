"""How are the nearest of many observations found without comparing all of them?

Below some thousands their vectors are all compared. Above, pgvector's IVFFlat index keeps them in
lists of neighbours, and a search looks into a share of the lists: it finds less per millisecond
than HNSW, but takes a new vector at once, and observations come one by one. Vectors of chunks are
`nearest.py`'s.
"""

from __future__ import annotations

from math import isqrt

from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Transaction

_SQL = load_queries("codebase_mcp.database", "vectors.sql")

# Up to so many vectors are compared one by one: about 0.3 µs each.
EXACT_VECTORS = 10_000

# pgvector indexes no halfvec of more dimensions; longer ones are all compared, however many.
MAX_INDEXED_DIMENSION = 4_000

# The share of the lists that a search looks into.
PROBED_SHARE = 0.1


def wanted_lists(vectors: int) -> int:
    """How many lists an index of so many vectors should have."""
    return max(50, isqrt(vectors))


def probes(vectors: int) -> int:
    """How many lists a search should look into."""
    return max(1, round(wanted_lists(vectors) * PROBED_SHARE))


async def wants_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Whether the index is missing and worth having, or has become too coarse."""
    if vectors < EXACT_VECTORS or dimension > MAX_INDEXED_DIMENSION:
        return False
    found = await tx.fetch_one(_SQL["vector_index_lists"], dimension=dimension)
    return found is None or found[0] * 2 <= wanted_lists(vectors)


async def tend_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Build the index where it is missing and worth having, again where it has become too coarse.

    Searches go on meanwhile; other writers of the table wait. Returns whether it was built.
    """
    if not await wants_vector_index(tx, dimension, vectors):
        return False
    await tx.execute(_SQL["work_memory"])
    lists = wanted_lists(vectors)
    await tx.execute(write_numbers(_SQL["build"], dimension=dimension, lists=lists))
    await tx.execute(_SQL["drop"])
    await tx.execute(_SQL["name"])
    return True
