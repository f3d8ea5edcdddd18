"""Which repositories does this process follow? Those on disk that no other process follows.

The process that holds a repository's lock follows it; the lock is released when the process ends.
The others check every few seconds whether a lock is free and which repositories were added or
removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.app.app import App
from codebase_mcp.app.freshness import Freshness
from codebase_mcp.background.tree_watch import IndexUpdate, TreeWatch
from codebase_mcp.database.connection import ProjectTryLocks
from codebase_mcp.database.naming import behind_lock, watch_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.trees import Tree
from codebase_mcp.source.git_directory import is_bare_repository
from codebase_mcp.source.open_file import is_real_directory

log = logging.getLogger(__name__)

POLL_S = 2.0

Projects = Callable[[], Awaitable[Sequence[Project]]]
Key = tuple[str, UUID]


@dataclass(slots=True)
class _Watched:
    """A repository that is followed here."""

    project: Project
    repository_id: UUID
    task: asyncio.Task[None]


class Watcher:
    """Follows all repositories of some projects, or those at ``roots``, until it is cancelled."""

    def __init__(
        self,
        freshness: Freshness,
        projects: Projects,
        *,
        roots: Collection[Path] | None = None,
        watch_events: bool = True,
        on_update: Callable[[IndexUpdate], None] = lambda _: None,
        on_taken_elsewhere: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._freshness = freshness
        self._projects = projects
        self._roots = roots
        self._watch_events = watch_events
        self._on_update = on_update
        self._on_taken_elsewhere = on_taken_elsewhere
        self._watched: dict[Key, _Watched] = {}
        self._taken_elsewhere: set[Key] = set()

    async def run(self) -> None:
        """Follow repositories, and check regularly which ones there are."""
        async with self._freshness.try_locks() as locks:
            try:
                while True:
                    try:
                        await self._round(locks)
                    except CodebaseError as error:  # each followed tree retries by itself
                        log.info("Repositories cannot be listed: %s", error.message)
                    await asyncio.sleep(POLL_S)
            finally:
                await _end([watched.task for watched in self._watched.values()])

    async def _round(self, locks: ProjectTryLocks) -> None:
        await locks.check()
        found: dict[Key, tuple[Project, Tree]] = {}
        for project in await self._projects():
            for tree in await self._freshness.trees(project):
                is_wanted = self._roots is None or tree.root in self._roots
                # A bare repository has no files to watch: each search follows its HEAD.
                if is_wanted and not await asyncio.to_thread(is_bare_repository, tree.root):
                    found[project.schema_name, tree.repository_id] = project, tree
        for key, watched in list(self._watched.items()):
            if key not in found or watched.task.done() or not await _still_locked(locks, watched):
                await self._unfollow(locks, key)
        for key, (project, tree) in found.items():
            if key not in self._watched:
                await self._follow(locks, key, project, tree)

    async def _follow(self, locks: ProjectTryLocks, key: Key, project: Project, tree: Tree) -> None:
        if not await asyncio.to_thread(is_real_directory, tree.root):
            return
        if not self._freshness.has_same_settings(tree):
            if key not in self._taken_elsewhere:
                self._taken_elsewhere.add(key)
                log.warning(
                    "%s is not watched: it was indexed with settings that select other files",
                    tree.root,
                )
            return
        if not await locks.acquire(project, watch_lock(tree.repository_id)):
            if key not in self._taken_elsewhere:
                self._taken_elsewhere.add(key)
                self._on_taken_elsewhere(tree.root)
            return
        self._taken_elsewhere.discard(key)

        async def set_behind(is_behind: bool) -> None:
            lock = behind_lock(tree.repository_id)
            with suppress(CodebaseError):  # the state cannot be shared without a database
                await (locks.acquire if is_behind else locks.release)(project, lock)

        watch = TreeWatch(
            self._freshness,
            project,
            tree.repository_id,
            tree.root,
            on_update=self._on_update,
            set_behind=set_behind,
            watch_events=self._watch_events,
        )
        task = asyncio.create_task(_logged(watch, tree.root))
        self._watched[key] = _Watched(project, tree.repository_id, task)

    async def _unfollow(self, locks: ProjectTryLocks, key: Key) -> None:
        """Stop following a repository that was removed or that another process follows now."""
        watched = self._watched.pop(key)
        await _end([watched.task])
        for lock in (behind_lock, watch_lock):
            await locks.release(watched.project, lock(watched.repository_id))


@asynccontextmanager
async def watching(app: App) -> AsyncIterator[None]:
    """Follow every repository on this machine while the block runs."""
    watcher = Watcher(app.freshness, app.freshness.projects)
    task = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        await _end([task])


async def _still_locked(locks: ProjectTryLocks, watched: _Watched) -> bool:
    """Whether the lock is held; one that was lost with its connection is acquired again."""
    return await locks.acquire(watched.project, watch_lock(watched.repository_id))


async def _logged(watch: TreeWatch, root: Path) -> None:
    try:
        await watch.run()
    except Exception:  # the edge of a task; the next round starts it again
        log.exception("Following %s failed", root)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
