"""Which trees are indexed in a project, and which are being indexed or watched?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.naming import behind_lock, index_lock, watch_lock
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.index.plan import StoredFile

_SQL = load_queries("codebase_mcp.index", "trees.sql")


@dataclass(frozen=True, slots=True)
class Tree:
    """A repository, its active snapshot, and whether it is being indexed or watched.

    ``is_watched`` means that a process follows all changes of its files and has indexed all of
    them; ``was_cancelled`` that a user cancelled its last run. ``ignore_patterns`` leave out files
    beside what settings say.
    """

    repository_id: UUID
    root: Path
    snapshot_id: int
    generation: int
    files_pending: int
    is_complete: bool
    selected_by: str
    ignore_patterns: list[str]
    was_cancelled: bool
    profile: Profile
    is_running: bool
    is_watched: bool


@dataclass(frozen=True, slots=True)
class TreeState:
    """Whether the index of a repository is up to date; ``pending`` files are known to differ."""

    state: Literal["ready", "indexing", "incomplete", "outdated", "stale", "unchecked"]
    pending: int = 0
    checked_at: datetime | None = None


async def load_trees(tx: Transaction) -> list[Tree]:
    """The repositories of a project, by root."""
    rows = await tx.fetch_all(_SQL["trees"])
    locks = [lock(row[0]) for row in rows for lock in (index_lock, watch_lock, behind_lock)]
    held = await tx.held(locks)
    return [
        Tree(
            *(row[0], Path(row[1]), row[2], row[3], row[4], row[5], row[6], row[7], row[8]),
            Profile.from_row(row[9:]),
            is_running=index_lock(row[0]) in held,
            is_watched=watch_lock(row[0]) in held and behind_lock(row[0]) not in held,
        )
        for row in rows
    ]


async def is_known(tx: Transaction, root: str) -> bool:
    """Whether a repository is indexed."""
    return await tx.fetch_one(_SQL["is_known"], root=root) is not None


async def stored_at(tx: Transaction, snapshot_id: int) -> dict[str, StoredFile]:
    """The files of a snapshot, by path."""
    found = await tx.fetch_all(_SQL["stored"], snapshot_id=snapshot_id)
    return {row[0]: StoredFile(*row) for row in found}
