"""Is a search result up to date? The index is compared with the files before and after each search.

Before the search as far as a time budget allows; after it the lines of every hit. If hits have
changed, the changes are indexed and the search runs once more. Hits whose lines have changed are
not shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, ProjectTryLocks
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.index.progress import RunPhase
from codebase_mcp.index.refresh import Refresher
from codebase_mcp.index.trees import Tree, TreeState, load_trees, stored_at
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.scope import ScopedSnapshot
from codebase_mcp.search.search import BY_DEFAULT, Answer, Request, SearchedSnapshots, Searcher
from codebase_mcp.search.verify import Verified, Verifier
from codebase_mcp.source.selection import Selection
from codebase_mcp.telemetry.stopwatch import step

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult

State = Literal["ready", "unchecked", "stale", "outdated", "incomplete", "indexing", "absent"]

# The state over several repositories is the last of these.
_ORDER: tuple[State, ...] = ("ready", "unchecked", "stale", "outdated", "incomplete", "indexing")

# The least share of the budget for indexing changes found in hits.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class IndexFreshness:
    """How up to date an answer is; ``files_pending`` are known not to be indexed yet.

    While a first index run is going on, ``percent`` of the files are done, ``phase`` is what it is
    doing, and ``seconds_left`` is an estimate; None while the files are being listed.
    """

    state: State
    files_pending: int
    files_failed: int
    files_skipped: int
    indexed_at: datetime | None
    checked_at: datetime | None
    percent: float | None = None
    phase: RunPhase | None = None
    seconds_left: int | None = None


class Freshness:
    """Searches an index, and keeps it up to date with the files."""

    def __init__(self, database: Database, searcher: Searcher, refresher: Refresher) -> None:
        self._database = database
        self._searcher = searcher
        self._refresher = refresher
        self._verifier = Verifier()

    async def close(self) -> None:
        """Cancel background updates."""
        await self._refresher.close()

    def forget(self, project: Project) -> None:
        """Discard cached state, as the project's index was changed elsewhere."""
        self._refresher.forget(project)

    async def search(
        self,
        project: Project,
        text: str,
        request: Request,
        snapshots: SearchedSnapshots = BY_DEFAULT,
    ) -> tuple[Answer, IndexFreshness]:
        """Search, with all hits verified, and report how up to date the answer is.

        Raises:
            ProjectNotFound, DatabaseUnavailable, EmbeddingUnavailable: as ``Searcher.search``.
        """
        started = time.monotonic()
        if self._refresher.budget_s:
            with step("freshness"):
                await self._refresher.check(project, snapshots.ids)
        search = partial(self._searcher.search, project, text, request, snapshots)
        answer = await search()
        if self._refresher.budget_s and answer.hits:
            answer = await self._verified(project, search, answer, started)
        with step("freshness"):
            return answer, await self.state_of(project, answer.snapshots)

    async def follow(self, project: Project, snapshot_ids: Collection[int] | None = None) -> None:
        """Bring the index up to date with the files, as far as the budget of a search allows."""
        if self._refresher.budget_s:
            await self._refresher.check(project, snapshot_ids)

    async def check(self, project: Project, *, budget_s: float) -> dict[UUID, TreeState]:
        """The state of each repository's index, checked within the budget."""
        await self._refresher.check(project, budget_s=budget_s, only_check=True)
        states = {}
        for tree in await self.trees(project):
            state = await self._refresher.state_of(project, tree.repository_id, tree.files_pending)
            states[tree.repository_id] = state
        return states

    async def state_of(
        self, project: Project, snapshots: Sequence[ScopedSnapshot]
    ) -> IndexFreshness:
        """How up to date an answer from these snapshots is."""
        states = [
            await self._refresher.state_of(project, one.repository_id, one.files_pending)
            if one.view == WORKTREE
            else _state_of_commit(one)
            for one in snapshots
        ]
        indexed = [one.indexed_at for one in snapshots]
        checked = [one.checked_at for one in states]
        return IndexFreshness(
            state=max((one.state for one in states), key=_ORDER.index, default="absent"),
            files_pending=sum(one.pending for one in states),
            files_failed=sum(one.files_failed for one in snapshots),
            files_skipped=sum(sum(loads(one.skipped).values()) for one in snapshots),
            indexed_at=_earliest(indexed),
            checked_at=_earliest(checked),
        )

    async def projects(self) -> list[Project]:
        """All projects."""
        return await list_projects(self._database)

    async def known_trees(self, project: Project, *, reload: bool = False) -> list[Tree]:
        """The indexed trees of a project, as they were within the last second."""
        if reload:
            self._refresher.forget(project)
        return await self._refresher.trees_of(project)

    async def trees(self, project: Project) -> list[Tree]:
        """The indexed trees of a project."""
        async with self._database.transaction(project, readonly=True) as tx:
            return await load_trees(tx)

    def has_same_settings(self, tree: Tree) -> bool:
        """Whether it was indexed with settings that select the same files as ours."""
        return self._refresher.has_same_settings(tree)

    def selection_of(self, root: Path) -> Selection:
        """Which files of a tree are listed."""
        return self._refresher.selection_of(root)

    async def update_index(
        self, project: Project, root: Path, paths: Iterable[str] | None
    ) -> RunResult | None:
        """Update an index, as ``Refresher.update_index``."""
        return await self._refresher.update_index(project, root, paths)

    async def stored_paths(self, project: Project, repository_id: UUID) -> list[str]:
        """The files in the index of a repository."""
        async with self._database.transaction(project, readonly=True) as tx:
            trees = [one for one in await load_trees(tx) if one.repository_id == repository_id]
            return [path for one in trees for path in await stored_at(tx, one.snapshot_id)]

    def try_locks(self) -> AbstractAsyncContextManager[ProjectTryLocks]:
        """Try-locks for the watcher of trees."""
        return self._database.try_locks()

    async def _verified(
        self,
        project: Project,
        search: Callable[[], Awaitable[Answer]],
        answer: Answer,
        started: float,
    ) -> Answer:
        roots = {one.repository_id: Path(one.root) for one in answer.snapshots}
        found = await self._verify(answer, roots)
        if found.changed:
            left_s = self._refresher.budget_s - (time.monotonic() - started)
            within_s = max(left_s, _LEAST_SHARE * self._refresher.budget_s)
            with step("freshness"):
                await self._refresher.update_changed(project, found.changed, within_s=within_s)
            answer = await search()
            found = await self._verify(answer, roots)
        if found.changed:
            with step("freshness"):
                await self._refresher.update_changed(project, found.changed, within_s=0)
        dropped = len(answer.hits) - len(found.hits)
        total = max(answer.total_count - dropped, len(found.hits))
        return replace(answer, hits=found.hits, total_count=total)

    async def _verify(self, answer: Answer, roots: Mapping[UUID, Path]) -> Verified:
        with step("verify"):
            return await asyncio.to_thread(self._verifier.verify, answer.hits, roots)


def _state_of_commit(snapshot: ScopedSnapshot) -> TreeState:
    """A commit never changes, so its snapshot is up to date once it is complete."""
    if snapshot.files_pending or snapshot.indexed_at is None:
        return TreeState("indexing", snapshot.files_pending)
    return TreeState("ready", 0, datetime.now(UTC))


def _earliest(times: Sequence[datetime | None]) -> datetime | None:
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None
