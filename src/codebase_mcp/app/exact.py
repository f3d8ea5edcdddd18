"""Exact search: every line that matches a pattern, in files as they are now or in a commit.

Texts come from the index, in which secrets are masked. Files that differ from it, and files that
are too large for it, are read from the disk: a secret in them can neither match nor be shown.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from json import loads
from pathlib import Path
from uuid import UUID

from codebase_mcp.access.identity import ANONYMOUS, Identity
from codebase_mcp.access.resolution import ProjectSource, Resolver
from codebase_mcp.app.freshness.trees import IndexedTrees, Tree, differences
from codebase_mcp.app.freshness.verified_search import Freshness, IndexFreshness
from codebase_mcp.app.scopes import (
    CallScope,
    NamedRepository,
    ReportProgress,
    Scopes,
    again_if_lost,
)
from codebase_mcp.app.text_scan import FilesOnDisk, Table, TextQuestion, TextScan
from codebase_mcp.app.views import ChosenViews, Views
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import CodebaseError, IndexingFailed
from codebase_mcp.index.plan import StoredFile
from codebase_mcp.model import WORKTREE
from codebase_mcp.search.changes import Touched, load_touched
from codebase_mcp.search.exact import FileMatches, TextFile
from codebase_mcp.search.scope import ScopedSnapshot, load_snapshots
from codebase_mcp.search.text_image import TextImages
from codebase_mcp.search.text_pattern import TextMatcher
from codebase_mcp.secrets.masking import mask_token
from codebase_mcp.source.source_tree import source_tree_at
from codebase_mcp.telemetry.stopwatch import no_stopwatch
from codebase_mcp.text.tokens import fold

_SQL = load_queries("codebase_mcp.search", "exact.sql")

# A question may scan for this long; the reply says if that was not enough.
MAX_SCAN_S = 5.0

# Files that are too large for the index are read up to this size.
MAX_FILE_BYTES = 64 << 20

# The list of the files that are too large for the index is valid for this long.
_LARGE_FILES_S = 10.0

# Copying this many texts takes less than a second.
_FEW_TEXTS = 3_000

# The number of snapshots whose files are kept in memory.
_MOST_TABLES = 4


@dataclass(frozen=True, slots=True)
class TextReport:
    """The lines that match, by file, in the order in which they are shown.

    ``not_searched`` counts files by reason. ``is_complete`` is false if the time was not enough.
    ``refs`` maps the commits that were searched to their refs.
    """

    question: TextQuestion
    files: tuple[FileMatches, ...]
    not_searched: Mapping[str, int]
    is_complete: bool
    index: IndexFreshness
    project: Project
    project_source: ProjectSource
    scope: CallScope
    refs: Mapping[str, str]
    latency_ms: float

    @property
    def total(self) -> int:
        """How many lines match, in all files."""
        return sum(matches.count for matches in self.files)


@dataclass(slots=True)
class ExactSearch:
    """Searches texts in the projects of a database.

    ``images`` are copies of texts on this machine. ``_tables`` are the files of the snapshots that
    were searched last, ``_large`` the files of a root that are too large for the index.
    """

    _database: Database
    _resolver: Resolver
    _scopes: Scopes
    _freshness: Freshness
    _trees: IndexedTrees
    _views: Views
    _images: TextImages
    _tables: OrderedDict[tuple[str, int, UUID], Table] = field(default_factory=OrderedDict)
    _large: dict[Path, tuple[float, FilesOnDisk | None]] = field(default_factory=dict)
    _copying: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def find(
        self,
        question: TextQuestion,
        project_id: str | None = None,
        identity: Identity = ANONYMOUS,
        *,
        repository: NamedRepository = None,
        report: ReportProgress | None = None,
    ) -> TextReport:
        """All matching lines; ``repository`` and ``report`` are as for `App.search`.

        Raises:
            InvalidInput: the pattern or the ref is invalid.
            ProjectNotFound: unknown, or never indexed.
            IndexingFailed: the ref is still being indexed, or cannot be.
            DatabaseUnavailable: the index cannot be read.
        """
        started = time.monotonic()
        matcher = TextMatcher.compile(question.query)
        scope = await self._scopes.resolve(project_id, identity, repository, report=report)
        return await self._find(question, matcher, scope, started)

    @again_if_lost
    async def _find(
        self, question: TextQuestion, matcher: TextMatcher, scope: CallScope, started: float
    ) -> TextReport:
        project, source = scope.project, scope.source
        async with self._resolver.raise_not_found_if_dropped(project, source):
            scope.require_listed()
            chosen = await self._chosen(project, question.ref, scope)
            ids = scope.snapshot_ids if chosen is None else chosen.snapshot_ids
            names = {} if chosen is None else chosen.names
            changed = await self._changed(project, scope.trees, ids)
            scan = await self._prepare(project, question, matcher, ids, chosen)
            trees = {tree.snapshot_id: tree for tree in scope.trees}
            for snapshot in scan.snapshots:
                large = await self._large_files(snapshot, trees.get(snapshot.id))
                on_disk = [part for part in (changed.get(snapshot.id), large) if part is not None]
                await scan.search(snapshot, on_disk)
            async with self._database.bounded_read(project) as tx:
                files = await scan.with_lines(tx)
            index = await self._freshness.state_of(project, scan.snapshots)
        return TextReport(
            question=question,
            files=tuple(files),
            not_searched=+scan.not_searched,
            is_complete=scan.is_complete,
            index=index,
            project=project,
            project_source=source,
            scope=scope,
            refs={commit: mask_token(name) for commit, name in names.items()},
            latency_ms=(time.monotonic() - started) * 1000,
        )

    async def _chosen(
        self, project: Project, ref: str | None, scope: CallScope
    ) -> ChosenViews | None:
        """The snapshots of a ref; None for the files on disk, whose index is updated first."""
        if ref is None or ref == WORKTREE:
            await self._freshness.follow(project, scope.snapshot_ids, first=scope.first)
            return None
        chosen = await self._views.choose(project, ref, scope.only)
        if scope.trees and not chosen.snapshot_ids:
            raise IndexingFailed(f"{ref} is still being indexed", hint="Ask again in some seconds.")
        return chosen

    async def _prepare(
        self,
        project: Project,
        question: TextQuestion,
        matcher: TextMatcher,
        ids: Collection[int] | None,
        chosen: ChosenViews | None,
    ) -> TextScan:
        """Everything that a scan of the snapshots needs."""
        async with self._database.bounded_read(project) as tx:
            snapshots, tables = await self.load_files(tx, project, ids)
            has_ranges = chosen is not None and chosen.ranges
            return TextScan(
                question=question,
                matcher=matcher,
                snapshots=snapshots,
                tables=tables,
                texts={
                    snapshot.id: await self._images.texts_of(
                        tx, *_image_of(project, snapshot, tables)
                    )
                    for snapshot in snapshots
                },
                touched=await load_touched(tx, chosen.ranges) if chosen and has_ranges else None,
                definers=await _definers(tx, matcher),
                until=time.monotonic() + MAX_SCAN_S,
            )

    async def load_files(
        self, tx: Transaction, project: Project, ids: Collection[int] | None
    ) -> tuple[tuple[ScopedSnapshot, ...], dict[int, Table]]:
        """Some snapshots, or those of the files on disk, and the files of each.

        Raises:
            SnapshotDropped: a snapshot is gone.
            ProjectNotFound: nothing is indexed.
        """
        snapshots = await self._views.snapshots(tx, ids)
        return snapshots, await self._load_tables(tx, project, snapshots)

    async def lines_in_index(
        self, project: Project, snapshot_ids: Collection[int], question: TextQuestion
    ) -> list[FileMatches] | None:
        """The matches with their lines, in the index alone.

        None if copying the texts first would take long: then they are copied in the background.
        """
        async with self._database.bounded_read(project) as tx:
            snapshots = await load_snapshots(tx, snapshot_ids)
            scan = await self.scan_index(
                tx, project, snapshots, question, None, within_s=MAX_SCAN_S, most=_FEW_TEXTS
            )
            if scan is not None:
                return await scan.with_lines(tx)
        self.copy_texts(project, snapshots)
        return None

    async def scan_index(
        self,
        tx: Transaction,
        project: Project,
        snapshots: Sequence[ScopedSnapshot],
        question: TextQuestion,
        touched: Touched | None,
        *,
        within_s: float,
        most: int = 0,
    ) -> TextScan | None:
        """A complete scan of an index; None if more than ``most`` texts have to be copied first."""
        tables = await self._load_tables(tx, project, snapshots)
        texts = {}
        for snapshot in snapshots:
            is_few = len(tables[snapshot.id]) <= most
            get = self._images.texts_of if is_few else self._images.ready_texts_of
            ready = await get(tx, *_image_of(project, snapshot, tables))
            if ready is None:
                return None
            texts[snapshot.id] = ready
        matcher, until = TextMatcher.compile(question.query), time.monotonic() + within_s
        definers = await _definers(tx, matcher)
        scan = TextScan(
            question, matcher, tuple(snapshots), tables, texts, touched, definers, until
        )
        for snapshot in snapshots:
            await scan.search(snapshot)
        return scan if scan.is_complete else None

    def copy_texts(self, project: Project, snapshots: Sequence[ScopedSnapshot]) -> None:
        """Copy the texts of snapshots in the background, so that the next search has them."""
        if project.schema_name not in self._copying:
            with no_stopwatch():
                copying = asyncio.create_task(self._copy_texts(project, snapshots))
            self._copying[project.schema_name] = copying
            copying.add_done_callback(lambda _: self._copying.pop(project.schema_name))

    async def _copy_texts(self, project: Project, snapshots: Sequence[ScopedSnapshot]) -> None:
        with suppress(CodebaseError):  # the search that needs them will say why
            async with self._database.bounded_read(project) as tx:
                tables = await self._load_tables(tx, project, snapshots)
                for snapshot in snapshots:
                    await self._images.texts_of(tx, *_image_of(project, snapshot, tables))

    async def close(self) -> None:
        """Stop copying texts."""
        copying = list(self._copying.values())
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)

    async def _load_tables(
        self, tx: Transaction, project: Project, snapshots: Sequence[ScopedSnapshot]
    ) -> dict[int, Table]:
        """The files of each snapshot, from memory if they are the same as before."""
        keys = {s.id: (project.schema_name, s.id, s.version) for s in snapshots}
        loaded = {s.id: self._tables[keys[s.id]] for s in snapshots if keys[s.id] in self._tables}
        missing = {s.id: s for s in snapshots if s.id not in loaded}
        if missing:
            loaded |= {snapshot_id: {} for snapshot_id in missing}
            for snapshot_id, *facts in await tx.fetch_all(
                _SQL["files"], ids=array_literal(missing)
            ):
                file = TextFile(missing[snapshot_id], *facts)
                loaded[snapshot_id].setdefault(facts[1], []).append(file)
        for snapshot_id, key in keys.items():  # others may have removed some meanwhile
            self._tables[key] = loaded[snapshot_id]
            self._tables.move_to_end(key)
        while len(self._tables) > max(_MOST_TABLES, len(keys)):
            self._tables.popitem(last=False)
        return loaded

    async def _changed(
        self, project: Project, trees: Iterable[Tree], ids: Collection[int] | None
    ) -> dict[int, FilesOnDisk]:
        """The files on disk that their index does not have as they are, by snapshot."""
        changed = {}
        for tree in trees:
            if ids is not None and tree.snapshot_id not in ids:
                continue
            paths = await self._freshness.differing(project, tree)
            if paths is None or paths:
                stored = await self._trees.stored_files(project, tree.snapshot_id)
                with suppress(OSError, CodebaseError):  # the files are not on this machine
                    changed[tree.snapshot_id] = await asyncio.to_thread(
                        self._compare, tree, paths, stored
                    )
        return changed

    def _compare(
        self, tree: Tree, paths: set[str] | None, stored: Mapping[str, StoredFile]
    ) -> FilesOnDisk:
        files = source_tree_at(tree.root, self._trees.selection_for(tree))
        if paths is None:
            paths = differences(files, stored, None, tree.generation)
        else:  # a path may be a directory
            folders = tuple(path + "/" for path in paths)
            paths = paths | {path for path in stored if path.startswith(folders)}
        listed = files.list_files(paths).files if paths else ()
        return FilesOnDisk(files, listed, frozenset(paths) | {file.path for file in listed})

    async def _large_files(self, snapshot: ScopedSnapshot, tree: Tree | None) -> FilesOnDisk | None:
        """The files on disk that are too large for the index."""
        has_some = snapshot.files_failed or loads(snapshot.skipped).get("too_large")
        if tree is None or not has_some or not self._trees.select_same_files(tree):
            return None
        listed_at, large = self._large.get(tree.root, (0.0, None))
        if large is None or time.monotonic() - listed_at > _LARGE_FILES_S:
            large = None
            with suppress(OSError, CodebaseError):  # the files are not on this machine
                large = await asyncio.to_thread(self._list_large, tree)
            self._large[tree.root] = time.monotonic(), large
        return large

    def _list_large(self, tree: Tree) -> FilesOnDisk:
        selection = self._trees.selection_for(tree)
        files = source_tree_at(tree.root, replace(selection, max_file_bytes=MAX_FILE_BYTES))
        sizes = range(selection.max_file_bytes + 1, MAX_FILE_BYTES + 1)
        return FilesOnDisk(
            files, tuple(file for file in files.list_files().files if file.size in sizes)
        )


async def _definers(tx: Transaction, matcher: TextMatcher) -> frozenset[int]:
    """The texts that define the name which is searched, if it is a name."""
    if matcher.name is None:
        return frozenset()
    rows = await tx.fetch_all(_SQL["definers"], folded=fold(matcher.name))
    return frozenset(text_id for text_id, name in rows if matcher.is_name(name))


def _image_of(
    project: Project, snapshot: ScopedSnapshot, tables: Mapping[int, Table]
) -> tuple[list[str], UUID, list[int]]:
    """The images that may have the texts of a snapshot, its version, and the ids of the texts.

    The first is that of the files on disk; a commit has its own too.
    """
    name = f"{project.schema_name}-{snapshot.repository_id}"
    names = [name] if snapshot.view == WORKTREE else [name, f"{name}-{snapshot.view}"]
    return names, snapshot.version, list(tables[snapshot.id])
