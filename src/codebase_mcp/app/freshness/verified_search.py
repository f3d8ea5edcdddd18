"""Is a search result up to date? The index is compared with the files before and after each search.

Before the search all trees are checked, at most once a second and as far as a time budget allows.
Comparing many files takes a share of a processor at most: then the caller's tree and those with
recent changes are checked first, and others later.
After it the lines of every hit are compared with their file. If hits have changed, the changes are
indexed and the search runs once more. Hits whose lines have changed are not shown. An update that
takes longer continues in the background, and the next search sees it. A tree that some process
watches is not checked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from json import loads
from pathlib import Path
from typing import get_args
from uuid import UUID

from codebase_mcp.app.freshness.trees import IndexedTrees, State, Tree, TreeCheck, TreeState
from codebase_mcp.database.naming import Project
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.progress import RunPhase
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.scope import ScopedSnapshot
from codebase_mcp.search.search import BY_DEFAULT, Answer, Request, SearchedSnapshots, Searcher
from codebase_mcp.search.verify import Verified, Verifier
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step

log = logging.getLogger(__name__)

# The least share of the budget for indexing changes found in hits.
_LEAST_SHARE = 0.5

_THREADS = 2

# The share of one processor that comparisons of files may take while searches follow each other.
_SHARE = 0.1

# An exact search waits this long for a check of the files to end.
_MOST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class IndexFreshness:
    """How up to date an answer is; ``files_pending`` are known not to be indexed yet.

    During a first index run, ``percent`` of the files are done, ``phase`` is the phase of the run,
    and ``seconds_left`` is an estimate; None while the files are being listed.
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


