"""Which commits are searchable, and which refs led to them?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.index import store

_SQL = load_queries("codebase_mcp.index", "refs.sql")

# How many of the refs used last are remembered beside the branches that are kept.
MAX_USED_REFS = 50


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """The snapshot of a commit, which is searchable also before it is complete."""

    snapshot_id: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class StoredRef:
    """A ref that led to a commit."""

    name: str
    commit: str


async def load_commit(tx: Transaction, repository_id: UUID, commit: str) -> StoredCommit | None:
    row = await tx.fetch_one(_SQL["commit"], repository_id=repository_id, commit=commit)
    return None if row is None else StoredCommit(*row)


async def load_refs(tx: Transaction, repository_id: UUID) -> list[StoredRef]:
    """The refs of a repository that led to commits, the last used first."""
    rows = await tx.fetch_all(_SQL["refs"], repository_id=repository_id)
    return [StoredRef(*row) for row in rows]


async def remember_ref(
    tx: Transaction, repository_id: UUID, name: str, commit: str, *, is_kept: bool = False
) -> None:
    await tx.execute(
        _SQL["remember"], repository_id=repository_id, name=name, commit=commit, is_kept=is_kept
    )


async def keep_only(tx: Transaction, repository_id: UUID, names: Collection[str]) -> None:
    await tx.execute(_SQL["keep_only"], repository_id=repository_id, kept=list(names))


async def forget_refs(tx: Transaction, repository_id: UUID, gone: Sequence[str] = ()) -> int:
    """Forget refs that are ``gone`` or have not been used for long, and commits without a ref.

    Returns the number of snapshots that were dropped.
    """
    await tx.lock(store.WRITE_LOCK)
    await tx.execute(
        _SQL["forget"], repository_id=repository_id, gone=list(gone), most=MAX_USED_REFS
    )
    dropped = await tx.execute(_SQL["drop_unnamed"], repository_id=repository_id)
    if dropped:
        await store.clear(tx)
    return dropped
