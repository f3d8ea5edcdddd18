"""What does the index contain of each repository? Counted before it is cleared."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries

_SQL = load_queries("codebase_mcp.index", "holdings.sql")


async def repositories_of(tx: Transaction) -> list[tuple[UUID, str]]:
    """Every repository of the project with its root, also while its first run is active."""
    return [(row[0], row[1]) for row in await tx.fetch_all(_SQL["repositories"])]


async def count_holdings(tx: Transaction, repositories: Sequence[UUID]) -> int:
    """The number of files, chunks and vectors of these repositories."""
    if not repositories:
        return 0
    row = await tx.fetch_one(_SQL["count"], ids=list(repositories))
    assert row is not None
    return int(row[0])
