"""How is the stored index made equal to a source tree?

One run: list, compare, read what may have changed, prepare what is new, store batch after batch.
Each batch is a transaction, so searches see the first batch at once and a run that is killed loses
one batch at most; the next run finds what is stored and goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Database, HeldLocks
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.embedder import LocalModel
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import CodebaseError, IndexingFailed
from codebase_mcp.index import purge, store
from codebase_mcp.index.batches import Batches, Parts, Tally
from codebase_mcp.index.identity import PROGRAM_VERSION, repository_id_of
from codebase_mcp.index.pace import paced, waiting
from codebase_mcp.index.part import Part
from codebase_mcp.index.plan import Plan, StoredFile, make_plan
from codebase_mcp.index.pool import PreparerPool
from codebase_mcp.index.progress import Progress
from codebase_mcp.index.purge import Purged
from codebase_mcp.index.runs import RunRecord, recorded
from codebase_mcp.index.store import Snapshot
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.walk import list_files
from codebase_mcp.telemetry.watch import step


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run did. ``added`` and ``changed`` are the paths of the files that it indexed.

    ``model`` is the one that the index is made with; ``notice`` says so where it is not the one
    that new indexes get.
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
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Order:
    """What a run is to do; ``started`` in seconds on the monotonic clock."""

    project: Project
    root: Path
    selection: Selection
    name: str | None
    force: bool
    operation_id: UUID
    progress: Callable[[Progress], None]
    is_asked: bool
    started: float = field(default_factory=time.monotonic)

    @property
    def repository_id(self) -> UUID:
        return repository_id_of(self.project, self.root)


class Indexer:
    """Runs index jobs against one database."""

    def __init__(self, database: Database, models: Models, pool: PreparerPool) -> None:
        self._database = database
        self._parts = Parts(database, models, pool)

    async def run(
        self,
        project: Project,
        root: Path,
        *,
        name: str | None = None,
        force: bool = False,
        selection: Selection = EVERYTHING,
        operation_id: UUID | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> RunResult:
        """Make the index of the tree at ``root`` equal to it, as far as it is selected.

        A second run on the same repository waits for the first. An index goes on with the model
        that it was made with; what is new, and what is forced, gets the first tier's of now. The
        run is known as ``operation_id``.

        Raises:
            DatabaseUnavailable: before anything was stored; later the result has the status
                ``failed`` and what was stored stays searchable.
            EmbeddingUnavailable: the model that the index was made with is not here any more.
        """
        operation = uuid4() if operation_id is None else operation_id
        with paced(progress) as pace:
            pace.follow(Progress(0, 0, "Listing files"))
            order = _Order(
                project, root, selection, name, force, operation, pace.follow, is_asked=True
            )
            async with self._locked(project, order.repository_id) as held:
                run = await self._whole(order, held)
            pace.end(run)
        return run

    async def update(
        self,
        project: Project,
        root: Path,
        paths: Iterable[str],
        *,
        selection: Selection = EVERYTHING,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> RunResult:
        """Make the index equal to the tree at some paths: files, or directories, there or gone.

        Where that does not do, as the repository is new, its last run broke off, or the paths
        decide about others, it is a run of the whole tree.

        Raises:
            DatabaseUnavailable, EmbeddingUnavailable: as ``run``.
        """
        part = await asyncio.to_thread(Part.at, root, paths)
        with paced(progress) as pace:
            pace.follow(Progress(0, 0, "Listing files"))
            order = _Order(
                project, root, selection, None, False, uuid4(), pace.follow, is_asked=False
            )
            async with self._locked(project, order.repository_id) as held:
                run = await self._part(order, part, held) or await self._whole(order, held)
            pace.end(run)
        return run

    async def _whole(self, order: _Order, held: HeldLocks) -> RunResult:
        project, repository_id = order.project, order.repository_id
        async with recorded(
            self._database,
            project,
            repository_id,
            order.root,
            order.operation_id,
            is_asked=order.is_asked,
        ) as record:
            with step("list"):
                listing = await asyncio.to_thread(list_files, order.root, order.selection)
            model, profile, rebuild = await self._model_for(order)
            async with step("plan"), self._database.transaction(project) as tx:
                _, name = await store.open_repository(
                    tx, project, order.root, order.name, order.selection.chosen_by
                )
                snapshot = await store.open_snapshot(tx, repository_id, profile, rebuild=rebuild)
                stored = await store.stored_files(tx, snapshot)
                plan = make_plan(listing, stored, same_classifier=snapshot.same_classifier)
                if plan.removed:
                    await store.forget_files(tx, snapshot, plan.removed)
                await store.start_run(tx, snapshot, len(plan.to_read))
                has_work = bool(plan.removed) or not snapshot.active
                await record.plan(tx, len(listing.files), plan.unchanged, has_work=has_work)
            tally = Tally.of(listing, plan)
            batches = self._batches(order, held, snapshot, model, stored, tally, record)
            error = await batches.to_the_end(
                plan, lambda tx: store.finish_run(tx, snapshot, tally.skipped, tally.failures)
            )
            run = self._result(order, plan, tally, error, name=name, profile=profile)
            await record.end(run.status, run.errors)
        return run

    async def _part(self, order: _Order, part: Part, held: HeldLocks) -> RunResult | None:
        """A run over a part of the tree; None where only one over all of it will do.

        It is over in a moment and is not written down.
        """
        if part.concerns_others:
            return None
        project = order.project
        async with self._database.transaction(project, readonly=True) as tx:
            snapshot = await store.up_to_date(tx, order.repository_id)
        if snapshot is None or self._is_outdated(snapshot.profile):
            return None
        _require_known(snapshot.profile)
        model = await self._parts.models.of_index(snapshot.profile)
        with step("list"):
            listing = await asyncio.to_thread(list_files, order.root, order.selection, part.paths)
        async with step("plan"), self._database.transaction(project) as tx:
            _, name = await store.open_repository(
                tx, project, order.root, None, order.selection.chosen_by
            )
            stored = await store.stored_files(tx, snapshot, part)
            plan = make_plan(listing, stored)
            if plan.removed:
                await store.forget_files(tx, snapshot, plan.removed)
        tally = Tally.of(listing, plan)
        batches = self._batches(order, held, snapshot, model, stored, tally)
        error = await batches.to_the_end(
            plan, lambda tx: store.finish_part(tx, snapshot, part, tally.failures)
        )
        return self._result(order, plan, tally, error, name=name, profile=snapshot.profile)

    def _batches(  # noqa: PLR0917 - once for either kind of run
        self,
        order: _Order,
        held: HeldLocks,
        snapshot: Snapshot,
        model: LocalModel,
        stored: dict[str, StoredFile],
        tally: Tally,
        record: RunRecord | None = None,
    ) -> Batches:
        return Batches(
            self._parts,
            order.project,
            snapshot,
            model,
            max_file_bytes=order.selection.max_file_bytes,
            stored=stored,
            tally=tally,
            progress=order.progress,
            held=held,
            record=record,
        )

    def _result(
        self,
        order: _Order,
        plan: Plan,
        tally: Tally,
        error: CodebaseError | None,
        *,
        name: str,
        profile: Profile,
    ) -> RunResult:
        failures = [str(failure) for failure in sorted(tally.failures, key=lambda f: f.path)]
        return RunResult(
            repository_id=order.repository_id,
            operation_id=order.operation_id,
            name=name,
            root=order.root,
            status="failed" if error else "partial" if failures else "success",
            files_indexed=tally.indexed,
            files_unchanged=tally.unchanged,
            files_removed=len(plan.removed),
            files_skipped=dict(sorted(tally.skipped.items())),
            files_read=len(plan.to_read),
            chunks_created=tally.chunks,
            errors=failures + ([error.message] if error else []),
            duration_s=time.monotonic() - order.started,
            model=profile.model,
            notice=_notice(profile, self._parts.models),
            added=tuple(tally.added),
            changed=tuple(tally.changed),
        )

    async def remove(self, project: Project, repository_id: UUID) -> bool:
        """Forget a repository and everything that only it used; False where it is unknown."""
        async with (
            self._locked(project, repository_id),
            self._database.transaction(project) as tx,
        ):
            return await store.remove_repository(tx, repository_id)

    async def purge(self, project: Project, repository_id: UUID, part: Part | None) -> Purged:
        """Erase a repository, or some paths of it, at once; what is left of them is counted."""
        async with self._locked(project, repository_id):
            async with self._database.transaction(project) as tx:
                marked = await purge.mark(tx, repository_id, part)
                before = await purge.count_rows(tx, marked)
                await purge.erase(tx, marked)
            async with self._database.transaction(project, readonly=True) as tx:
                after = await purge.count_rows(tx, marked)
        return Purged(before, after, marked.paths, marked.shared)

    @asynccontextmanager
    async def _locked(self, project: Project, repository_id: UUID) -> AsyncIterator[HeldLocks]:
        """While a repository's index is changed, nobody else does so."""
        locks = self._database.session_locks(project, [index_lock(repository_id)])
        async with AsyncExitStack() as stack:
            with waiting():
                held = await stack.enter_async_context(locks)
            yield held

    async def _model_for(self, order: _Order) -> tuple[LocalModel, Profile, bool]:
        """The model of a run, the profile of what it makes, and whether it makes all of it anew.

        It is asked for while nothing is held. What an earlier version of this program made is made
        anew, with the same model where that is here.
        """
        models = self._parts.models
        async with self._database.transaction(order.project, readonly=True) as tx:
            stored = await store.active_profile(tx, order.repository_id)
        if stored is None or order.force:
            model = await models.primary()
        elif self._is_outdated(stored):
            model = await models.primary_for(stored)
        else:
            _require_known(stored)
            return await models.of_index(stored), stored, False
        made = Profile.of(PROGRAM_VERSION, model.facts, model.recipe)
        profile = replace(made, scale=await models.scale_of(model))
        return await models.of_index(profile), profile, stored is not None

    def _is_outdated(self, profile: Profile) -> bool:
        return self._parts.models.is_outdated(profile, PROGRAM_VERSION)


def _require_known(profile: Profile) -> None:
    """Leave alone what a later version of this program made.

    Raises:
        IndexingFailed: it did.
    """
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
        f"The index goes on with the model that made it, {profile.model}; new ones are made with"
        f" {models.primary_embedder.name}. To rebuild it with that one: force_reindex=true."
    )
