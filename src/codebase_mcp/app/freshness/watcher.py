"""How does the index of a watched repository follow its files?

Events of the operating system name directories. A ``TreeScan`` finds the changed files there.
So ignored files, swap files and saves of the same text cost nothing, and a change during an update
is not lost. A tree that cannot be watched is scanned at short intervals instead.

A process watches the repositories on disk that no other process watches. The process that holds a
repository's lock watches it; the lock is released when the process ends. Every few seconds the
other processes check whether a lock is free and which repositories were added or removed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from codebase_mcp.app.freshness.directory_watcher import (
    LIMITS_HINT,
    WATCHES_RECURSIVELY,
    CannotWatch,
    DirectoryWatcher,
)
from codebase_mcp.app.freshness.trees import IndexedTrees, PendingChanges, Tree
from codebase_mcp.database.connection import Database, ProjectTryLocks
from codebase_mcp.database.naming import Project, behind_lock, watch_lock
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.build import RunResult
from codebase_mcp.source.git_directory import git_dir_for, is_bare_repository
from codebase_mcp.source.open_file import is_real_directory
from codebase_mcp.source.tree_scan import TreeChanges, TreeScan

log = logging.getLogger(__name__)

# Changes that belong together, such as a checkout, are indexed once no event has come for this
# long.
QUIET_S = 0.15
QUIET_REBASE_S = 0.3
MAX_QUIET_WAIT_S = 5.0
# From this many paths on it may be a checkout.
MANY_PATHS = 30

# The whole tree is scanned this often, as systems lose events and network drives send none.
RESCAN_S = 300.0

# How often a process checks which repositories it can watch.
ROUND_S = 2.0

# A tree that cannot be watched is scanned this often; if it is large less often, so that scanning
# takes at most a twentieth of the time.
POLL_S = 1.0
POLL_SHARE = 20

# A file may pass this many times within the window; after that it has to wait.
_LIMIT = 10
_WINDOW_S = 10.0

MIN_PAUSE_S = 0.5
MAX_PAUSE_S = 30.0
ROOT_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """An update of the index, or the error that prevented it."""

    root: Path
    seconds: float
    run: RunResult | None = None
    error: CodebaseError | None = None


@dataclass(slots=True)
class _Events:
    """Events that have not been looked at yet.

    ``paths`` are in the tree; ``has_outside`` says that something else changed, as git's records
    do. ``at`` is the time of the last event.
    """

    paths: set[bytes] = field(default_factory=set)
    has_outside: bool = False
    at: float = 0.0
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self) -> set[bytes]:
        paths, self.paths = self.paths, set()
        self.has_outside = False
        self.came.clear()
        return paths


class Throttle:
    """Limits how often each path is indexed, as logs change again and again.

    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passed: dict[str, deque[float]] = {}
        self._waiting: set[str] = set()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def admit(self, paths: set[str]) -> set[str]:
        """The paths that may pass now; the rest waits."""
        now = self._clock()
        self._passed = {
            path: times for path, times in self._passed.items() if times[-1] > now - _WINDOW_S
        }
        admitted = {path for path in paths if self._may_pass(path, now)}
        self._waiting |= paths - admitted
        self._waiting -= admitted
        for path in admitted:
            self._passed.setdefault(path, deque(maxlen=_LIMIT)).append(now)
        return admitted

    def due(self) -> set[str]:
        """The waiting paths that may pass now."""
        now = self._clock()
        return {path for path in self._waiting if self._may_pass(path, now)}

    def due_in_s(self, limit_s: float) -> float:
        """Seconds until the next waiting path may pass, at most ``limit_s``."""
        now = self._clock()
        waits = [self._passed.get(path, [now])[0] + _WINDOW_S - now for path in self._waiting]
        return max(min([*waits, limit_s]), 0.0)

    def _may_pass(self, path: str, now: float) -> bool:
        times = self._passed.get(path)
        return times is None or len(times) < _LIMIT or times[0] <= now - _WINDOW_S