@dataclass(slots=True, eq=False)
class Freshness:
    """Searches an index, and keeps it up to date with the files on this machine.

    An index that ``is_outdated``, as an earlier version of the program made it, is rebuilt by a
    job, which ``_request_run`` queues. With a budget of 0 searches check nothing. With
    ``only_once`` nothing is kept for a second check.
    """

    _searcher: Searcher
    _trees: IndexedTrees
    _is_outdated: Callable[[Profile], bool]
    _request_run: Callable[[Project, Path], Awaitable[object]]
    _budget_s: float
    _only_once: bool = False
    _verifier: Verifier = field(default_factory=Verifier)
    _checks: dict[tuple[str, UUID], TreeCheck] = field(default_factory=dict)
    _checkouts: asyncio.Future[list[bool]] | None = None
    _requested: dict[tuple[str, UUID], asyncio.Task[None]] = field(default_factory=dict)
    # The processor time that comparisons may take now, and when it was reckoned.
    _left_s: float = 0.0
    _reckoned_at: float = field(default_factory=time.monotonic)
    # Own threads, as a hanging network drive must not block the default threads.
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="freshness")
    )

    async def close(self) -> None:
        """Cancel running updates; the next check starts them again."""
        await self._cancel(self._checks.values())
        await asyncio.gather(*self._requested.values(), return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def forget(self, project: Project) -> None:
        """Stop following the trees of a project that is to be dropped."""
        keys = [key for key in self._checks if key[0] == project.schema_name]
        await self._cancel([self._checks.pop(key) for key in keys])

    async def _cancel(self, checks: Iterable[TreeCheck]) -> None:
        tasks = [check.task for check in checks if check.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
        with step("freshness"):
            await self.follow(project, snapshots.ids, first=snapshots.first)
        search = partial(self._searcher.search, project, text, request, snapshots)
        answer = await search()
        if self._budget_s and answer.hits:
            answer = await self._verified(project, search, answer, started)
        with step("freshness"):
            return answer, await self.state_of(project, answer.snapshots)

    async def follow(
        self,
        project: Project,
        snapshot_ids: Collection[int] | None = None,
        *,
        first: Collection[int] = (),
        budget_s: float | None = None,
        only_check: bool = False,
    ) -> None:
        """Update the index of a project's trees, or of some, as far as the budget allows.

        The snapshots of the caller's trees are ``first``.
        """
        budget_s = self._budget_s if budget_s is None else budget_s
        if not budget_s:
            return
        checks = []
        for tree in await self._trees.recent(project):
            if snapshot_ids is None or tree.snapshot_id in snapshot_ids:
                if self._is_outdated(tree.profile):
                    self._request_rebuild(project, tree)
                checks.append(self._check_of(project, tree))
        checked_out = await self._checked_out(checks, budget_s)
        due = [
            check
            for check in checks
            if check.task is None and self._is_due(check, is_checked_out=check in checked_out)
        ]
        if len(checks) == 1:
            first = {checks[0].tree.snapshot_id}
        for check in self._affordable(due, checked_out, first):
            check.start(only_check=only_check)
        await _wait(checks, budget_s)

    async def check(self, project: Project, *, budget_s: float) -> dict[UUID, TreeState]:
        """The state of each repository's index, checked within the budget; indexes nothing."""
        await self.follow(project, budget_s=budget_s, only_check=True)
        states = {}
        for tree in await self._trees.load(project):
            states[tree.repository_id] = self._state_of(project, tree, tree.files_pending)
        return states

    async def differing(self, project: Project, tree: Tree) -> set[str] | None:
        """The paths at which a tree is known to differ from its index; None if they are unknown.

        A check that is running is waited for: comparing the tree here would take longer.
        """
        if not self._budget_s or not self._trees.select_same_files(tree):
            return set()
        check = self._check_of(project, tree)
        if check.task is not None:
            await asyncio.wait([check.task], timeout=_MOST_WAIT_S)
        trees = await self._trees_by_id(project, {tree.repository_id: tree.files_pending})
        state = self._state_of(project, trees.get(tree.repository_id), tree.files_pending)
        was_compared = state.state == "unchecked" and check.checked_at is not None
        if state.state in ("ready", "stale") or was_compared:
            is_known = not (check.pending.needs_full_run or check.pending.is_being_indexed)
            return set(check.pending.paths) if is_known else None
        return None

    async def state_of(
        self, project: Project, snapshots: Sequence[ScopedSnapshot]
    ) -> IndexFreshness:
        """How up to date an answer from these snapshots is."""
        pending = {s.repository_id: s.files_pending for s in snapshots if s.view == WORKTREE}
        trees = await self._trees_by_id(project, pending)
        states = [
            self._state_of(project, trees.get(snapshot.repository_id), snapshot.files_pending)
            if snapshot.view == WORKTREE
            else _state_of_commit(snapshot)
            for snapshot in snapshots
        ]
        return IndexFreshness(
            state=max((s.state for s in states), key=get_args(State).index, default="absent"),
            files_pending=sum(state.pending for state in states),
            files_failed=sum(snapshot.files_failed for snapshot in snapshots),
            files_skipped=sum(sum(loads(snapshot.skipped).values()) for snapshot in snapshots),
            indexed_at=_earliest([snapshot.indexed_at for snapshot in snapshots]),
            checked_at=_earliest([state.checked_at for state in states]),
        )

    async def _trees_by_id(self, project: Project, pending: Mapping[UUID, int]) -> dict[UUID, Tree]:
        """The trees of a project, loaded again if a search reported ``pending`` files in any."""
        if not pending:
            return {}
        is_any = any(pending.values())
        trees = await self._trees.recent(project, reload=is_any, include=pending.keys())
        return {tree.repository_id: tree for tree in trees}

    def _state_of(self, project: Project, tree: Tree | None, pending: int) -> TreeState:
        """The state of an index for which a search reported ``pending`` files."""
        if tree is None:
            return TreeState("unchecked", pending)
        check = self._check_of(project, tree)
        most = max(pending, check.count if check.pending else 0)
        is_followed = tree.is_watched and not check.pending
        checked_at = datetime.now(UTC) if is_followed else check.checked_at
        if self._is_outdated(tree.profile):
            return TreeState("outdated", most, checked_at)
        if tree.is_running and not (check.task and not tree.files_pending):
            return TreeState("indexing", most, checked_at)
        if pending or not tree.is_complete:
            return TreeState("incomplete", most, checked_at)
        if check.pending:
            return TreeState("stale", most, checked_at)
        is_recent = check.is_trusted and check.task is None and not check.is_postponed
        is_ready = tree.is_watched or is_recent
        return TreeState("ready" if is_ready else "unchecked", 0, checked_at)

    async def _verified(
        self,
        project: Project,
        search: Callable[[], Awaitable[Answer]],
        answer: Answer,
        started: float,
    ) -> Answer:
        """The answer without hits whose lines have changed, after their files are indexed."""
        roots = {snapshot.repository_id: Path(snapshot.root) for snapshot in answer.snapshots}
        verified = await self._verify(answer, roots)
        if verified.changed:
            left_s = self._budget_s - (time.monotonic() - started)
            within_s = max(left_s, _LEAST_SHARE * self._budget_s)
            await self._update_changed(project, verified.changed, within_s)
            answer = await search()
            verified = await self._verify(answer, roots)
            await self._update_changed(project, verified.changed, within_s=0)
        dropped = len(answer.hits) - len(verified.hits)
        total = max(answer.total_count - dropped, len(verified.hits))
        return replace(answer, hits=verified.hits, total_count=total)

    async def _verify(self, answer: Answer, roots: Mapping[UUID, Path]) -> Verified:
        with step("verify"):
            return await asyncio.to_thread(self._verifier.verify, answer.hits, roots)

    async def _update_changed(
        self, project: Project, changed: Mapping[UUID, set[str]], within_s: float
    ) -> None:
        """Update the index at changed paths of some repositories, as far as the time allows."""
        if not changed:
            return
        with step("freshness"):
            checks = []
            for tree in await self._trees.recent(project):
                paths = changed.get(tree.repository_id)
                if paths and self._may_update(tree):
                    check = self._check_of(project, tree)
                    check.pending.paths |= paths
                    check.count = max(check.count, len(check.pending.paths))
                    if check.task is None:
                        check.start(compare=False)
                    checks.append(check)
            await _wait(checks, within_s)

    async def _checked_out(self, checks: Sequence[TreeCheck], budget_s: float) -> set[TreeCheck]:
        """The trees whose files git may have changed since the last check."""
        if self._checkouts is not None:
            await asyncio.wait([self._checkouts], timeout=budget_s)
            if not self._checkouts.done():
                return set()  # a network drive hangs
        idle = [check for check in checks if check.task is None]
        states = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: [check.has_new_checkout() for check in idle]
        )
        self._checkouts = states  # another search may replace it while this one waits
        await asyncio.wait([states], timeout=budget_s)
        if not states.done():
            return set()
        changed = zip(idle, states.result(), strict=True)
        return {check for check, has_changed in changed if has_changed and check.is_trusted}

    def _is_due(self, check: TreeCheck, *, is_checked_out: bool) -> bool:
        tree = check.tree
        if not self._may_update(tree) or tree.is_running:
            return False
        if tree.was_cancelled and (tree.files_pending or not tree.is_complete):
            return False  # a user cancelled it
        is_time = time.monotonic() >= check.not_before
        return is_checked_out or (is_time and (not tree.is_watched or bool(check.pending)))

    def _affordable(
        self, due: Sequence[TreeCheck], checked_out: Collection[TreeCheck], first: Collection[int]
    ) -> list[TreeCheck]:
        """The due checks for which there is processor time, the most urgent first.

        Each of the caller's trees may take ``_SHARE`` of the time, all others together as much.
        """
        now = time.monotonic()
        of_all_s = sum(check.took_s for check in self._checks.values())
        self._left_s = min(self._left_s + (now - self._reckoned_at) * _SHARE, of_all_s)
        self._reckoned_at = now
        ordered = sorted(
            due,
            key=lambda check: (check.tree.snapshot_id in first, check.urgency(now)),
            reverse=True,
        )
        for check in ordered:
            if check in checked_out:
                check.is_postponed = False
            elif check.tree.snapshot_id in first:
                check.is_postponed = check.took_s > check.waited_s(now) * _SHARE
            else:
                check.is_postponed = self._left_s < 0
                if not check.is_postponed:
                    self._left_s -= check.took_s
        return [check for check in ordered if not check.is_postponed]

    def _may_update(self, tree: Tree) -> bool:
        return self._trees.select_same_files(tree) and not self._is_outdated(tree.profile)

    def _request_rebuild(self, project: Project, tree: Tree) -> None:
        """Queue a rebuild next to the old index, unless a user cancelled a rebuild."""
        key = project.schema_name, tree.repository_id
        # The first versions did not record the settings of a run.
        is_ours = self._trees.select_same_files(tree) or not tree.selected_by
        if key in self._requested or tree.is_running or tree.was_cancelled or not is_ours:
            return

        async def request() -> None:
            try:
                await self._request_run(project, tree.root)
            except CodebaseError as error:
                log.warning("Cannot rebuild the index of %s: %s", tree.root, error.message)

        with no_stopwatch():
            self._requested[key] = asyncio.create_task(request())

    def _check_of(self, project: Project, tree: Tree) -> TreeCheck:
        """The check of a tree; a new snapshot has a new check, after the old task has ended."""
        key = project.schema_name, tree.repository_id
        check = self._checks.get(key)
        if check is None or check.tree.snapshot_id != tree.snapshot_id:
            before = check.task if check is not None else None
            new = self._checks[key] = check = TreeCheck(
                project, tree, self._trees, self._threads, self._only_once, before
            )
            if before is not None:
                before.add_done_callback(lambda _: setattr(new, "task", None))
        check.tree = tree
        return check


async def _wait(checks: Iterable[TreeCheck], within_s: float) -> None:
    """Wait for the running checks that have not taken longer than this time yet."""
    tasks = {task for check in checks for task in check.task_within(within_s)}
    if tasks:
        await asyncio.wait(tasks, timeout=within_s)


def _state_of_commit(snapshot: ScopedSnapshot) -> TreeState:
    """A commit never changes, so its snapshot is up to date once it is complete."""
    if snapshot.files_pending or snapshot.indexed_at is None:
        return TreeState("indexing", snapshot.files_pending)
    return TreeState("ready", 0, datetime.now(UTC))


def _earliest(times: Sequence[datetime | None]) -> datetime | None:
    """The earliest time; None if any is unknown."""
    present = [time for time in times if time is not None]
    return min(present, default=None) if len(present) == len(times) else None
