"""Which repositories does this process watch? Those on disk that no other process watches.

The process that holds a repository's lock watches it; the lock is released when the process ends.
Every few seconds the other processes check whether a lock is free and which repositories were added
or removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from codebase_mcp.app.freshness.tree_watch import IndexUpdate, TreeWatch
from codebase_mcp.app.freshness.trees import IndexedTrees, Tree
from codebase_mcp.database.connection import Database, ProjectTryLocks
from codebase_mcp.database.naming import behind_lock, watch_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.source.git_directory import is_bare_repository
from codebase_mcp.source.open_file import is_real_directory

log = logging.getLogger(__name__)

POLL_S = 2.0

Projects = Callable[[], Awaitable[Sequence[Project]]]
Key = tuple[str, UUID]


@dataclass(slots=True)
class _Watched:
    """A repository that this process watches."""

    project: Project
    repository_id: UUID
    task: asyncio.Task[None]


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
    _watched: dict[Key, _Watched] = field(default_factory=dict)
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
                    await asyncio.sleep(POLL_S)
            finally:
                await _end([watched.task for watched in self._watched.values()])

    async def _round(self, locks: ProjectTryLocks) -> None:
        await locks.check()
        listed: dict[Key, tuple[Project, Tree]] = {}
        for project in await self.projects():
            for tree in await self.trees.load(project):
                is_chosen = self.roots is None or tree.root in self.roots
                # A bare repository has no files to watch: each search follows its HEAD.
                if is_chosen and not await asyncio.to_thread(is_bare_repository, tree.root):
                    listed[project.schema_name, tree.repository_id] = project, tree
        for key, watched in list(self._watched.items()):
            # A lock that was lost with its connection is acquired again.
            lock = watch_lock(watched.repository_id)
            is_going = key in listed and not watched.task.done()
            if not is_going or not await locks.acquire(watched.project, lock):
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
        if not has_same_settings or not await locks.acquire(
            project, watch_lock(tree.repository_id)
        ):
            if key not in self._taken_elsewhere:
                self._taken_elsewhere.add(key)
                if has_same_settings:
                    self.on_taken_elsewhere(tree.root)
                else:
                    log.warning(
                        "%s is not watched: it was indexed with settings that select other files",
                        tree.root,
                    )
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
        task = asyncio.create_task(_run(watch, tree.root))
        self._watched[key] = _Watched(project, tree.repository_id, task)

    async def _end_watch(self, locks: ProjectTryLocks, key: Key) -> None:
        """Stop watching a repository that was removed or that another process watches now."""
        watched = self._watched.pop(key)
        await _end([watched.task])
        for lock in (behind_lock, watch_lock):
            await locks.release(watched.project, lock(watched.repository_id))


async def _run(watch: TreeWatch, root: Path) -> None:
    try:
        await watch.run()
    except Exception:  # the edge of a task; the next round starts it again
        log.exception("Following %s failed", root)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