@dataclass(slots=True, eq=False)
class TreeWatch:
    """Watches a repository until it is cancelled.

    ``on_update`` is called after each update. ``set_behind`` is called with True when changes wait
    to be indexed, and with False when none do. Without ``watch_events`` the tree is only polled.
    """

    trees: IndexedTrees
    project: Project
    repository_id: UUID
    root: Path
    on_update: Callable[[IndexUpdate], None]
    set_behind: Callable[[bool], Awaitable[None]]
    watch_events: bool = True
    _events: _Events = field(default_factory=_Events)
    _watcher: DirectoryWatcher = field(init=False)
    _throttle: Throttle = field(default_factory=Throttle)
    _scan: TreeScan = field(init=False)
    _git_dir: Path | None = None
    _pending: PendingChanges = field(default_factory=PendingChanges)
    _has_new_rules: bool = False
    _uses_events: bool = True
    _poll_s: float = RESCAN_S
    _pause_s: float = 0.0

    def __post_init__(self) -> None:
        self._watcher = DirectoryWatcher(self._on_events)

    async def run(self) -> None:
        """Bring the index up to date, then keep it so."""
        try:
            while True:
                try:
                    await self._start()
                    await self._follow()
                except FileNotFoundError:  # the root is gone; its index is kept
                    await self._wait_for_root()
                except CodebaseError as error:  # such as invalid settings of the repository
                    await self._report_failure(error, 0.0)
        finally:
            await self._watcher.close()

    async def _start(self) -> None:
        """Watch first, then request a full update, so that no change is missed in between."""
        if not await asyncio.to_thread(is_real_directory, self.root):
            raise FileNotFoundError(str(self.root))
        await self.set_behind(True)
        selection = await asyncio.to_thread(self.trees.selection_of, self.root)
        self._scan = await asyncio.to_thread(TreeScan, self.root, selection)
        self._git_dir = await asyncio.to_thread(git_dir_for, self.root)
        await self._start_watching()
        changes = await self._scan_changes(self._events.take(), everywhere=True)
        await self._watch_new_directories(changes)
        self._pending.needs_full_run, self._has_new_rules = True, False

    async def _follow(self) -> None:
        while True:
            is_due = not self._pending and not await self._wait_for_events()
            await self._wait_until_quiet()
            paths = self._events.take()
            await self._watch_new_directories(await self._scan_changes(paths, everywhere=is_due))
            if self._has_new_rules:
                await self._start()
            await self._update_index()

    async def _wait_for_events(self) -> bool:
        """Wait for events or throttled paths; False when it is time for a full scan."""
        timeout_s = self._throttle.due_in_s(self._poll_s)
        try:
            async with asyncio.timeout(timeout_s):
                await self._events.came.wait()
        except TimeoutError:
            due = self._throttle.due()
            self._pending.paths |= due
            return bool(due)
        return True

    async def _wait_until_quiet(self) -> None:
        """Wait, for a limited time, until changes that belong together are complete."""
        began = time.monotonic()
        while time.monotonic() - began < MAX_QUIET_WAIT_S:
            quiet_s = await self._quiet_s()
            left_s = self._events.at + quiet_s - time.monotonic()
            if left_s <= 0:
                return
            await self.set_behind(True)
            await asyncio.sleep(left_s)

    async def _quiet_s(self) -> float:
        """How long no event may have come; always in the future while git holds its lock."""
        if self._git_dir is not None and self._events.has_outside:
            git_dir = self._git_dir
            if await asyncio.to_thread((git_dir / "index.lock").exists):
                return time.monotonic() - self._events.at + QUIET_S
            rebasing = [git_dir / "rebase-merge", git_dir / "rebase-apply"]
            if await asyncio.to_thread(lambda: any(path.exists() for path in rebasing)):
                return QUIET_REBASE_S
        return QUIET_S if len(self._events.paths) >= MANY_PATHS else 0.0

    async def _scan_changes(self, paths: set[bytes], *, everywhere: bool) -> TreeChanges:
        """Scan at these paths, or everywhere, and mark the changes as pending."""
        scan = self._scan
        within = None if everywhere else paths | {path.rpartition(b"/")[0] for path in paths}
        began = time.monotonic()
        changes = await asyncio.to_thread(scan.changes, within)
        if everywhere and not self._uses_events:
            self._poll_s = max(POLL_S, POLL_SHARE * (time.monotonic() - began))
        # An event counts even if the times are the same: they may be too coarse to show a change.
        self._pending.paths |= {os.fsdecode(path) for path in paths if scan.has_file(path)}
        self._add_pending(changes)
        # A directory that was deleted and created again is no longer watched.
        changes.new_directories += scan.directories_below(path for path in paths if path)
        return changes

    async def _watch_new_directories(self, changes: TreeChanges) -> None:
        """Watch directories that appeared, then scan them again for changes in between."""
        while changes.new_directories and self._uses_events:
            new = list(dict.fromkeys(changes.new_directories))
            if not WATCHES_RECURSIVELY:
                await self._watch(self._directories())
            changes = await asyncio.to_thread(self._scan.changes, new)
            self._add_pending(changes)

    def _add_pending(self, changes: TreeChanges) -> None:
        self._pending.paths |= changes.changed
        self._pending.needs_full_run |= changes.needs_full_run
        self._has_new_rules |= changes.has_new_rules

    async def _start_watching(self) -> None:
        self._uses_events = self.watch_events
        self._poll_s = RESCAN_S if self._uses_events else POLL_S
        if self._uses_events:
            await self._watch([str(self.root)] if WATCHES_RECURSIVELY else self._directories())

    async def _watch(self, directories: Sequence[str]) -> None:
        """Watch these directories; if that is refused, the tree is polled from now on."""
        try:
            await self._watcher.watch(directories)
        except CannotWatch as error:
            self._uses_events, self._poll_s = False, POLL_S
            await self._watcher.close()
            log.warning(
                "Cannot watch all directories of %s (%s). It is polled instead, which is slower:"
                " %s",
                self.root,
                error,
                LIMITS_HINT,
            )

    def _directories(self) -> list[str]:
        git_dir = [] if self._git_dir is None else [str(self._git_dir)]
        return [*self._scan.directories, *git_dir]

    def _on_events(self, locations: set[str]) -> None:
        for location in locations:
            path = self._scan.path_of(location)
            if path is None or path.startswith(b".git/") or path == b".git":
                self._events.has_outside = True
            else:
                self._events.paths.add(path)
        self._events.at = time.monotonic()
        self._events.came.set()

    async def _update_index(self) -> None:
        """Index the pending changes; if that fails they stay pending."""
        is_full = self._pending.needs_full_run
        if not is_full:
            self._pending.paths = self._throttle.admit(self._pending.paths)
        if self._pending:
            began = time.monotonic()
            try:
                run = await self._pending.index(self.trees, self.project, self.root)
                if is_full and run is not None:
                    await self._track_stored()
            except CodebaseError as error:
                self._pending.needs_full_run |= is_full
                await self._report_failure(error, time.monotonic() - began)
                return
            self._pause_s = 0.0
            if run is not None and (is_full or run.files_indexed or run.files_removed):
                self.on_update(IndexUpdate(self.root, time.monotonic() - began, run=run))
        if not (self._events.paths or self._throttle.has_waiting):
            await self.set_behind(False)

    async def _track_stored(self) -> None:
        """Also scan indexed files that are ignored: git may track them."""
        stored = await self.trees.stored_paths(self.project, self.repository_id)
        new = await asyncio.to_thread(self._scan.track, stored)
        await self._watch_new_directories(TreeChanges(new_directories=new))

    async def _report_failure(self, error: CodebaseError, seconds: float) -> None:
        """Report an error and pause, longer each time."""
        self._pause_s = min(max(2 * self._pause_s, MIN_PAUSE_S), MAX_PAUSE_S)
        self.on_update(IndexUpdate(self.root, seconds, error=error))
        log.warning(
            "Cannot update the index of %s; next try in %.1f s: %s",
            self.root,
            self._pause_s,
            error.message,
        )
        await self.set_behind(True)
        self._events.came.clear()
        await asyncio.sleep(MIN_PAUSE_S)
        with suppress(TimeoutError):  # the next change may fix the cause
            async with asyncio.timeout(self._pause_s - MIN_PAUSE_S):
                await self._events.came.wait()

    async def _wait_for_root(self) -> None:
        log.warning("%s does not exist; its index is kept", self.root)
        await self._watcher.close()
        while not await asyncio.to_thread(is_real_directory, self.root):  # noqa: ASYNC110 - no event comes
            await asyncio.sleep(ROOT_POLL_S)


