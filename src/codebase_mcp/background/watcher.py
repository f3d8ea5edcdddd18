"""Which repositories does this process follow? Those that are here and that nobody else follows.

Of several processes one follows a repository: whoever got its lock, which falls with the process.
The others look every few seconds whether it is free, and which repositories came or went.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from codebase_mcp.app import App
from codebase_mcp.background.tree_watch import Followed, TreeWatch
from codebase_mcp.database.connection import ProjectClaims
from codebase_mcp.database.naming import behind_lock, watch_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.freshness import Freshness
from codebase_mcp.index.trees import Tree

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
        listens: bool = True,
        tell: Callable[[Followed], None] = lambda _: None,
        tell_taken: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._freshness = freshness
        self._projects = projects
        self._roots = roots
        self._listens = listens
        self._tell = tell
        self._tell_taken = tell_taken
        self._watched: dict[Key, _Watched] = {}
        self._taken: set[Key] = set()

    async def run(self) -> None:
        """Follow, and look now and then what there is to follow."""
        async with self._freshness.claims() as claims:
            try:
                while True:
                    try:
                        await self._round(claims)
                    except CodebaseError as error:  # what is followed goes on trying by itself
                        log.info("Repositories cannot be listed: %s", error.message)
                    await asyncio.sleep(POLL_S)
            finally:
                await _end([watched.task for watched in self._watched.values()])

    async def _round(self, claims: ProjectClaims) -> None:
        await claims.check()
        found: dict[Key, tuple[Project, Tree]] = {}
        for project in await self._projects():
            for tree in await self._freshness.trees(project):
                if self._roots is None or tree.root in self._roots:
                    found[project.schema_name, tree.repository_id] = project, tree
        for key, watched in list(self._watched.items()):
            if key not in found or watched.task.done() or not await _keep(claims, watched):
                await self._drop(claims, key)
        for key, (project, tree) in found.items():
            if key not in self._watched:
                await self._take(claims, key, project, tree)

    async def _take(self, claims: ProjectClaims, key: Key, project: Project, tree: Tree) -> None:
        if not await asyncio.to_thread(tree.root.is_dir):
            return
        if not self._freshness.is_ours(tree):
            if key not in self._taken:
                self._taken.add(key)
                log.warning(
                    "%s is not watched: it was indexed under settings that list other files of it",
                    tree.root,
                )
            return
        if not await claims.take(project, watch_lock(tree.repository_id)):
            if key not in self._taken:
                self._taken.add(key)
                self._tell_taken(tree.root)
            return
        self._taken.discard(key)

        async def behind(is_behind: bool) -> None:
            lock = behind_lock(tree.repository_id)
            with suppress(CodebaseError):  # nobody can be told without a database
                await (claims.take if is_behind else claims.give)(project, lock)

        watch = TreeWatch(
            self._freshness,
            project,
            tree.repository_id,
            tree.root,
            tell=self._tell,
            behind=behind,
            listens=self._listens,
        )
        task = asyncio.create_task(_logged(watch, tree.root))
        self._watched[key] = _Watched(project, tree.repository_id, task)

    async def _drop(self, claims: ProjectClaims, key: Key) -> None:
        """Follow a repository no more, as it was removed, or somebody else does now."""
        watched = self._watched.pop(key)
        await _end([watched.task])
        for lock in (behind_lock, watch_lock):
            await claims.give(watched.project, lock(watched.repository_id))


@asynccontextmanager
async def watching(app: App) -> AsyncIterator[None]:
    """Follow every repository that is here for as long as the block runs."""
    watcher = Watcher(app.freshness, app.freshness.projects)
    task = asyncio.create_task(watcher.run())
    try:
        yield
    finally:
        await _end([task])


async def _keep(claims: ProjectClaims, watched: _Watched) -> bool:
    """Take the lock again that may have been lost with its connection; is it still ours?"""
    return await claims.take(watched.project, watch_lock(watched.repository_id))


async def _logged(watch: TreeWatch, root: Path) -> None:
    try:
        await watch.run()
    except Exception:  # the edge of a task; it begins anew at the next round
        log.exception("%s is not followed any more", root)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
