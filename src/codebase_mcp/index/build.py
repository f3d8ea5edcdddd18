"""How is the stored index updated to match a source tree?

A run lists files, compares them with the index, reads those that may have changed, prepares new
texts, and stores them in batches. Each batch is a transaction, so searches see the first batch at
once, and a run that is killed loses little: the next run continues from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Database, HeldLocks
from codebase_mcp.database.naming import Project, index_lock
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import CodebaseError, IndexingFailed
from codebase_mcp.index import store
from codebase_mcp.index.batches import Batches
from codebase_mcp.index.identity import PROGRAM_VERSION, View
from codebase_mcp.index.plan import PathScope, Plan, RunCounts, RunRequest, make_plan
from codebase_mcp.index.pool import PreparerPool
from codebase_mcp.index.progress import paced, waiting
from codebase_mcp.index.runs import RunRecord, recorded
from codebase_mcp.index.store import StoredRepository
from codebase_mcp.model import Listing
from codebase_mcp.source.selection import secrets_in
from codebase_mcp.source.source_tree import SourceTree, source_tree_at
from codebase_mcp.telemetry.stopwatch import step

# How many submodules a notice names.
_NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of a run. ``added`` and ``changed`` are the paths of the files that it indexed.

    ``encodings`` counts the files that it read and that are not in UTF-8.
    ``model`` is the model of the index; ``notice`` tells if new indexes get another model, and
    names whatever the user should know about the index.
    """

    repository_id: UUID
    operation_id: UUID
    name: str
    root: Path
    status: Literal["success", "partial", "failed"]
    files_indexed: int
    files_unchanged: int
    files_removed: int
    files_skipped: dict[str, int]
    chunks_created: int
    errors: list[str]
    duration_s: float
    model: str
    notice: str | None = None
    files_read: int = 0
    secrets_masked: int = 0
    encodings: Mapping[str, int] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def with_notice(self, notice: str) -> RunResult:
        """The same result with a further notice."""
        return replace(self, notice=" ".join(filter(None, [self.notice, notice])))


