"""How is the stored index made equal to a source tree?

One run: list, compare, read what may have changed, prepare what is new, store batch after batch.
Each batch is a transaction, so searches see the first batch at once and a run that is killed loses
one batch at most; the next run finds what is stored and goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from uuid import UUID

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.embedder import Embedder
from codebase_mcp.errors import (
    CodebaseError,
    DatabaseUnavailable,
    EmbeddingUnavailable,
    IndexingFailed,
)
from codebase_mcp.index import store
from codebase_mcp.index.plan import Plan, StoredFile, make_plan
from codebase_mcp.index.pool import SMALL_CHARS, PreparerPool
from codebase_mcp.index.prepare import RawText, blob_id_of
from codebase_mcp.index.store import FileRecord, Snapshot
from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.source.read import Skipped, SourceText, read_source
from codebase_mcp.source.walk import list_files

# A batch is what is lost when a run is killed, and what a worker holds in memory.
BATCH_BYTES = 1_000_000
BATCH_FILES = 500

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
    """What one run did. ``added`` and ``changed`` are the paths of the files that it indexed."""

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
    embedder: Embedder
    pool: PreparerPool
    max_file_bytes: int


class Indexer:
    """Runs index jobs against one database with one embedder."""

    def __init__(
        self, database: Database, embedder: Embedder, pool: PreparerPool, max_file_bytes: int
    ) -> None:
        self._database = database
        self._parts = _Parts(database, embedder, pool, max_file_bytes)

    async def run(
        self,
        project: Project,
        root: Path,
        *,
        name: str | None = None,
        force: bool = False,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> RunResult:
        """Make the index of the tree at ``root`` equal to it.

        A second run on the same repository waits for the first.

        Raises:
            DatabaseUnavailable, EmbeddingUnavailable: before anything was stored; later the result
                has the status ``failed`` and what was stored stays searchable.
        """
        started = time.monotonic()
        progress(Progress(0, 0, "Listing files"))
        key = f"index {store.repository_id_of(project, root)}"
        async with self._database.session_lock(project, key, wait=True):
            listing = await asyncio.to_thread(
                list_files, root, max_file_bytes=self._parts.max_file_bytes
            )
            async with self._database.transaction(project) as tx:
                repository_id, stored_name = await store.open_repository(tx, project, root, name)
                snapshot = await store.open_snapshot(
                    tx, repository_id, self._parts.embedder, rebuild=force
                )
                stored = await store.stored_files(tx, snapshot)
                plan = make_plan(listing, stored, same_classifier=snapshot.same_classifier)
                if plan.removed:
                    await store.forget_files(tx, snapshot, plan.removed)
                await store.start_run(tx, snapshot, len(plan.to_read))
            tally = _Tally(len(listing.files), plan.unchanged, unchanged=plan.unchanged)
            tally.failures += plan.failures
            tally.skipped.update(listing.skipped)
            run = _Run(
                self._parts, project, snapshot, stored=stored, tally=tally, progress=progress
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
            chunks_created=tally.chunks,
            errors=[str(f) for f in sorted(tally.failures, key=lambda f: f.path)]
            + ([error.message] if error else []),
            duration_s=time.monotonic() - started,
            added=tuple(tally.added),
            changed=tuple(tally.changed),
        )

    async def remove(self, project: Project, repository_id: UUID) -> bool:
        """Forget a repository and everything that only it used; False where it is unknown."""
        key = f"index {repository_id}"
        async with (
            self._database.session_lock(project, key, wait=True),
            self._database.transaction(project) as tx,
        ):
            return await store.remove_repository(tx, repository_id)


class _Run:
    """The batches of one run, a few of them under way at once."""

    def __init__(
        self,
        parts: _Parts,
        project: Project,
        snapshot: Snapshot,
        *,
        stored: dict[str, StoredFile],
        tally: _Tally,
        progress: Callable[[Progress], None],
    ) -> None:
        self._parts = parts
        self._database = parts.database
        self._project = project
        self._snapshot = snapshot
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
            async with self._database.transaction(self._project) as tx:
                await store.finish_run(
                    tx, self._snapshot, self._tally.skipped, self._tally.failures
                )
            if self._tally.chunks >= SETTLE_CHUNKS:
                async with self._database.transaction(self._project) as tx:
                    await store.settle(tx, self._parts.embedder.dimension)
        except (DatabaseUnavailable, EmbeddingUnavailable, IndexingFailed) as error:
            if self._tally.indexed == 0:
                raise
            return error
        return None

    async def _batches(self, plan: Plan) -> None:
        under_way: set[asyncio.Task[None]] = set()
        try:
            for batch in cut(plan.to_read):
                # One more than there are workers, so that none waits while a batch is stored.
                while len(under_way) > self._parts.pool.workers:
                    under_way = await _first_done(under_way)
                records, texts = await self._read(batch)
                under_way.add(asyncio.create_task(self._store(records, texts)))
            while under_way:
                under_way = await _first_done(under_way)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _read(
        self, batch: Sequence[SourceFile]
    ) -> tuple[list[FileRecord], dict[int, RawText]]:
        """Read files; their records, and the texts of those that are not stored yet."""
        read_at_ns = time.time_ns()
        limit = self._parts.max_file_bytes
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
        blob_id = blob_id_of(
            content.blob_hash,
            content.language,
            self._snapshot.profile,
            self._snapshot.generation,
        )
        source = replace(file, language=content.language, kind=content.kind)
        raw = RawText(blob_id, content.blob_hash, content.language, content.text)
        return FileRecord(source, blob_id, read_at_ns), raw

    async def _store(self, records: Sequence[FileRecord], texts: dict[int, RawText]) -> None:
        """Prepare what is new of one batch and store the batch."""
        async with self._database.transaction(self._project) as tx:
            known = await store.existing_blobs(tx, texts)
        wanted: Sequence[FileRecord] = records
        while wanted:
            fresh = [texts[i] for i in {f.blob_id for f in wanted} if i not in known]
            prepared = await self._parts.pool.prepare(
                fresh, self._snapshot.profile_id, self._snapshot.generation, small=self._small
            )
            async with self._database.transaction(self._project) as tx:
                chunks, missing = await store.write_batch(
                    tx, self._snapshot, wanted, {blob.blob_id: blob for blob in prepared}
                )
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

    def _report(self) -> None:
        self._progress(Progress(self._tally.done, self._tally.total, "Indexing"))


async def _first_done(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait for one or more to end; those still going. Raises what an ended one raised."""
    done, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return going


def cut(files: Sequence[SourceFile]) -> Iterator[Sequence[SourceFile]]:
    """Runs of files of at most about a megabyte together."""
    first = total = 0
    for position, file in enumerate(files):
        if position > first and (
            total + file.size > BATCH_BYTES or position - first >= BATCH_FILES
        ):
            yield files[first:position]
            first, total = position, 0
        total += file.size
    if first < len(files):
        yield files[first:]
