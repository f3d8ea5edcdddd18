"""Which commits are searchable, and by which names were they asked for?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.index import store

_SQL = load_queries("codebase_mcp.index", "refs.sql")

# How many names are remembered beside the branches that are kept: those used last.
MAX_USED_REFS = 50


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """The snapshot of a commit; it is searchable also before it is complete."""

    snapshot_id: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class StoredRef:
    """A name by which a commit was asked for."""

    name: str
    commit: str


async def load_commit(tx: Transaction, repository_id: UUID, commit: str) -> StoredCommit | None:
    """The snapshot of a commit, if it has one."""
    row = await tx.fetch_one(_SQL["commit"], repository_id=repository_id, commit=commit)
    return None if row is None else StoredCommit(*row)


async def load_refs(tx: Transaction, repository_id: UUID) -> list[StoredRef]:
    """The names by which commits of a repository were asked for."""
    rows = await tx.fetch_all(_SQL["refs"], repository_id=repository_id)
    return [StoredRef(*row) for row in rows]


async def remember_ref(
    tx: Transaction, repository_id: UUID, name: str, commit: str, *, is_kept: bool = False
) -> None:
    """The commit was asked for by this name."""
    await tx.execute(
        _SQL["remember"], repository_id=repository_id, name=name, commit=commit, is_kept=is_kept
    )


async def keep_only(tx: Transaction, repository_id: UUID, names: Collection[str]) -> None:
    """Of the branches that are kept, only these are from now on."""
    await tx.execute(_SQL["keep_only"], repository_id=repository_id, kept=list(names))


async def forget_refs(tx: Transaction, repository_id: UUID, gone: Sequence[str] = ()) -> int:
    """Forget names that lead nowhere, those not used for long, and commits without a name.

    Returns the number of snapshots that were dropped.
    """
    await tx.lock(store.WRITE_LOCK)
    here = {"repository_id": repository_id}
    await tx.execute(_SQL["forget"], **here, gone=list(gone), most=MAX_USED_REFS)
    dropped = await tx.execute(_SQL["drop_unnamed"], **here)
    if dropped:
        await store.clear(tx)
    return dropped
