"""Which trees are indexed, being indexed or watched, and how is their index updated?

A check compares a tree with its index. The first check lists the whole tree. Later checks scan
names, sizes and times, and list only the paths that the scan reports.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import Project, behind_lock, index_lock, watch_lock
from codebase_mcp.database.projects import list_projects
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import CodebaseError
from codebase_mcp.index.identity import blob_id_of_content
from codebase_mcp.index.plan import ATTRIBUTES, StoredFile, make_plan
from codebase_mcp.model import SourceFile
from codebase_mcp.source.git_directory import Checkout
from codebase_mcp.source.open_file import is_real_directory
from codebase_mcp.source.read import Content, SourceText
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.source_tree import SourceTree, read_each, source_tree_at
from codebase_mcp.telemetry.stopwatch import no_stopwatch

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult
    from codebase_mcp.source.tree_scan import CommitScan, TreeScan

_SQL = load_queries("codebase_mcp.app.freshness", "trees.sql")

# For how long the loaded trees of a project, and a check of a tree, are valid.
FRESH_S = 1.0

State = Literal["ready", "unchecked", "stale", "outdated", "incomplete", "indexing", "absent"]
"""How far an index equals its files, from best to worst."""


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


@dataclass(slots=True)
class IndexedTrees:
    """The indexed trees of all projects, and how an index is updated.

    ``selection_of`` selects the files of a tree. An index made with settings other than
    ``_chosen_by`` is not updated.
    """

    _database: Database
    _update_index: Callable[[Project, Path, Iterable[str] | None], Awaitable[RunResult]]
    selection_of: Callable[[Path], Selection]
    _chosen_by: str
    _loaded: dict[str, tuple[float, list[Tree]]] = field(default_factory=dict)

    def select_same_files(self, tree: Tree) -> bool:
        """Whether the tree was indexed with settings that select the same files as ours."""
        return tree.selected_by == self._chosen_by

    def selection_for(self, tree: Tree) -> Selection:
        """The files of an indexed tree, without those that its own patterns leave out."""
        return self.selection_of(tree.root).ignoring(tree.root, tree.ignore_patterns)

    async def load(self, project: Project) -> list[Tree]:
        """The trees of a project, by root, as they are now."""
        async with self._database.transaction(project, readonly=True) as tx:
            return await load_trees(tx)

    async def recent(
        self, project: Project, *, reload: bool = False, include: Collection[UUID] = ()
    ) -> list[Tree]:
        """The trees as they were within the last second; loaded again during an index run.

        They are also loaded again if a repository of ``include`` is not among them.
        """
        now = time.monotonic()
        loaded_at, trees = self._loaded.get(project.schema_name, (-FRESH_S, []))
        is_old = now - loaded_at >= FRESH_S or any(tree.is_running for tree in trees)
        is_missing = not {tree.repository_id for tree in trees}.issuperset(include)
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
        return {row[0]: StoredFile._make(row) for row in rows}

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
    number = row[0]
    is_watched = watch_lock(number) in held and behind_lock(number) not in held
    profile = Profile.from_row(row[9:])
    return Tree(*[number, Path(row[1]), *row[2:9], profile, index_lock(number) in held, is_watched])


log = logging.getLogger(__name__)

# How long to wait after a failed update.
FAILURE_PAUSE_S = 10.0

# A tree in which files have changed within this time is checked more often than others.
_ACTIVE_S = 600.0
_ACTIVE_WEIGHT = 10

# If more files than this have new times, their content is not compared: the index run reads them
# anyway.
MOST_READ = 300

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class TreeCheck:
    """The state of a tree in this process; ``tree`` is its newest record.

    ``count`` files differ from the index. Before ``not_before`` no check is needed, unless git has
    changed the files. ``is_trusted`` says that the last check has ended, ``took_s`` the processor
    time that comparing the files took, ``is_postponed`` that there was no time for the next check
    yet. With ``only_once`` no scan is kept for a second check. ``threads`` run the file access.
    """

    project: Project
    tree: Tree
    trees: IndexedTrees
    threads: Executor
    only_once: bool
    task: asyncio.Task[None] | None = None
    pending: PendingChanges = field(default_factory=PendingChanges)
    count: int = 0
    not_before: float = 0.0
    checked_at: datetime | None = None
    is_trusted: bool = False
    took_s: float = 0.0
    is_postponed: bool = False
    _checkout: Checkout | None = None
    _started_at: float = 0.0
    _changed_at: float = 0.0
    _scan: TreeScan | CommitScan | None = None
    _selection: Selection | None = None

    def start(self, *, compare: bool = True, only_check: bool = False) -> None:
        """Compare the tree and update its index, in the background."""
        self._started_at = time.monotonic()
        self.is_postponed = False
        with no_stopwatch():
            self.task = asyncio.create_task(self._run(compare=compare, only_check=only_check))

    def task_within(self, budget_s: float) -> set[asyncio.Task[None]]:
        """The running task, unless it has already taken longer than the budget."""
        is_young = time.monotonic() - self._started_at < budget_s
        return {self.task} if self.task is not None and is_young else set()

    def has_new_checkout(self) -> bool:
        """Whether git may have changed the files since the last call; reads the times of files."""
        if self._checkout is None:
            self._checkout = Checkout(self.tree.root)
        return self._checkout.has_changed()

    def waited_s(self, now: float) -> float:
        """The seconds since the last check began."""
        return now - self._started_at

    def urgency(self, now: float) -> float:
        """How urgent another check is: the seconds since the last, more after a recent change."""
        is_active = now - self._changed_at < _ACTIVE_S
        return self.waited_s(now) * (_ACTIVE_WEIGHT if is_active else 1)

    async def _run(self, *, compare: bool, only_check: bool) -> None:
        root = self.tree.root
        try:
            if compare:
                await self._compare_tree()
            must_run = not self.tree.is_complete or self.tree.files_pending > 0
            if self.pending:
                self._changed_at = time.monotonic()
            while not only_check and (must_run or self.pending):
                await self.pending.index(self.trees, self.project, root)
                self.count = len(self.pending.paths)
                must_run = False
        except FileNotFoundError:  # the index is kept, as a disk may be mounted again
            self._distrust(FRESH_S)
        except CodebaseError as error:
            log.warning("Cannot update the index of %s: %s", root, error.message)
            self._distrust(FAILURE_PAUSE_S)
        except Exception:  # the edge of a background task
            log.exception("Cannot check the index of %s", root)
            self._distrust(FAILURE_PAUSE_S)
        finally:
            self.task = None
            self.trees.forget(self.project)

    def _distrust(self, pause_s: float) -> None:
        """Begin anew with the next check, after a pause."""
        self._scan = None
        self.is_trusted = False
        self.not_before = time.monotonic() + pause_s

    async def _compare_tree(self) -> None:
        """Find the paths that differ from the index."""
        began = datetime.now(UTC)
        if self._scan is None:
            await self._compare_first()
        else:
            await self._compare_again(self._scan)
        self.is_trusted = True
        self.checked_at = began
        self.not_before = time.monotonic() + FRESH_S

    async def _compare_first(self) -> None:
        root = self.tree.root
        if not await self._in_thread(is_real_directory, root):
            raise FileNotFoundError(str(root))
        self._selection = await self._in_thread(self.trees.selection_for, self.tree)
        if not self.only_once:
            from codebase_mcp.source.tree_scan import start_scan  # noqa: PLC0415 - not for a command

            self._scan = await self._in_thread(start_scan, root, self._selection)
        await self._list_differences(None)

    async def _compare_again(self, scan: TreeScan | CommitScan) -> None:
        changes, self.took_s = await self._in_thread(_timed, scan.changes)
        if changes.has_new_rules:  # a full run reads the new rules
            self._scan = None
            self.pending.needs_full_run = True
            self.count = max(changes.count, 1)
        elif changes.needs_full_run or changes.count > MOST_READ:
            await self._list_differences(None)
        elif changes.changed:
            await self._list_differences(changes.changed)

    async def _list_differences(self, paths: set[str] | None) -> None:
        """Compare the tree, or some paths of it, with the stored files."""
        tree = self.tree
        stored = await self.trees.stored_files(self.project, tree.snapshot_id)
        assert self._selection is not None
        files = await self._in_thread(source_tree_at, tree.root, self._selection)
        self.pending.paths |= await self._in_thread(
            differences, files, stored, paths, tree.generation
        )
        if paths is None and self._scan is not None:
            await self._in_thread(self._scan.track, list(stored))
        self.count = len(self.pending.paths)

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """A result, and the processor time that it took."""
    began = time.thread_time()
    return work(), time.thread_time() - began


def differences(
    tree: SourceTree, stored: Mapping[str, StoredFile], paths: set[str] | None, generation: int
) -> set[str]:
    """The paths at which a tree differs from the index: all, or among ``paths``."""
    if paths is not None:
        folders = tuple(path + "/" for path in paths)
        stored = {p: f for p, f in stored.items() if p in paths or p.startswith(folders)}
    listing = tree.list_files(paths, stored)
    rest = {path: file for path, file in stored.items() if path not in listing.unchanged}
    if any(path.endswith(ATTRIBUTES) for path in (*rest, *(f.path for f in listing.files))):
        listing, rest = tree.list_files(paths), dict(stored)  # files below it count as others now
    plan = make_plan(listing, rest)
    differing = set(plan.removed)
    suspects = [f for f in plan.to_read if not _is_as_read(f, stored.get(f.path))]
    for file, content in read_each(tree, suspects[:MOST_READ]):
        if _changes_index(content, stored.get(file.path), generation):
            differing.add(file.path)
    differing.update(file.path for file in suspects[MOST_READ:])
    return differing


def _is_as_read(file: SourceFile, before: StoredFile | None) -> bool:
    """Whether a file that was read shortly after a change has not changed since.

    With a time resolution below one second that is practically certain; and lines of a hit are
    compared with the file before they are shown.
    """
    if before is None or before.mtime_ns or file.ctime_ns % 1_000_000_000 == 0:
        return False
    return (file.size, file.ctime_ns) == (before.size, before.ctime_ns)


def _changes_index(content: Content, before: StoredFile | None, generation: int) -> bool:
    """Whether the index would change if a file with this content were indexed."""
    if isinstance(content, SourceText) and before is not None:
        return before.blob_id != blob_id_of_content(content, generation)
    return isinstance(content, SourceText) or before is not None