@dataclass(frozen=True, slots=True)
class Indexer:
    """Runs index jobs against one database."""

    database: Database
    models: Models
    pool: PreparerPool

    async def run(self, request: RunRequest, paths: Iterable[str] | None = None) -> RunResult:
        """Update the index of a tree to its selected files, or to those at some paths.

        The paths are files or directories, existing or deleted. The run is one of the whole tree if
        the repository is new or bare, its last run is incomplete, or the paths affect other files.

        A second run on the same repository waits for the first. An existing index keeps its model;
        a new or forced index gets the current primary model.

        Raises:
            DatabaseUnavailable: before anything was stored; later the result has the status
                ``failed``, and stored batches stay searchable.
            EmbeddingUnavailable: the model of the index is no longer available.
        """
        scope = None
        if paths is not None:
            scope = await asyncio.to_thread(PathScope.at, request.root, paths)
        with paced(request.progress) as pace:
            request = replace(request, progress=pace.follow)
            async with self.locked(request.project, request.repository_id) as held:
                async with self.database.transaction(request.project, readonly=True) as tx:
                    before = await store.load_repository(tx, request.repository_id)
                run = scope and await self._run_partial(request, before, scope, held)
                run = run or await self._run_full(request, before, held, is_requested=scope is None)
            pace.end(run)
        return run

    async def _run_full(
        self, request: RunRequest, before: StoredRepository, held: HeldLocks, *, is_requested: bool
    ) -> RunResult:
        project, repository_id = request.project, request.repository_id
        record = RunRecord(self.database, request)
        async with recorded(record, is_requested=is_requested):
            with step("list"):
                tree = await _source_tree(request, before)
                listing = await asyncio.to_thread(tree.list_files)
            model, profile, rebuild = await self._model_for(request, before)
            async with step("plan"), self.database.transaction(project) as tx:
                name = await store.open_repository(tx, request)
                snapshot = await store.open_snapshot(
                    tx, View(repository_id), profile, rebuild=rebuild
                )
                stored = await store.stored_files(tx, snapshot.id)
                plan = make_plan(listing, stored, same_classifier=snapshot.same_classifier)
                if plan.removed:
                    await store.forget_files(tx, snapshot, plan.removed)
                await store.start_run(tx, snapshot, [file.path for file in plan.to_read])
                has_work = bool(plan.removed) or not snapshot.active
                await record.plan(tx, len(listing.files), plan.unchanged, has_work=has_work)
            counts = RunCounts.of(listing, plan)
            batches = Batches(
                database=self.database,
                pool=self.pool,
                project=project,
                snapshot=snapshot,
                model=model,
                read_files=tree.read_files,
                stored=stored,
                counts=counts,
                progress=request.progress,
                held=held,
                record=record,
            )
            error = await batches.run(plan, lambda tx: store.finish_run(tx, snapshot, counts))
            run = self._result(request, plan, counts, error, name=name, profile=profile)
            await record.end(run.status, run.errors)
        return run.with_notice(_not_fetched(listing)) if listing.not_fetched else run

    async def _run_partial(
        self, request: RunRequest, before: StoredRepository, scope: PathScope, held: HeldLocks
    ) -> RunResult | None:
        """A run over a part of the tree; None if a full run is needed.

        It is short and not recorded.
        """
        if scope.affects_other_files or not _shows_same_secrets(request, before):
            return None
        tree = await _source_tree(request, before)
        if tree.is_commit:
            return None
        project = request.project
        async with self.database.transaction(project, readonly=True) as tx:
            snapshot = await store.up_to_date(tx, View(request.repository_id))
        if snapshot is None or self._is_outdated(snapshot.profile):
            return None
        _require_readable(snapshot.profile)
        model = await self.models.of_index(snapshot.profile)
        with step("list"):
            listing = await asyncio.to_thread(tree.list_files, scope.paths)
        async with step("plan"), self.database.transaction(project) as tx:
            name = await store.open_repository(tx, request)
            stored = await store.stored_files(tx, snapshot.id, scope)
            plan = make_plan(listing, stored)
            if plan.removed:
                await store.forget_files(tx, snapshot, plan.removed)
        counts = RunCounts.of(listing, plan)
        batches = Batches(
            database=self.database,
            pool=self.pool,
            project=project,
            snapshot=snapshot,
            model=model,
            read_files=tree.read_files,
            stored=stored,
            counts=counts,
            progress=request.progress,
            held=held,
        )
        error = await batches.run(
            plan, lambda tx: store.finish_partial_run(tx, snapshot, scope, counts)
        )
        return self._result(request, plan, counts, error, name=name, profile=snapshot.profile)

    def _result(
        self,
        request: RunRequest,
        plan: Plan,
        counts: RunCounts,
        error: CodebaseError | None,
        *,
        name: str,
        profile: Profile,
    ) -> RunResult:
        failures = [str(failure) for failure in sorted(counts.failures, key=lambda f: f.path)]
        return RunResult(
            repository_id=request.repository_id,
            operation_id=request.operation_id,
            name=name,
            root=request.root,
            status="failed" if error else "partial" if failures else "success",
            files_indexed=counts.indexed,
            files_unchanged=counts.unchanged,
            files_removed=len(plan.removed),
            files_skipped=dict(sorted(counts.skipped.items())),
            files_read=len(plan.to_read),
            secrets_masked=counts.secrets_masked,
            encodings=dict(counts.encodings.most_common()),
            chunks_created=counts.chunks,
            errors=failures + ([error.message] if error else []),
            duration_s=time.monotonic() - request.started,
            model=profile.model,
            notice=_notice(profile, self.models),
            added=tuple(counts.added),
            changed=tuple(counts.changed),
        )

    async def remove(self, project: Project, repository_id: UUID) -> bool:
        """Remove a repository and everything that only it used; False if it is unknown."""
        async with self.locked(project, repository_id), self.database.transaction(project) as tx:
            return await store.remove_repository(tx, repository_id)

    @asynccontextmanager
    async def locked(self, project: Project, repository_id: UUID) -> AsyncIterator[HeldLocks]:
        """Lock a repository's index against changes by other runs."""
        locks = self.database.session_locks(project, [index_lock(repository_id)])
        async with AsyncExitStack() as stack:
            with waiting():
                held = await stack.enter_async_context(locks)
            yield held

    async def _model_for(
        self, request: RunRequest, before: StoredRepository
    ) -> tuple[StaticEmbedder, Profile, bool]:
        """The model of a run, its profile, and whether the run rebuilds the index.

        Called without an open transaction, as a model may take long to answer. An index of an
        earlier version of this program is rebuilt, with the same model if that is available. It is
        also rebuilt if the settings now show the secrets of different files.
        """
        stored = before.profile
        if stored is None or request.force:
            model = await self.models.primary()
        elif self._is_outdated(stored) or not _shows_same_secrets(request, before):
            model = await self.models.primary_for(stored)
        else:
            _require_readable(stored)
            return await self.models.of_index(stored), stored, False
        profile = Profile.of(PROGRAM_VERSION, model.facts, model.recipe)
        profile = replace(profile, scale=await self.models.scale_of(model))
        return await self.models.of_index(profile), profile, stored is not None

    def _is_outdated(self, profile: Profile) -> bool:
        return self.models.is_outdated(profile, PROGRAM_VERSION)


async def _source_tree(request: RunRequest, before: StoredRepository) -> SourceTree:
    """The files of the repository, without ignored files."""
    ignored = request.ignore_patterns
    if ignored is None:
        ignored = before.ignore_patterns
    selection = request.selection.ignoring(request.root, ignored)
    return await asyncio.to_thread(source_tree_at, request.root, selection)


def _shows_same_secrets(request: RunRequest, before: StoredRepository) -> bool:
    """Whether the last run showed the secrets of the same files as this run."""
    return secrets_in(before.selected_by) == secrets_in(request.selection.chosen_by)


def _require_readable(profile: Profile) -> None:
    """Raise IndexingFailed for an index that a later version of this program made."""
    if profile.is_newer(PROGRAM_VERSION):
        raise IndexingFailed(
            "A later version of this program made the index",
            hint="Update codebase-mcp here. To rebuild the index with this version instead:"
            " index_repository with force_reindex=true.",
        )


def _notice(profile: Profile, models: Models) -> str | None:
    if models.is_primary(profile):
        return None
    return (
        f"The index keeps the model that made it, {profile.model}; new ones are made with"
        f" {models.primary_embedder.name}. To rebuild it with that one: force_reindex=true."
    )


def _not_fetched(listing: Listing) -> str:
    names = ", ".join(listing.not_fetched[:_NAMES_SHOWN])
    more = len(listing.not_fetched) - _NAMES_SHOWN
    others = f" and {more} more" if more > 0 else ""
    return (
        f"Submodules that are not fetched and so not indexed: {names}{others}."
        " To add them: git submodule update --init, then index again."
    )
