"""How are the nearest observations found without comparing all of them?

Up to some thousands of vectors, all are compared. Beyond that, pgvector's IVFFlat index keeps them
in lists of neighbours, and a search reads a share of the lists. It finds less per millisecond than
HNSW, but a new vector is inserted at once, and observations come singly. The vectors of chunks
are the subject of `nearest.py`.
"""

from __future__ import annotations

from math import isqrt

from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Transaction

_SQL = load_queries("codebase_mcp.database", "vectors.sql")

# Up to this many vectors are all compared, which takes about 0.3 µs each.
EXACT_VECTORS = 10_000

# pgvector cannot index a halfvec with more dimensions; longer vectors are always all compared.
MAX_INDEXED_DIMENSION = 4_000

# The share of the lists that a search reads.
PROBED_SHARE = 0.1


def wanted_lists(vectors: int) -> int:
    """How many lists an index of this many vectors should have."""
    return max(50, isqrt(vectors))


def probes(vectors: int) -> int:
    """How many lists a search should read."""
    return max(1, round(wanted_lists(vectors) * PROBED_SHARE))


async def wants_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Whether the index is worth having and missing, or has too few lists by now."""
    if vectors < EXACT_VECTORS or dimension > MAX_INDEXED_DIMENSION:
        return False
    row = await tx.fetch_one(_SQL["vector_index_lists"], dimension=dimension)
    return row is None or row[0] * 2 <= wanted_lists(vectors)


async def maintain_vector_index(tx: Transaction, dimension: int, vectors: int) -> bool:
    """Build the index if it is worth having and missing, or has too few lists by now.

    Searches continue meanwhile; other writers of the table wait. Returns whether it was built.
    """
    if not await wants_vector_index(tx, dimension, vectors):
        return False
    await tx.become_owner()
    await tx.execute(_SQL["work_memory"])
    lists = wanted_lists(vectors)
    await tx.execute(write_numbers(_SQL["build"], dimension=dimension, lists=lists))
    await tx.execute(_SQL["drop"])
    await tx.execute(_SQL["name"])
    return True
