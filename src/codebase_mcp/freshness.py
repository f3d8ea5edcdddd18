"""How true is an answer? The index is held against the files before and after each search.

Before it, as far as a budget allows; after it, the lines of every hit. What was found to have
changed is indexed and searched again, once; a hit whose lines are not there any more is not shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, ProjectTryLocks
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.index.refresh import Outdated, Refresher, Update
from codebase_mcp.index.trees import Tree, TreeState, is_known, load_trees, stored_at
from codebase_mcp.search.candidates import ScopedSnapshot
from codebase_mcp.search.search import Answer, Request, Searcher
from codebase_mcp.search.verify import Verifier
from codebase_mcp.source.selection import Selection

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult

State = Literal["ready", "unchecked", "stale", "outdated", "incomplete", "indexing", "absent"]

# Of several repositories the state is the one that says most about what is missing.
_ORDER: tuple[State, ...] = ("ready", "unchecked", "stale", "outdated", "incomplete", "indexing")

# For what hits turned out to have changed there is always so much of the budget.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class IndexTruth:
    """How far an answer can be relied upon. ``files_pending`` are known not to be indexed yet."""

    state: State
    files_pending: int
    files_failed: int
    files_skipped: int
    indexed_at: datetime | None
    checked_at: datetime | None


class Freshness:
    """Answers questions from an index that follows the files.

    ``update`` lets an index follow, ``selection_of`` says what of a tree is listed; an index that
    was made under other settings than ``chosen_by`` is left alone, one of an earlier version of the
    program is made anew by others (``outdated``). With a budget of 0 nothing is
    looked at.
    """

    def __init__(
        self,
        database: Database,
        searcher: Searcher,
        update: Update,
        selection_of: Callable[[Path], Selection],
        *,
        outdated: Outdated,
        chosen_by: str,
        budget_s: float,
    ) -> None:
        self._database = database
        self._searcher = searcher
        self._update = update
        self.selection_of = selection_of
        self._budget_s = budget_s
        self._refresher = Refresher(
            database,
            self.update_index,
            selection_of,
            outdated=outdated,
            chosen_by=chosen_by,
            budget_s=budget_s,
        )
        self._verifier = Verifier()

    async def close(self) -> None:
        """Break off what goes on in the background."""
        await self._refresher.close()

    def forget(self, project: Project) -> None:
        """The project's index changed by other ways."""
        self._refresher.forget(project)

    async def search(
        self, project: Project, text: str, request: Request
    ) -> tuple[Answer, IndexTruth]:
        """The best places for a question, all of them there, and what may be missing.

        Raises:
            ProjectNotFound, DatabaseUnavailable, EmbeddingUnavailable: as ``Searcher.search``.
        """
        started = time.monotonic()
        if self._budget_s:
            await self._refresher.check(project, request.filters.repository_id)
        answer = await self._searcher.search(project, text, request)
        if self._budget_s and answer.hits:
            answer = await self._verified(project, text, request, answer, started)
        return answer, await self.truth(project, answer.snapshots)

    async def check(self, project: Project, *, budget_s: float) -> dict[UUID, TreeState]:
        """How true the index of each repository is, looked at for so long."""
        await self._refresher.check(project, budget_s=budget_s, only_check=True)
        states = {}
        for tree in await self.trees(project):
            state = await self._refresher.state_of(project, tree.repository_id, tree.files_pending)
            states[tree.repository_id] = state
        return states

    async def truth(self, project: Project, snapshots: Sequence[ScopedSnapshot]) -> IndexTruth:
        """How far an answer from these snapshots can be relied upon."""
        states = [
            await self._refresher.state_of(project, one.repository_id, one.files_pending)
            for one in snapshots
        ]
        indexed = [one.indexed_at for one in snapshots]
        checked = [one.checked_at for one in states]
        return IndexTruth(
            state=max((one.state for one in states), key=_ORDER.index, default="absent"),
            files_pending=sum(one.pending for one in states),
            files_failed=sum(one.files_failed for one in snapshots),
            files_skipped=sum(sum(loads(one.skipped).values()) for one in snapshots),
            indexed_at=_earliest(indexed),
            checked_at=_earliest(checked),
        )

    async def projects(self) -> list[Project]:
        """All of them."""
        return await list_projects(self._database)

    async def trees(self, project: Project) -> list[Tree]:
        """The repositories of a project, and who is busy with them."""
        async with self._database.transaction(project, readonly=True) as tx:
            return await load_trees(tx)

    def has_same_settings(self, tree: Tree) -> bool:
        """Whether it was indexed under settings like ours, which list the same files of it."""
        return self._refresher.has_same_settings(tree)

    async def update_index(
        self, project: Project, root: Path, paths: Iterable[str] | None
    ) -> RunResult | None:
        """Let an index follow its tree, at some paths or everywhere; what was removed stays so.

        Raises:
            CodebaseError: it cannot.
        """
        if all(one.schema_name != project.schema_name for one in await self.projects()):
            return None
        async with self._database.transaction(project, readonly=True) as tx:
            if not await is_known(tx, str(root)):
                return None
        return await self._update(project, root, paths)

    async def stored_paths(self, project: Project, repository_id: UUID) -> list[str]:
        """The files in the index of a repository."""
        async with self._database.transaction(project, readonly=True) as tx:
            trees = [one for one in await load_trees(tx) if one.repository_id == repository_id]
            return [path for one in trees for path in await stored_at(tx, one.snapshot_id)]

    def try_locks(self) -> AbstractAsyncContextManager[ProjectTryLocks]:
        """The locks of whoever watches trees."""
        return self._database.try_locks()

    async def _verified(
        self, project: Project, text: str, request: Request, answer: Answer, started: float
    ) -> Answer:
        roots = {one.repository_id: Path(one.root) for one in answer.snapshots}
        found = await asyncio.to_thread(self._verifier.verify, answer.hits, roots)
        if found.changed:
            left_s = self._budget_s - (time.monotonic() - started)
            within_s = max(left_s, _LEAST_SHARE * self._budget_s)
            await self._refresher.update_changed(project, found.changed, within_s=within_s)
            answer = await self._searcher.search(project, text, request)
            found = await asyncio.to_thread(self._verifier.verify, answer.hits, roots)
        if found.changed:
            await self._refresher.update_changed(project, found.changed, within_s=0)
        dropped = len(answer.hits) - len(found.hits)
        total = max(answer.total_count - dropped, len(found.hits))
        return replace(answer, hits=found.hits, total_count=total)


def _earliest(times: Sequence[datetime | None]) -> datetime | None:
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None
