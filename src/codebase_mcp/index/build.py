"""How is the stored index made equal to a source tree?

One run: list, compare, read what may have changed, prepare what is new, store batch after batch.
Each batch is a transaction, so searches see the first batch at once and a run that is killed loses
one batch at most; the next run finds what is stored and goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.models import Model, Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import (
    CodebaseError,
    DatabaseUnavailable,
    EmbeddingUnavailable,
    IndexingFailed,
)
from codebase_mcp.index import store
from codebase_mcp.index.pace import paced, waiting
from codebase_mcp.index.plan import Plan, StoredFile, make_plan
from codebase_mcp.index.pool import SMALL_CHARS, Job, PreparerPool
from codebase_mcp.index.prepare import PROGRAM_VERSION, PreparedBlob, RawText, blob_id_of
from codebase_mcp.index.store import FileRecord, Snapshot
from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.source.read import Skipped, SourceText, read_source
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.source.walk import list_files
from codebase_mcp.telemetry.calls import texts_embedded
from codebase_mcp.telemetry.watch import step

# A batch is what is lost when a run is killed, and what a worker holds in memory.
BATCH_BYTES = 1_000_000
BATCH_FILES = 500

# Where a service embeds, a batch of some hundred passages takes it seconds; smaller ones, more of
# them at once, keep its requests overlapping and lose less.
REMOTE_BATCH_BYTES = 100_000
REMOTE_BATCHES = 8

# From so many new chunks on the word index and the statistics are put in order at once.
SETTLE_CHUNKS = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; ``total`` is 0 while the files are being listed."""

    done: int
    total: int
    message: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """What one run did. ``added`` and ``changed`` are the paths of the files that it indexed.

    ``model`` is the one that the index is made with; ``notice`` says so where it is not the one
    that new repositories get.
    """

    repository_id: UUID
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


@dataclass(slots=True)
class _Tally:
    """What a run has done so far; the only state that its batches share."""

    total: int
    done: int = 0
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    chunks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[FileFailure] = field(default_factory=list)

    @property
    def indexed(self) -> int:
        return len(self.added) + len(self.changed)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What every run works with."""

    database: Database
    models: Models
    pool: PreparerPool


class Indexer:
    """Runs index jobs against one database."""

    def __init__(self, database: Database, models: Models, pool: PreparerPool) -> None:
        self._database = database
        self._parts = _Parts(database, models, pool)

    async def run(
        self,
        project: Project,
        root: Path,
        *,
        name: str | None = None,
        force: bool = False,
        selection: Selection = EVERYTHING,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> RunResult:
        """Make the index of the tree at ``root`` equal to it, as far as it is selected.

        A second run on the same repository waits for the first. An index goes on with the model
        that it was made with; what is new, and what is forced, gets the configured one.

        Raises:
            DatabaseUnavailable, EmbeddingUnavailable: before anything was stored; later the result
                has the status ``failed`` and what was stored stays searchable.
        """
        with paced(progress) as pace:
            run = await self._run(project, root, name, selection, force=force, progress=pace.follow)
            pace.end(run)
        return run

    async def _run(
        self,
        project: Project,
        root: Path,
        name: str | None,
        selection: Selection,
        *,
        force: bool,
        progress: Callable[[Progress], None],
    ) -> RunResult:
        started = time.monotonic()
        progress(Progress(0, 0, "Listing files"))
        repository_id = store.repository_id_of(project, root)
        async with self._locked(project, repository_id):
            with step("list"):
                listing = await asyncio.to_thread(list_files, root, selection)
            model, profile = await self._model_for(project, repository_id, force=force)
            async with step("plan"), self._database.transaction(project) as tx:
                _, stored_name = await store.open_repository(tx, project, root, name)
                snapshot = await store.open_snapshot(tx, repository_id, profile, rebuild=force)
                stored = await store.stored_files(tx, snapshot)
                plan = make_plan(listing, stored, same_classifier=snapshot.same_classifier)
                if plan.removed:
                    await store.forget_files(tx, snapshot, plan.removed)
                await store.start_run(tx, snapshot, len(plan.to_read))
            tally = _Tally(len(listing.files), plan.unchanged, unchanged=plan.unchanged)
            tally.failures += plan.failures
            tally.skipped.update(listing.skipped)
            run = _Run(
                self._parts,
                project,
                snapshot,
                model,
                max_file_bytes=selection.max_file_bytes,
                stored=stored,
                tally=tally,
                progress=progress,
            )
            error = await run.to_the_end(listing, plan)
        return RunResult(
            repository_id=repository_id,
            name=stored_name,
            root=root,
            status="failed" if error else "partial" if tally.failures else "success",
            files_indexed=tally.indexed,
            files_unchanged=tally.unchanged,
            files_removed=len(plan.removed),
            files_skipped=dict(sorted(tally.skipped.items())),
            files_read=len(plan.to_read),
            chunks_created=tally.chunks,
            errors=[str(f) for f in sorted(tally.failures, key=lambda f: f.path)]
            + ([error.message] if error else []),
            duration_s=time.monotonic() - started,
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

    async def undo_switch(self, project: Project, repository_id: UUID) -> bool:
        """Let the index of before the last switch of models answer again, if it is kept."""
        async with (
            self._locked(project, repository_id),
            self._database.transaction(project) as tx,
        ):
            return await store.undo_switch(tx, repository_id)

    async def keep_switch(self, project: Project, repository_id: UUID) -> bool:
        """Drop the index of before the last switch, and one that was begun; was there any?"""
        async with (
            self._locked(project, repository_id),
            self._database.transaction(project) as tx,
        ):
            return await store.keep_switch(tx, repository_id)

    @asynccontextmanager
    async def _locked(self, project: Project, repository_id: UUID) -> AsyncIterator[None]:
        """While a repository's index is changed, nobody else does so."""
        lock = self._database.session_lock(project, index_lock(repository_id), wait=True)
        async with AsyncExitStack() as stack:
            with waiting():
                await stack.enter_async_context(lock)
            yield

    async def _model_for(
        self, project: Project, repository_id: UUID, *, force: bool
    ) -> tuple[Model, Profile]:
        """The model of a run and the profile of what it makes, asked for while nothing is held."""
        models = self._parts.models
        if not force:
            async with self._database.transaction(project, readonly=True) as tx:
                profile = await store.active_profile(tx, repository_id)
            if profile is not None:
                profile.require_version(PROGRAM_VERSION)
                return await models.of_profile(profile), profile
        model = await models.configured()
        made = Profile.of(PROGRAM_VERSION, model.facts, model.recipe)
        return model, replace(made, scale=await models.scale_of(model))


