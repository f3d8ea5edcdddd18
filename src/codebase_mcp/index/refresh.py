"""Is the index still equal to the tree, and can it be made so before a search?

Looks at a tree for as long as a budget lasts, once a second at most, and lets the index follow what
it finds. What takes longer goes on by itself and serves the next search. Where somebody watches the
files, in whatever process, nothing has to be looked at.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.differences import MOST_READ, differences
from codebase_mcp.index.trees import Tree, TreeState, load_trees, stored_at
from codebase_mcp.source.selection import Selection

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult
    from codebase_mcp.source.glance import Glance

log = logging.getLogger(__name__)

# What was found less than this ago is taken to hold still.
FRESH_S = 1.0

# After an index run that failed, a tree is left alone for so long.
PAUSE_S = 10.0

_THREADS = 2

T = TypeVar("T")
Update = Callable[[Project, Path, "Iterable[str] | None"], Awaitable["RunResult | None"]]
"""Make an index equal to some paths of its tree, or to all of it; raises where that failed.

Nothing comes back where the repository is not known any more.
"""


@dataclass(frozen=True, slots=True)
class Outdated:
    """Which indexes an earlier version of the program made, and how they come to be made anew.

    That takes long, so ``ask`` only asks for it; somebody who lives longer than a search does it.
    """

    made_by_earlier: Callable[[Profile], bool]
    ask: Callable[[Project, Path], Awaitable[object]]


@dataclass(slots=True)
class _Follower:
    """What this process knows of one tree; ``not_before`` is a time of the monotonic clock."""

    project: Project
    tree: Tree
    glance: Glance | None = None
    selection: Selection | None = None
    pending: set[str] = field(default_factory=set)
    is_whole: bool = False
    is_updating: bool = False
    count: int = 0
    not_before: float = 0.0
    checked_at: datetime | None = None
    is_trusted: bool = False
    begun_at: float = 0.0
    task: asyncio.Task[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether changes are known that are not indexed yet."""
        return bool(self.pending) or self.is_whole or self.is_updating

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Do this in the background."""
        self.begun_at = time.monotonic()
        self.task = asyncio.create_task(work)

    def task_within(self, budget_s: float) -> set[asyncio.Task[None]]:
        """What goes on, if it may be worth waiting for: not if it takes longer than that anyway."""
        is_young = time.monotonic() - self.begun_at < budget_s
        return {self.task} if self.task is not None and is_young else set()

    def fail(self, pause_s: float) -> None:
        """What was known of the tree is not to be relied upon."""
        self.glance = None
        self.is_trusted = False
        self.not_before = time.monotonic() + pause_s


class Refresher:
    """Holds the indexes of this machine's trees against them, for whoever searches.

    With ``only_once`` nothing is kept that only makes the second look at a tree cheaper.
    """

    def __init__(
        self,
        database: Database,
        update: Update,
        selection_of: Callable[[Path], Selection],
        *,
        outdated: Outdated,
        chosen_by: str,
        budget_s: float,
        only_once: bool = False,
    ) -> None:
        self._database = database
        self._update = update
        self._only_once = only_once
        self._outdated = outdated
        self._chosen_by = chosen_by
        self._selection_of = selection_of
        self._budget_s = budget_s
        self._trees: dict[str, tuple[float, list[Tree]]] = {}
        self._followers: dict[tuple[str, UUID], _Follower] = {}
        self._asked: dict[tuple[str, UUID], asyncio.Task[None]] = {}
        # A drive that does not answer must not take the threads that others wait for.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="freshness")

    async def close(self) -> None:
        """Break off what goes on; the next check begins it again."""
        tasks = [one.task for one in self._followers.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._asked.values(), return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def is_ours(self, tree: Tree) -> bool:
        """Whether it was indexed under settings like ours, which list the same files of it."""
        return tree.selected_by == self._chosen_by

    def forget(self, project: Project) -> None:
        """The project's index changed by other ways."""
        self._trees.pop(project.schema_name, None)

    async def check(
        self,
        project: Project,
        only: UUID | None = None,
        *,
        budget_s: float | None = None,
        only_look: bool = False,
    ) -> None:
        """Bring a project's index, or one repository's, up to date as far as the budget allows."""
        budget_s = self._budget_s if budget_s is None else budget_s
        tasks: set[asyncio.Task[None]] = set()
        for tree in await self._trees_of(project):
            if only is not None and tree.repository_id != only:
                continue
            if self._is_outdated(tree) and not only_look:
                self._ask_anew(project, tree)
            follower = self._follower(project, tree)
            if follower.task is None and self._is_due(follower):
                follower.begin(self._follow(follower, only_look=only_look))
            tasks |= follower.task_within(budget_s)
        if tasks:
            await asyncio.wait(tasks, timeout=budget_s)

    async def bring(
        self, project: Project, changed: Mapping[UUID, set[str]], *, within_s: float
    ) -> None:
        """Let the index follow what was found to have changed, as far as the time allows."""
        tasks: set[asyncio.Task[None]] = set()
        for tree in await self._trees_of(project):
            paths = changed.get(tree.repository_id)
            if not paths or not self.is_ours(tree) or self._is_outdated(tree):
                continue
            follower = self._follower(project, tree)
            follower.pending |= paths
            follower.count = max(follower.count, len(follower.pending))
            if follower.task is None:
                follower.begin(self._follow(follower, look=False))
            tasks |= follower.task_within(within_s)
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)

    async def state_of(self, project: Project, repository_id: UUID, pending: int) -> TreeState:
        """How true an index is of which a search saw so many files ``pending``."""
        trees = await self._trees_of(project, seen=repository_id, busy=pending > 0)
        tree = next((one for one in trees if one.repository_id == repository_id), None)
        if tree is None:
            return TreeState("unchecked", pending)
        follower = self._follower(project, tree)
        known = max(pending, follower.count if follower.is_behind else 0)
        checked_at = follower.checked_at
        if tree.is_watched and not follower.is_behind:
            checked_at = datetime.now(UTC)
        if self._is_outdated(tree):
            return TreeState("outdated", known, checked_at)
        if tree.is_running and not (follower.task and not tree.files_pending):
            return TreeState("indexing", known, checked_at)
        if pending or not tree.is_complete:
            return TreeState("incomplete", known, checked_at)
        if follower.is_behind:
            return TreeState("stale", known, checked_at)
        is_ready = tree.is_watched or (follower.is_trusted and follower.task is None)
        return TreeState("ready" if is_ready else "unchecked", 0, checked_at)

    def _is_due(self, follower: _Follower) -> bool:
        tree = follower.tree
        if not self.is_ours(tree) or self._is_outdated(tree):
            return False
        if tree.was_cancelled and (tree.files_pending or not tree.is_complete):
            return False  # somebody wanted it to end
        if tree.is_running or time.monotonic() < follower.not_before:
            return False
        return not tree.is_watched or follower.is_behind

    def _is_outdated(self, tree: Tree) -> bool:
        return self._outdated.made_by_earlier(tree.profile)

    def _ask_anew(self, project: Project, tree: Tree) -> None:
        """Let an index be made anew beside the old one, unless somebody wanted that to end."""
        key = project.schema_name, tree.repository_id
        # The first versions did not record the settings of a run.
        is_ours = self.is_ours(tree) or not tree.selected_by
        if key in self._asked or tree.is_running or tree.was_cancelled or not is_ours:
            return

        async def ask() -> None:
            try:
                await self._outdated.ask(project, tree.root)
            except CodebaseError as error:
                log.warning("The index of %s cannot be made anew: %s", tree.root, error.message)

        self._asked[key] = asyncio.create_task(ask())

    def _follower(self, project: Project, tree: Tree) -> _Follower:
        key = project.schema_name, tree.repository_id
        follower = self._followers.get(key)
        if follower is None or follower.tree.snapshot_id != tree.snapshot_id:
            before = follower.task if follower is not None else None
            follower = self._followers[key] = _Follower(project, tree, task=before)
            if before is not None:
                before.add_done_callback(lambda _: setattr(follower, "task", None))
        follower.tree = tree
        return follower

    async def _trees_of(
        self, project: Project, *, seen: UUID | None = None, busy: bool = False
    ) -> list[Tree]:
        """The trees of a project, as they were a second ago at most; busy ones as they are now."""
        now = time.monotonic()
        asked_at, trees = self._trees.get(project.schema_name, (-FRESH_S, []))
        is_known = seen is None or any(tree.repository_id == seen for tree in trees)
        is_old = now - asked_at >= FRESH_S or any(tree.is_running for tree in trees)
        if is_old or busy or not is_known:
            async with self._database.transaction(project, readonly=True) as tx:
                trees = await load_trees(tx)
            self._trees[project.schema_name] = now, trees
        return trees

    async def _follow(
        self, follower: _Follower, *, look: bool = True, only_look: bool = False
    ) -> None:
        """Look at a tree, and let its index follow."""
        try:
            if look:
                await self._look(follower)
            must_run = not follower.tree.is_complete or follower.tree.files_pending > 0
            while not only_look and (must_run or follower.is_behind):
                await self._catch_up(follower)
                must_run = False
        except FileNotFoundError:  # its index is kept: a disk may come back
            follower.fail(FRESH_S)
        except CodebaseError as error:
            log.warning("The index of %s stays as it is: %s", follower.tree.root, error.message)
            follower.fail(PAUSE_S)
        except Exception:  # the edge of a task that nobody waits for
            log.exception("The index of %s could not be checked", follower.tree.root)
            follower.fail(PAUSE_S)
        finally:
            follower.task = None
            self._trees.pop(follower.project.schema_name, None)

    async def _catch_up(self, follower: _Follower) -> None:
        """Let the index follow what is known to differ; all of the tree, if that is not known."""
        paths, is_whole = follower.pending, follower.is_whole
        follower.pending, follower.is_whole, follower.is_updating = set(), False, True
        try:
            wanted = None if is_whole or not paths else paths
            await self._update(follower.project, follower.tree.root, wanted)
        except BaseException:
            follower.pending |= paths
            follower.is_whole |= is_whole
            raise
        finally:
            follower.is_updating = False
        follower.count = len(follower.pending)

    async def _look(self, follower: _Follower) -> None:
        """Take note of what differs."""
        looked_at = datetime.now(UTC)
        if follower.glance is None:
            await self._look_first(follower)
        else:
            await self._look_again(follower, follower.glance)
        follower.is_trusted = True
        follower.checked_at = looked_at
        follower.not_before = time.monotonic() + FRESH_S

    async def _look_first(self, follower: _Follower) -> None:
        root = follower.tree.root
        if not await self._aside(root.is_dir):
            raise FileNotFoundError(str(root))
        follower.selection = await self._aside(self._selection_of, root)
        if not self._only_once:
            from codebase_mcp.source.glance import Glance  # noqa: PLC0415 - not for a command

            glance = await self._aside(Glance, root, follower.selection)
            await self._aside(glance.look)
            follower.glance = glance
        await self._compare(follower, None)

    async def _look_again(self, follower: _Follower, glance: Glance) -> None:
        sight = await self._aside(glance.look)
        if sight.new_rules:  # decided anew, by a run that reads them too
            follower.glance = None
            follower.is_whole = True
            follower.count = max(sight.count, 1)
        elif sight.is_whole or sight.count > MOST_READ:
            await self._compare(follower, None)
        elif sight.changed:
            await self._compare(follower, sight.changed)

    async def _compare(self, follower: _Follower, paths: set[str] | None) -> None:
        """Hold the tree, or some paths of it, against what is stored."""
        tree = follower.tree
        async with self._database.transaction(follower.project, readonly=True) as tx:
            stored = await stored_at(tx, tree.snapshot_id)
        assert follower.selection is not None
        found = await self._aside(
            differences, tree.root, follower.selection, stored, paths, tree.generation
        )
        if paths is None and follower.glance is not None:
            await self._aside(follower.glance.keep, list(stored))
        follower.pending |= found
        follower.count = len(follower.pending)

    async def _aside(self, work: Callable[..., T], *arguments: object) -> T:
        """Do something that may take long in a thread of ours."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
