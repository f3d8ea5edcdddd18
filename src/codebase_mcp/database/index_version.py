"""How does a copy of an index in memory know that it is out of date? By the index's version."""

from __future__ import annotations

from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Transaction

_SQL = load_queries("codebase_mcp.database", "index_version.sql")


async def renew_index_version(tx: Transaction) -> None:
    """Give the index a new version, in the transaction that changes what searches look at."""
    await tx.execute(_SQL["renew"])
