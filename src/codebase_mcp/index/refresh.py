"""Is the index up to date with the tree, and can it be updated before a search?

Scans a tree at most once a second, within a time budget, and updates the index. An update that
takes longer continues in the background and is seen by the next search. A tree that some process
watches is not scanned.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.differences import MOST_READ, differences
from codebase_mcp.index.trees import Tree, TreeState, is_known, load_trees, stored_at
from codebase_mcp.source.git_directory import checkout_state
from codebase_mcp.source.open_file import is_real_directory
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.source_tree import source_tree_at
from codebase_mcp.telemetry.stopwatch import no_stopwatch

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult
    from codebase_mcp.source.tree_scan import CommitScan, TreeScan

log = logging.getLogger(__name__)

# A check is valid for this long.
FRESH_S = 1.0

# How long to wait after a failed update.
FAILURE_PAUSE_S = 10.0

_THREADS = 2

T = TypeVar("T")
Update = Callable[[Project, Path, "Iterable[str] | None"], Awaitable["RunResult"]]
"""Update an index for some paths of its tree, or for all of it; raises if that fails."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """Which indexes were made by an earlier version of the program, and how to rebuild them.

    A rebuild takes long, so ``request_rebuild`` only queues it.
    """

    is_outdated: Callable[[Profile], bool]
    request_rebuild: Callable[[Project, Path], Awaitable[object]]


@dataclass(slots=True, eq=False)
class _TreeFollower:
    """What this process knows of one tree; no check before ``not_before``.

    Unless git has changed the files since: ``checkout`` is its state at the last check.
    """

    project: Project
    tree: Tree
    scan: TreeScan | CommitScan | None = None
    selection: Selection | None = None
    pending: set[str] = field(default_factory=set)
    is_full: bool = False
    is_updating: bool = False
    count: int = 0
    not_before: float = 0.0
    checked_at: datetime | None = None
    is_trusted: bool = False
    started_at: float = 0.0
    checkout: tuple[object, ...] = ()
    task: asyncio.Task[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether there are known changes that are not indexed yet."""
        return bool(self.pending) or self.is_full or self.is_updating

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Run this in the background."""
        self.started_at = time.monotonic()
        with no_stopwatch():
            self.task = asyncio.create_task(work)

    def task_within(self, budget_s: float) -> set[asyncio.Task[None]]:
        """The running task, unless it has already taken longer than the budget."""
        is_young = time.monotonic() - self.started_at < budget_s
        return {self.task} if self.task is not None and is_young else set()

    def distrust(self, pause_s: float) -> None:
        """Discard what is known of the tree."""
        self.scan = None
        self.is_trusted = False
        self.not_before = time.monotonic() + pause_s


class Refresher:
    """Checks and updates the indexes of trees on this machine before searches.

    ``update`` updates an index, ``selection_of`` says which files of a tree are listed. An index
    made with other settings than ``chosen_by`` is not updated. One of an earlier version of the
    program is rebuilt by a job (``outdated``). With a budget of 0 searches check nothing. With
    ``only_once`` nothing is kept that makes a second check cheaper.
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
        self.selection_of = selection_of
        self.budget_s = budget_s
        self._trees: dict[str, tuple[float, list[Tree]]] = {}
        self._followers: dict[tuple[str, UUID], _TreeFollower] = {}
        self._looking: asyncio.Future[list[tuple[object, ...]]] | None = None
        self._requested: dict[tuple[str, UUID], asyncio.Task[None]] = {}
        # Own threads, as a hanging network drive must not block the default ones.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="freshness")

    async def close(self) -> None:
        """Cancel running updates; the next check starts them again."""
        tasks = [one.task for one in self._followers.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *self._requested.values(), return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def has_same_settings(self, tree: Tree) -> bool:
        """Whether it was indexed with settings that select the same files as ours."""
        return tree.selected_by == self._chosen_by

    def forget(self, project: Project) -> None:
        """Discard cached state, as the project's index was changed elsewhere."""
        self._trees.pop(project.schema_name, None)

    async def check(
        self,
        project: Project,
        snapshot_ids: Collection[int] | None = None,
        *,
        budget_s: float | None = None,
        only_check: bool = False,
    ) -> None:
        """Update the index of a project's trees, or of some, as far as the budget allows."""
        budget_s = self.budget_s if budget_s is None else budget_s
        followers = []
        for tree in await self.trees_of(project):
            if snapshot_ids is not None and tree.snapshot_id not in snapshot_ids:
                continue
            if self._is_outdated(tree):
                self._request_rebuild(project, tree)
            followers.append(self._follower(project, tree))
        checked_out = await self._checked_out(followers, budget_s)
        tasks: set[asyncio.Task[None]] = set()
        for follower in followers:
            needs_check = self._needs_check(follower, is_checked_out=follower in checked_out)
            if follower.task is None and needs_check:
                follower.start(self._follow(follower, only_check=only_check))
            tasks |= follower.task_within(budget_s)
        if tasks:
            await asyncio.wait(tasks, timeout=budget_s)

    async def update_changed(
        self, project: Project, changed: Mapping[UUID, set[str]], *, within_s: float
    ) -> None:
        """Update the index for changed paths, as far as the time allows."""
        tasks: set[asyncio.Task[None]] = set()
        for tree in await self.trees_of(project):
            paths = changed.get(tree.repository_id)
            if not paths or not self.has_same_settings(tree) or self._is_outdated(tree):
                continue
            follower = self._follower(project, tree)
            follower.pending |= paths
            follower.count = max(follower.count, len(follower.pending))
            if follower.task is None:
                follower.start(self._follow(follower, compare=False))
            tasks |= follower.task_within(within_s)
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)

    async def update_index(
        self, project: Project, root: Path, paths: Iterable[str] | None
    ) -> RunResult | None:
        """Update an index for some paths or for the whole tree; None if it was removed.

        Raises:
            CodebaseError: the update failed.
        """
        projects = await list_projects(self._database)
        if all(one.schema_name != project.schema_name for one in projects):
            return None
        async with self._database.transaction(project, readonly=True) as tx:
            if not await is_known(tx, str(root)):
                return None
        return await self._update(project, root, paths)

    async def state_of(self, project: Project, repository_id: UUID, pending: int) -> TreeState:
        """The state of an index for which a search reported ``pending`` files."""
        trees = await self.trees_of(project, seen=repository_id, busy=pending > 0)
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

    async def _checked_out(
        self, followers: Sequence[_TreeFollower], budget_s: float
    ) -> list[_TreeFollower]:
        """The trees whose files git may have changed since they were looked at."""
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=budget_s)
            if not self._looking.done():
                return []  # a network drive hangs
        idle = [one for one in followers if one.task is None]
        roots = [one.tree.root for one in idle]
        self._looking = asyncio.ensure_future(
            self._in_thread(lambda: [checkout_state(root) for root in roots])
        )
        await asyncio.wait([self._looking], timeout=budget_s)
        if not self._looking.done():
            return []
        changed = []
        for follower, state in zip(idle, self._looking.result(), strict=True):
            if state != follower.checkout and follower.is_trusted:
                changed.append(follower)
            follower.checkout = state
        return changed

    def _needs_check(self, follower: _TreeFollower, *, is_checked_out: bool) -> bool:
        tree = follower.tree
        if not self.has_same_settings(tree) or self._is_outdated(tree):
            return False
        if tree.was_cancelled and (tree.files_pending or not tree.is_complete):
            return False  # a user cancelled it
        if tree.is_running:
            return False
        if is_checked_out:
            return True
        if time.monotonic() < follower.not_before:
            return False
        return not tree.is_watched or follower.is_behind

    def _is_outdated(self, tree: Tree) -> bool:
        return self._outdated.is_outdated(tree.profile)

    def _request_rebuild(self, project: Project, tree: Tree) -> None:
        """Queue a rebuild next to the old index, unless a user cancelled one."""
        key = project.schema_name, tree.repository_id
        # The first versions did not record the settings of a run.
        has_same_settings = self.has_same_settings(tree) or not tree.selected_by
        if key in self._requested or tree.is_running or tree.was_cancelled or not has_same_settings:
            return

        async def ask() -> None:
            try:
                await self._outdated.request_rebuild(project, tree.root)
            except CodebaseError as error:
                log.warning("Cannot rebuild the index of %s: %s", tree.root, error.message)

        with no_stopwatch():
            self._requested[key] = asyncio.create_task(ask())

    def _follower(self, project: Project, tree: Tree) -> _TreeFollower:
        key = project.schema_name, tree.repository_id
        follower = self._followers.get(key)
        if follower is None or follower.tree.snapshot_id != tree.snapshot_id:
            before = follower.task if follower is not None else None
            follower = self._followers[key] = _TreeFollower(project, tree, task=before)
            if before is not None:
                before.add_done_callback(lambda _: setattr(follower, "task", None))
        follower.tree = tree
        return follower

    async def trees_of(
        self, project: Project, *, seen: UUID | None = None, busy: bool = False
    ) -> list[Tree]:
        """The trees of a project, cached for a second; always reloaded while one is busy."""
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
        self, follower: _TreeFollower, *, compare: bool = True, only_check: bool = False
    ) -> None:
        """Compare a tree with its index, and update the index."""
        try:
            if compare:
                await self._compare_tree(follower)
            must_run = not follower.tree.is_complete or follower.tree.files_pending > 0
            while not only_check and (must_run or follower.is_behind):
                await self._update_index(follower)
                must_run = False
        except FileNotFoundError:  # the index is kept, as a disk may be mounted again
            follower.distrust(FRESH_S)
        except CodebaseError as error:
            log.warning("Cannot update the index of %s: %s", follower.tree.root, error.message)
            follower.distrust(FAILURE_PAUSE_S)
        except Exception:  # the edge of a background task
            log.exception("Cannot check the index of %s", follower.tree.root)
            follower.distrust(FAILURE_PAUSE_S)
        finally:
            follower.task = None
            self._trees.pop(follower.project.schema_name, None)

    async def _update_index(self, follower: _TreeFollower) -> None:
        """Index the known changes, or the whole tree if they are not known."""
        paths, is_full = follower.pending, follower.is_full
        follower.pending, follower.is_full, follower.is_updating = set(), False, True
        try:
            scope = None if is_full or not paths else paths
            await self.update_index(follower.project, follower.tree.root, scope)
        except BaseException:
            follower.pending |= paths
            follower.is_full |= is_full
            raise
        finally:
            follower.is_updating = False
        follower.count = len(follower.pending)

    async def _compare_tree(self, follower: _TreeFollower) -> None:
        """Find out what differs from the index."""
        looked_at = datetime.now(UTC)
        if follower.scan is None:
            await self._compare_first(follower)
        else:
            await self._compare_again(follower, follower.scan)
        follower.is_trusted = True
        follower.checked_at = looked_at
        follower.not_before = time.monotonic() + FRESH_S

    async def _compare_first(self, follower: _TreeFollower) -> None:
        root = follower.tree.root
        if not await self._in_thread(is_real_directory, root):
            raise FileNotFoundError(str(root))
        selection = await self._in_thread(self.selection_of, root)
        follower.selection = selection.ignoring(root, follower.tree.ignore_patterns)
        if not self._only_once:
            from codebase_mcp.source.tree_scan import start_scan  # noqa: PLC0415 - not for a command

            follower.scan = await self._in_thread(start_scan, root, follower.selection)
        await self._compare(follower, None)

    async def _compare_again(self, follower: _TreeFollower, scan: TreeScan | CommitScan) -> None:
        changes = await self._in_thread(scan.changes)
        if changes.has_new_rules:  # a full run reads the new rules
            follower.scan = None
            follower.is_full = True
            follower.count = max(changes.count, 1)
        elif changes.needs_full_run or changes.count > MOST_READ:
            await self._compare(follower, None)
        elif changes.changed:
            await self._compare(follower, changes.changed)

    async def _compare(self, follower: _TreeFollower, paths: set[str] | None) -> None:
        """Compare the tree, or some paths of it, with what is stored."""
        tree = follower.tree
        async with self._database.transaction(follower.project, readonly=True) as tx:
            stored = await stored_at(tx, tree.snapshot_id)
        assert follower.selection is not None
        files = await self._in_thread(source_tree_at, tree.root, follower.selection)
        found = await self._in_thread(differences, files, stored, paths, tree.generation)
        if paths is None and follower.scan is not None:
            await self._in_thread(follower.scan.track, list(stored))
        follower.pending |= found
        follower.count = len(follower.pending)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run something that may take long in one of our threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
