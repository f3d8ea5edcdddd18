"""How does a commit become searchable?

Its files are listed from git's objects and compared by hash with the stored files. Only new content
is read and embedded. A commit that differs little from another snapshot gets a snapshot that stores
the differences from this base. A commit stays searchable as long as a ref leads to it, or a search
has used it not long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.naming import Project, commit_lock
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import IndexingFailed
from codebase_mcp.index import store
from codebase_mcp.index.identity import PROGRAM_VERSION, View
from codebase_mcp.index.plan import (
    MAX_DIFFERENT_SHARE,
    CommitPlan,
    Hashes,
    RunCounts,
    plan_commit,
    share_of_same,
)
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.store import Snapshot
from codebase_mcp.model import Listing, SourceFile
from codebase_mcp.source.classify import CLASSIFY_VERSION
from codebase_mcp.source.git_directory import GitRepository
from codebase_mcp.source.read import Content, read_objects
from codebase_mcp.source.selection import Selection
from codebase_mcp.source.source_tree import list_files_at
from codebase_mcp.telemetry.stopwatch import step

if TYPE_CHECKING:
    from codebase_mcp.index.pool import PreparerPool

_SQL = load_queries("codebase_mcp.index", "commits.sql")

# How many snapshots are compared to find the base of a new snapshot.
_MAX_BASES = 3

# With this share of files in common the search for a better base ends.
_GOOD_SHARE = 0.99

# How many snapshots may have the working tree's snapshot as their base.
_MAX_DEPENDENTS = 8


@dataclass(frozen=True, slots=True)
class CommitRun:
    """The result of indexing a commit: chunks embedded, files that failed."""

    snapshot_id: int
    commit: str
    chunks_created: int
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Worktree:
    """The snapshot of the working tree; ``is_source`` if its rows can be copied."""

    id: int
    generation: int
    profile: Profile
    is_source: bool


@dataclass(frozen=True, slots=True)
class CommitIndexer:
    """Makes commits of indexed repositories searchable."""

    database: Database
    models: Models
    pool: PreparerPool

    async def run(
        self,
        project: Project,
        repository_id: UUID,
        repository: GitRepository,
        commit: str,
        selection: Selection,
        *,
        progress: Callable[[RunProgress], None] = lambda _: None,
    ) -> CommitRun:
        """Make the snapshot of a commit complete, unless it is.

        Raises:
            IndexingFailed: the repository is not indexed, its index is of another version, or git
                cannot read the commit. The next run uses the stored files.
            SnapshotDropped: a rebuild ended meanwhile, or no ref means the commit any more.
            DatabaseUnavailable, EmbeddingUnavailable: as for the working tree.
        """
        view = View(repository_id, commit)
        lock = commit_lock(repository_id, commit)
        async with self.database.session_locks(project, [lock]) as held:
            async with self.database.transaction(project, readonly=True) as tx:
                await self._worktree(tx, repository_id)
                stored = await tx.fetch_one(_SQL["commit_snapshot"], **view.parameters())
            if stored is not None and stored[2]:
                return CommitRun(stored[0], commit, 0, ())
            with step("list"):
                listing = await asyncio.to_thread(list_files_at, repository, commit, selection)
            async with step("plan"), self.database.transaction(project) as tx:
                await tx.lock(store.WRITE_LOCK)
                worktree = await self._worktree(tx, repository_id)  # a rebuild may have ended
                snapshot, plan = await _prepare(tx, view, listing, worktree)

            def read(files: Sequence[SourceFile]) -> list[Content]:
                return read_objects(repository, files, max_file_bytes=selection.max_file_bytes)

            from codebase_mcp.index.batches import Batches  # noqa: PLC0415 - for new commits alone

            counts = RunCounts.of(listing, plan)
            batches = Batches(
                database=self.database,
                pool=self.pool,
                project=project,
                snapshot=snapshot,
                model=await self.models.of_index(snapshot.profile),
                read_files=read,
                stored={},
                counts=counts,
                progress=progress,
                held=held,
            )
            error = await batches.run(plan, lambda tx: store.finish_commit(tx, snapshot, counts))
        if error is not None:
            raise error
        failures = tuple(sorted(str(failure) for failure in counts.failures))
        return CommitRun(snapshot.id, commit, counts.chunks, failures)

    async def _worktree(self, tx: Transaction, repository_id: UUID) -> _Worktree:
        row = await tx.fetch_one(_SQL["active"], repository_id=repository_id)
        if row is None:
            raise IndexingFailed(
                "The repository is not indexed", hint="Call index_repository first."
            )
        profile = Profile.from_row(row[4:])
        is_outdated = self.models.is_outdated(profile, PROGRAM_VERSION)
        if is_outdated or profile.is_newer(PROGRAM_VERSION):
            raise IndexingFailed(
                "Another version of this program made the index",
                hint="Commits can be indexed once the index has been rebuilt.",
            )
        return _Worktree(row[0], row[1], profile, row[2] == CLASSIFY_VERSION and row[3])


async def _prepare(
    tx: Transaction, view: View, listing: Listing, worktree: _Worktree
) -> tuple[Snapshot, CommitPlan]:
    """The snapshot to write to, filled from stored snapshots, and a plan for the rest.

    Called under the write lock.
    """
    own: Hashes = {}
    base: Hashes
    row = await tx.fetch_one(_SQL["commit_snapshot"], **view.parameters())
    if row is not None and row[3] != CLASSIFY_VERSION:
        await tx.execute(_SQL["drop"], id=row[0])
        row = None
    if row is None:
        base_id, base = await _choose_base(tx, view, listing, worktree)
        [row] = await tx.fetch_all(
            _SQL["create"],
            **view.parameters(),
            generation=worktree.generation,
            profile_id=worktree.profile.id,
            classifier=CLASSIFY_VERSION,
            base_id=base_id,
        )
    else:
        own, base_id = await _hashes(tx, row[0]), row[1]
        base = dict(await tx.fetch_all(_SQL["inherited_hashes"], id=row[0]))
    snapshot = Snapshot(row[0], view, worktree.generation, worktree.profile, active=False)
    sources = {}
    if worktree.is_source and worktree.id != base_id:
        differing = [f.path for f in listing.files if base.get(f.path) != f.location]
        sources = {worktree.id: await _hashes(tx, worktree.id, differing)}
    plan = plan_commit(listing, own, base, sources)
    if plan.removed:
        await store.forget_files(tx, snapshot, plan.removed)
    await tx.execute(_SQL["replace_rows"], id=snapshot.id, paths=list(plan.replaced))
    for source, paths in plan.copied.items():
        await tx.execute(_SQL["copy_rows"], id=snapshot.id, source=source, paths=list(paths))
    await store.start_run(tx, snapshot, [file.path for file in plan.to_read])
    return snapshot, plan


async def _choose_base(
    tx: Transaction, view: View, listing: Listing, worktree: _Worktree
) -> tuple[int | None, Hashes]:
    """The snapshot with the most files in common, unless too few are."""
    rows = await tx.fetch_all(
        _SQL["possible_bases"],
        repository_id=view.repository_id,
        generation=worktree.generation,
        profile_id=worktree.profile.id,
        classifier=CLASSIFY_VERSION,
        most=_MAX_BASES,
        most_dependents=_MAX_DEPENDENTS,
    )
    best: tuple[int | None, Hashes] = (None, {})
    best_share = 1 - MAX_DIFFERENT_SHARE
    for (snapshot_id,) in rows:
        hashes = await _hashes(tx, snapshot_id)
        share = share_of_same(listing, hashes)
        if share > best_share:
            best, best_share = (snapshot_id, hashes), share
        if best_share >= _GOOD_SHARE:
            break
    return best


async def _hashes(tx: Transaction, snapshot_id: int, paths: Sequence[str] | None = None) -> Hashes:
    """The hashes of all files; or of ``paths`` and of attribute files, which affect other files."""
    return dict(await tx.fetch_all(_SQL["hashes"], id=snapshot_id, paths=paths))


# How many of the refs used last are remembered beside the branches that are kept.
MAX_USED_REFS = 50


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """The snapshot of a commit, which is searchable also before it is complete."""

    snapshot_id: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class StoredRef:
    """A ref that led to a commit."""

    name: str
    commit: str


async def load_commit(tx: Transaction, repository_id: UUID, commit: str) -> StoredCommit | None:
    row = await tx.fetch_one(_SQL["commit"], repository_id=repository_id, commit=commit)
    return None if row is None else StoredCommit(*row)


async def load_refs(tx: Transaction, repository_id: UUID) -> list[StoredRef]:
    """The refs of a repository that led to commits, the last used first."""
    rows = await tx.fetch_all(_SQL["refs"], repository_id=repository_id)
    return [StoredRef(*row) for row in rows]


async def remember_ref(
    tx: Transaction, repository_id: UUID, name: str, commit: str, *, is_kept: bool = False
) -> None:
    await tx.execute(
        _SQL["remember"], repository_id=repository_id, name=name, commit=commit, is_kept=is_kept
    )


async def keep_only(tx: Transaction, repository_id: UUID, names: Collection[str]) -> None:
    await tx.execute(_SQL["keep_only"], repository_id=repository_id, kept=list(names))


async def forget_refs(tx: Transaction, repository_id: UUID, gone: Sequence[str] = ()) -> int:
    """Forget refs that are ``gone`` or have not been used for long, and commits without a ref.

    Returns the number of snapshots that were dropped.
    """
    await tx.lock(store.WRITE_LOCK)
    await tx.execute(
        _SQL["forget"], repository_id=repository_id, gone=list(gone), most=MAX_USED_REFS
    )
    dropped = await tx.execute(_SQL["drop_unnamed"], repository_id=repository_id)
    if dropped:
        await store.clear(tx)
    return dropped
