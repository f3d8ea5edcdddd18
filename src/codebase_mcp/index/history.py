"""How is the stored history updated to the newest commits of a repository?

Commits never change, so their hashes are compared, and only commits that are not stored yet are
read: after a commit or a pull the new ones, after a rebase the rewritten ones, after a reset none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.models import Model
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index.history_texts import lacks_texts, make_searchable
from codebase_mcp.index.refs import load_refs
from codebase_mcp.index.store import WRITE_LOCK
from codebase_mcp.source.commit_log import (
    Commit,
    Tip,
    branches_by_commit,
    find_tip,
    list_commits,
    read_commits,
)
from codebase_mcp.telemetry.stopwatch import step

_SQL = load_queries("codebase_mcp.index", "history.sql")

# How many commits are read and stored at once, to limit memory.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class _Stored:
    """The stored history of a repository: its depth, the fingerprint of its tip, and its size.

    ``refs`` are the names by which commits were asked for, the last used first.
    """

    depth: int
    tip: str | None
    commits: int
    refs: tuple[str, ...]

    def is_of(self, depth: int, tip: Tip | None) -> bool:
        """Whether the history was read with this depth and this tip."""
        return self.depth == depth and self.tip == (None if tip is None else tip.fingerprint)


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """A repository of a project, and how many of its commits are to be kept."""

    repository_id: UUID
    root: Path
    name: str
    depth: int


async def load_histories(tx: Transaction) -> list[HistoryFacts]:
    """The repositories of a project, by root."""
    rows = await tx.fetch_all(_SQL["histories"])
    return [HistoryFacts(one, Path(root), name, depth) for one, root, name, depth in rows]


async def refresh_history(
    database: Database,
    model: Model,
    project: Project,
    repository_id: UUID,
    root: Path,
    *,
    depth: int | None = None,
    wait: bool = True,
    renew: bool = False,
) -> int:
    """Store exactly the newest ``depth`` commits of HEAD and the indexed branches.

    Returns their number.

    ``model`` is the primary one: it makes what the commits are found by. With ``renew`` what an
    earlier version made is replaced too, and secrets in its messages are masked.

    Without ``depth`` the stored one is used. If neither HEAD, nor a branch, nor the depth has
    changed, nothing is read. A directory outside git and a repository that is not indexed have no
    commits.

    Raises:
        IndexingFailed: git cannot read the history, or without ``wait``, an index run is in
            progress; what was stored stays.
        DatabaseUnavailable: the database is unavailable.
    """
    async with database.transaction(project, readonly=True) as tx:
        stored = await _stored(tx, repository_id)
        renew = renew and bool(stored and stored.commits) and await lacks_texts(tx, model)
    if stored is None or (wanted := stored.depth if depth is None else depth) == stored.depth == 0:
        return 0
    tip = await _tip(root, wanted, stored.refs)
    if stored.is_of(wanted, tip) and not renew:
        return stored.commits
    if not wait and await _is_locked(database, project, repository_id):
        raise IndexingFailed("an index run is in progress")
    lock = database.session_locks(project, [index_lock(repository_id)])
    async with step("history"), lock, database.transaction(project) as tx:
        # The previous holder of the lock may have updated the history, or removed the repository.
        stored = await _stored(tx, repository_id)
        if stored is None:
            return 0
        tip = await _tip(root, wanted, stored.refs)
        count = stored.commits
        if not stored.is_of(wanted, tip):
            count = await _make_equal(tx, repository_id, tip, wanted)
        await make_searchable(tx, model)
        return count


async def _is_locked(database: Database, project: Project, repository_id: UUID) -> bool:
    async with database.try_locks() as locks:
        return not await locks.acquire(project, index_lock(repository_id))


async def _stored(tx: Transaction, repository_id: UUID) -> _Stored | None:
    row = await tx.fetch_one(_SQL["stored"], repository_id=repository_id)
    if row is None:
        return None
    refs = tuple(ref.name for ref in await load_refs(tx, repository_id))
    return _Stored(*(*row, refs))


async def _tip(root: Path, depth: int, refs: Sequence[str]) -> Tip | None:
    return await asyncio.to_thread(find_tip, root, refs) if depth else None


async def _make_equal(tx: Transaction, repository_id: UUID, tip: Tip | None, depth: int) -> int:
    here = {"repository_id": repository_id}
    await tx.execute(_SQL["forget_uncertain"], **here)
    rows = await tx.fetch_all(_SQL["known"], **here)
    known: dict[str, int] = {row[0]: row[1] for row in rows}
    listed: list[str] = []
    positions: dict[str, int] = {}
    branches: dict[str, list[str]] = {}
    if tip is not None:
        listed = await asyncio.to_thread(list_commits, tip, depth)
        branches = await asyncio.to_thread(branches_by_commit, tip, depth)
        positions = assign_positions(listed, known)
        fresh = [commit for commit in listed if commit not in known]
        for first in range(0, len(fresh), _BATCH):
            await _add(tx, repository_id, tip, fresh[first : first + _BATCH], positions)
    await tx.lock(WRITE_LOCK)
    gone = [commit for commit in known if commit not in positions]
    moved = [c for c in listed if c in known and known[c] != positions[c]]
    places = [positions[commit] for commit in moved]
    if gone:
        await tx.execute(_SQL["forget"], **here, hashes=gone)
    if moved:
        await tx.execute(_SQL["move"], **here, hashes=moved, positions=places)
    stored = {row[0]: row[2] for row in rows}
    renamed = [c for c in listed if branches.get(c, []) != stored.get(c, [])]
    if renamed:
        of_commits = json.dumps([{"hash": c, "branches": branches.get(c, [])} for c in renamed])
        await tx.execute(_SQL["name_branches"], **here, commits=of_commits)
    fingerprint = None if tip is None else tip.fingerprint
    await tx.execute(_SQL["end"], **here, depth=depth, tip=fingerprint)
    return len(listed)


async def _add(
    tx: Transaction,
    repository_id: UUID,
    tip: Tip,
    hashes: Sequence[str],
    positions: Mapping[str, int],
) -> None:
    commits = await asyncio.to_thread(read_commits, tip, hashes)
    content = [_row(commit) | {"position": positions[commit.hash]} for commit in commits]
    await tx.execute(_SQL["add"], repository_id=repository_id, commits=json.dumps(content))


def _row(commit: Commit) -> dict[str, object]:
    return {
        "hash": commit.hash,
        "author_name": commit.author_name,
        "author_email": commit.author_email,
        "authored_at": commit.authored_at,
        "message": commit.message,
        "paths": commit.paths,
        "path_added": [change.added for change in commit.changes],
        "path_removed": [change.removed for change in commit.changes],
        "path_former": [change.former for change in commit.changes],
        "paths_total": commit.paths_total,
        "lines_added": commit.added,
        "lines_removed": commit.removed,
        "is_merge": commit.is_merge,
    }


def assign_positions(listed: Sequence[str], known: Mapping[str, int]) -> dict[str, int]:
    """Positions that increase from the last commit of a list to its first.

    Known positions are kept where possible: new commits before or after them move none of them.
    """
    oldest_first = listed[::-1]
    behind = next((n for n, commit in enumerate(oldest_first) if commit in known), None)
    last = -1 if behind is None else known[oldest_first[behind]] - behind - 1
    positions = {}
    for commit in oldest_first:
        position = known.get(commit, last)
        last = position if position > last else last + 1
        positions[commit] = last
    return positions
