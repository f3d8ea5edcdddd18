"""Which trees are indexed, being indexed or watched, and how is their index updated?"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import behind_lock, index_lock, watch_lock
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.index.plan import StoredFile
from codebase_mcp.source.selection import Selection

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult

_SQL = load_queries("codebase_mcp.app.freshness", "trees.sql")

# For how long the loaded trees of a project, and a check of a tree, are valid.
FRESH_S = 1.0

State = Literal["ready", "unchecked", "stale", "outdated", "incomplete", "indexing", "absent"]
"""How far an index equals its files, from best to worst."""

UpdateIndex = Callable[[Project, Path, "Iterable[str] | None"], Awaitable["RunResult"]]
"""Updates an index for some paths of its tree, or for all of it; raises if that fails."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A repository, its active snapshot, and whether it is being indexed or watched.

    ``is_watched`` means that a process follows all changes of its files and has indexed all of
    them; ``was_cancelled`` that a user cancelled its last run. ``ignore_patterns`` leave out files
    beside the settings.
    """

    repository_id: UUID
    root: Path
    snapshot_id: int
    generation: int
    files_pending: int
    is_complete: bool
    selected_by: str
    ignore_patterns: list[str]
    was_cancelled: bool
    profile: Profile
    is_running: bool
    is_watched: bool


@dataclass(frozen=True, slots=True)
class TreeState:
    """Whether the index of a repository is up to date; ``pending`` files are known to differ."""

    state: State
    pending: int = 0
    checked_at: datetime | None = None


class IndexedTrees:
    """The indexed trees of all projects, and how an index is updated.

    ``selection_of`` selects the files of a tree. An index made with settings other than
    ``chosen_by`` is not updated.
    """

    def __init__(
        self,
        database: Database,
        update_index: UpdateIndex,
        selection_of: Callable[[Path], Selection],
        chosen_by: str,
    ) -> None:
        self._database = database
        self._update_index = update_index
        self._chosen_by = chosen_by
        self.selection_of = selection_of
        self._loaded: dict[str, tuple[float, list[Tree]]] = {}

    def select_same_files(self, tree: Tree) -> bool:
        """Whether the tree was indexed with settings that select the same files as ours."""
        return tree.selected_by == self._chosen_by

    async def load(self, project: Project) -> list[Tree]:
        """The trees of a project, by root, as they are now."""
        async with self._database.transaction(project, readonly=True) as tx:
            return await load_trees(tx)

    async def recent(
        self, project: Project, *, reload: bool = False, include: UUID | None = None
    ) -> list[Tree]:
        """The trees as they were within the last second; loaded again during an index run.

        They are also loaded again if the repository ``include`` is not among them.
        """
        now = time.monotonic()
        loaded_at, trees = self._loaded.get(project.schema_name, (-FRESH_S, []))
        is_old = now - loaded_at >= FRESH_S or any(tree.is_running for tree in trees)
        is_missing = include is not None and include not in {tree.repository_id for tree in trees}
        if reload or is_old or is_missing:
            trees = await self.load(project)
            self._loaded[project.schema_name] = now, trees
        return trees

    def forget(self, project: Project) -> None:
        """Load the trees of a project again when they are needed next."""
        self._loaded.pop(project.schema_name, None)

    async def update_index(
        self, project: Project, root: Path, paths: Iterable[str] | None
    ) -> RunResult | None:
        """Update an index for some paths or for the whole tree; None if it was removed.

        Raises:
            CodebaseError: the update failed.
        """
        names = {existing.schema_name for existing in await list_projects(self._database)}
        if project.schema_name not in names:
            return None
        async with self._database.transaction(project, readonly=True) as tx:
            if await tx.fetch_one(_SQL["is_known"], root=str(root)) is None:
                return None
        return await self._update_index(project, root, paths)

    async def stored_files(self, project: Project, snapshot_id: int) -> dict[str, StoredFile]:
        """The files of a snapshot, by path."""
        async with self._database.transaction(project, readonly=True) as tx:
            rows = await tx.fetch_all(_SQL["stored"], snapshot_id=snapshot_id)
        return {row[0]: StoredFile(*row) for row in rows}

    async def stored_paths(self, project: Project, repository_id: UUID) -> list[str]:
        """The files in the index of a repository."""
        for tree in await self.load(project):
            if tree.repository_id == repository_id:
                return list(await self.stored_files(project, tree.snapshot_id))
        return []


@dataclass(slots=True)
class PendingChanges:
    """Changes of a tree that its index lacks: at ``paths``, or anywhere if ``needs_full_run``."""

    paths: set[str] = field(default_factory=set)
    needs_full_run: bool = False
    is_being_indexed: bool = False

    def __bool__(self) -> bool:
        return bool(self.paths) or self.needs_full_run or self.is_being_indexed

    async def index(self, trees: IndexedTrees, project: Project, root: Path) -> RunResult | None:
        """Index them; if that fails they stay pending."""
        paths, is_full = self.paths, self.needs_full_run
        self.paths, self.needs_full_run, self.is_being_indexed = set(), False, True
        try:
            return await trees.update_index(project, root, None if is_full or not paths else paths)
        except BaseException:
            self.paths |= paths
            self.needs_full_run |= is_full
            raise
        finally:
            self.is_being_indexed = False


async def load_trees(tx: Transaction) -> list[Tree]:
    """The trees of a project, by root."""
    rows = await tx.fetch_all(_SQL["trees"])
    locks = [lock(row[0]) for row in rows for lock in (index_lock, watch_lock, behind_lock)]
    held = await tx.held(locks)
    return [_tree(row, held) for row in rows]


def _tree(row: Row, held: Collection[str]) -> Tree:
    repository_id, root, snapshot_id, generation, pending, is_complete, *more = row
    selected_by, ignore_patterns, was_cancelled, *profile = more
    return Tree(
        repository_id=repository_id,
        root=Path(root),
        snapshot_id=snapshot_id,
        generation=generation,
        files_pending=pending,
        is_complete=is_complete,
        selected_by=selected_by,
        ignore_patterns=ignore_patterns,
        was_cancelled=was_cancelled,
        profile=Profile.from_row(profile),
        is_running=index_lock(repository_id) in held,
        is_watched=watch_lock(repository_id) in held and behind_lock(repository_id) not in held,
    )