class _Run:
    """The batches of one run, a few of them under way at once."""

    def __init__(
        self,
        parts: _Parts,
        project: Project,
        snapshot: Snapshot,
        model: Model,
        *,
        max_file_bytes: int,
        stored: dict[str, StoredFile],
        tally: _Tally,
        progress: Callable[[Progress], None],
    ) -> None:
        self._parts = parts
        self._database = parts.database
        self._project = project
        self._snapshot = snapshot
        self._model = model
        self._job = Job(snapshot.profile.id, snapshot.generation, model.local)
        self._max_file_bytes = max_file_bytes
        self._stored = stored
        self._tally = tally
        self._progress = progress
        self._small = True

    async def to_the_end(self, listing: Listing, plan: Plan) -> CodebaseError | None:
        """Store every batch and the outcome; the error that ended the run early, if any."""
        self._small = sum(file.size for file in plan.to_read) < SMALL_CHARS
        self._report()
        try:
            await self._batches(plan)
            if not self._snapshot.active:  # it is about to answer searches
                async with step("finish"), self._database.transaction(self._project) as tx:
                    await store.tend_vectors(tx, self._snapshot.profile)
            async with step("finish"), self._database.transaction(self._project) as tx:
                await store.finish_run(
                    tx, self._snapshot, self._tally.skipped, self._tally.failures
                )
            if self._tally.chunks >= SETTLE_CHUNKS or not self._snapshot.active:
                async with step("finish"), self._database.transaction(self._project) as tx:
                    await store.settle(tx, self._snapshot.profile)
        except (DatabaseUnavailable, EmbeddingUnavailable, IndexingFailed) as error:
            if self._tally.indexed == 0:
                raise
            return error
        return None

    async def _batches(self, plan: Plan) -> None:
        under_way: set[asyncio.Task[None]] = set()
        # One more than there are workers, so that none waits while a batch is stored.
        most, size = self._parts.pool.workers + 1, BATCH_BYTES
        if self._model.local is None:
            most, size = REMOTE_BATCHES, REMOTE_BATCH_BYTES
        try:
            for batch in cut(plan.to_read, size):
                while len(under_way) >= most:
                    under_way = await _first_done(under_way)
                with step("read"):
                    records, texts = await self._read(batch)
                under_way.add(asyncio.create_task(self._store(records, texts)))
            while under_way:
                under_way = await _first_done(under_way)
        except EmbeddingUnavailable:
            # What other batches got embedded is stored, so that nobody has to embed it again.
            await asyncio.gather(*under_way, return_exceptions=True)
            raise
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _read(
        self, batch: Sequence[SourceFile]
    ) -> tuple[list[FileRecord], dict[int, RawText]]:
        """Read files; their records, and the texts of those that are not stored yet."""
        read_at_ns = time.time_ns()
        limit = self._max_file_bytes
        contents = await asyncio.to_thread(
            lambda: [read_source(file, max_file_bytes=limit) for file in batch]
        )
        records: list[FileRecord] = []
        texts: dict[int, RawText] = {}
        gone = []
        for file, content in zip(batch, contents, strict=True):
            if isinstance(content, SourceText):
                record, raw = self._record(file, content, read_at_ns)
                records.append(record)
                texts[raw.blob_id] = raw
                continue
            if isinstance(content, Skipped):
                self._tally.skipped[content.reason] += 1
            else:
                self._tally.failures.append(content)
            self._tally.done += 1
            if file.path in self._stored:
                gone.append(file.path)
        if gone:
            async with self._database.transaction(self._project) as tx:
                await store.forget_files(tx, self._snapshot, gone)
        return records, texts

    def _record(
        self, file: SourceFile, content: SourceText, read_at_ns: int
    ) -> tuple[FileRecord, RawText]:
        blob_id = blob_id_of(content.blob_hash, content.language, self._snapshot.generation)
        source = replace(file, language=content.language, kind=content.kind)
        raw = RawText(blob_id, content.blob_hash, content.language, content.text)
        return FileRecord(source, blob_id, read_at_ns), raw

    async def _store(self, records: Sequence[FileRecord], texts: dict[int, RawText]) -> None:
        """Prepare what is new of one batch and store the batch."""
        async with self._database.transaction(self._project) as tx:
            known = await store.embedded_blobs(tx, self._snapshot.profile.id, texts)
        wanted: Sequence[FileRecord] = records
        while wanted:
            fresh = [texts[i] for i in {f.blob_id for f in wanted} if i not in known]
            with step("prepare"):
                prepared = await self._parts.pool.prepare(fresh, self._job, small=self._small)
            with step("embed"):
                prepared = await self._embedded(prepared)
            async with step("store"), self._database.transaction(self._project) as tx:
                chunks, missing = await store.write_batch(
                    tx, self._snapshot, wanted, {blob.blob_id: blob for blob in prepared}
                )
            if self._model.local is not None:
                texts_embedded("static", self._model.facts.name, chunks)
            self._tally.chunks += chunks
            wanted, known = missing, set()
        for record in records:
            before = self._stored.get(record.source.path)
            if before is None:
                self._tally.added.append(record.source.path)
            elif before.blob_id == record.blob_id:
                self._tally.unchanged += 1
            else:
                self._tally.changed.append(record.source.path)
        self._tally.done += len(records)
        self._report()

    async def _embedded(self, blobs: list[PreparedBlob]) -> list[PreparedBlob]:
        """Some blobs with their vectors, which a service is asked for unless they are there."""
        texts = [passage for blob in blobs for passage in blob.passages]
        if self._model.local is not None or not texts:
            return blobs
        vectors = await self._model.embedder.embed_passages(texts)
        done, first = [], 0
        for blob in blobs:
            last = first + len(blob.passages)
            done.append(blob.with_vectors(self._snapshot.profile.id, vectors[first:last]))
            first = last
        return done

    def _report(self) -> None:
        self._progress(Progress(self._tally.done, self._tally.total, "Indexing"))


def _notice(profile: Profile, models: Models) -> str | None:
    if models.is_configured(profile):
        return None
    return (
        f"The index goes on with the model that made it, {profile.model}; {models.embedder.name} is"
        " configured. To switch: codebase-mcp model switch, or force_reindex=true."
    )


async def _first_done(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait for one or more to end; those still going. Raises what an ended one raised."""
    done, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return going


def cut(
    files: Sequence[SourceFile], most_bytes: int = BATCH_BYTES
) -> Iterator[Sequence[SourceFile]]:
    """Runs of files of at most about so many bytes together."""
    first = total = 0
    for position, file in enumerate(files):
        if position > first and (total + file.size > most_bytes or position - first >= BATCH_FILES):
            yield files[first:position]
            first, total = position, 0
        total += file.size
    if first < len(files):
        yield files[first:]