Projects = Callable[[], Awaitable[Sequence[Project]]]
Key = tuple[str, UUID]


@dataclass(slots=True, eq=False)
class Watcher:
    """Watches all repositories of some projects, or those at ``roots``, until it is cancelled."""

    database: Database
    trees: IndexedTrees
    projects: Projects
    roots: Collection[Path] | None = None
    watch_events: bool = True
    on_update: Callable[[IndexUpdate], None] = lambda _: None
    on_taken_elsewhere: Callable[[Path], None] = lambda _: None
    _watched: dict[Key, tuple[Project, asyncio.Task[None]]] = field(default_factory=dict)
    _taken_elsewhere: set[Key] = field(default_factory=set)

    async def run(self) -> None:
        """Watch repositories, and check regularly which there are."""
        async with self.database.try_locks() as locks:
            try:
                while True:
                    try:
                        await self._round(locks)
                    except CodebaseError as error:  # each watched tree retries by itself
                        log.info("Repositories cannot be listed: %s", error.message)
                    await asyncio.sleep(ROUND_S)
            finally:
                await _end([task for _, task in self._watched.values()])

    async def _round(self, locks: ProjectTryLocks) -> None:
        await locks.check()
        listed: dict[Key, tuple[Project, Tree]] = {}
        for project in await self.projects():
            for tree in await self.trees.load(project):
                is_chosen = self.roots is None or tree.root in self.roots
                # A bare repository has no files to watch: each search follows its HEAD.
                if is_chosen and not await asyncio.to_thread(is_bare_repository, tree.root):
                    listed[project.schema_name, tree.repository_id] = project, tree
        for key, (project, task) in list(self._watched.items()):
            is_going = key in listed and not task.done()
            # A lock that was lost with its connection is acquired again.
            if not is_going or not await locks.acquire(project, watch_lock(key[1])):
                await self._end_watch(locks, key)
        for key, (project, tree) in listed.items():
            if key not in self._watched:
                await self._start_watch(locks, key, project, tree)

    async def _start_watch(
        self, locks: ProjectTryLocks, key: Key, project: Project, tree: Tree
    ) -> None:
        if not await asyncio.to_thread(is_real_directory, tree.root):
            return
        has_same_settings = self.trees.select_same_files(tree)
        lock = watch_lock(tree.repository_id)
        if not has_same_settings or not await locks.acquire(project, lock):
            if key not in self._taken_elsewhere and has_same_settings:
                self.on_taken_elsewhere(tree.root)
            elif key not in self._taken_elsewhere:
                log.warning(
                    "%s is not watched: it was indexed with settings that select other files",
                    tree.root,
                )
            self._taken_elsewhere.add(key)
            return
        self._taken_elsewhere.discard(key)

        async def set_behind(is_behind: bool) -> None:
            lock = behind_lock(tree.repository_id)
            with suppress(CodebaseError):  # the state cannot be shared without a database
                await (locks.acquire if is_behind else locks.release)(project, lock)

        watch = TreeWatch(
            self.trees,
            project,
            tree.repository_id,
            tree.root,
            on_update=self.on_update,
            set_behind=set_behind,
            watch_events=self.watch_events,
        )
        self._watched[key] = project, asyncio.create_task(_run(watch))

    async def _end_watch(self, locks: ProjectTryLocks, key: Key) -> None:
        """Stop watching a repository that was removed or that another process watches now."""
        project, task = self._watched.pop(key)
        await _end([task])
        for lock in (behind_lock, watch_lock):
            await locks.release(project, lock(key[1]))


async def _run(watch: TreeWatch) -> None:
    try:
        await watch.run()
    except Exception:  # the edge of a task; the next round starts it again
        log.exception("Following %s failed", watch.root)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
