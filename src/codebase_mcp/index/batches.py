"""How do the files of a plan get stored, batch after batch?

A batch is read, prepared, embedded and stored in one transaction; a few are under way at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from codebase_mcp.chunking.grammars import unpack
from codebase_mcp.database.connection import Database, HeldLocks, Transaction
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.embedder import LocalModel
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable, IndexingFailed
from codebase_mcp.index import store
from codebase_mcp.index.identity import blob_id_of_content
from codebase_mcp.index.plan import Plan, StoredFile
from codebase_mcp.index.pool import SMALL_CHARS, Job, PreparerPool
from codebase_mcp.index.prepare import RawText
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.runs import RunRecord
from codebase_mcp.index.store import FileRecord, Snapshot
from codebase_mcp.model import FileFailure, Listing, SourceFile
from codebase_mcp.source.encoding import UTF8
from codebase_mcp.source.read import Content, Skipped, SourceText
from codebase_mcp.telemetry.calls import texts_embedded
from codebase_mcp.telemetry.stopwatch import step

# A killed run loses at most one batch per worker, and a worker holds one in memory.
BATCH_BYTES = 1_000_000
BATCH_FILES = 500

# From this many new chunks on, the word index is flushed and statistics are updated at once.
FLUSH_CHUNKS = 500


@dataclass(slots=True)
class RunCounts:
    """What a run has done so far; the only state shared by its batches."""

    total: int
    done: int = 0
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: int = 0
    chunks: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failures: list[FileFailure] = field(default_factory=list)
    secrets_masked: int = 0
    encodings: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, listing: Listing, plan: Plan) -> RunCounts:
        """The counts before the first file is read."""
        return cls(
            len(listing.files),
            plan.unchanged,
            unchanged=plan.unchanged,
            skipped=Counter(listing.skipped),
            failures=list(plan.failures),
        )

    @property
    def indexed(self) -> int:
        return len(self.added) + len(self.changed)


@dataclass(frozen=True, slots=True)
class RunDependencies:
    """The objects that every run uses."""

    database: Database
    models: Models
    pool: PreparerPool


ReadFiles = Callable[[Sequence[SourceFile]], Sequence[Content]]
"""Reads some files of a listing, in the same order."""


class Batches:
    """The batches of one run, a few of them processed concurrently."""

    def __init__(
        self,
        dependencies: RunDependencies,
        project: Project,
        snapshot: Snapshot,
        model: LocalModel,
        read: ReadFiles,
        *,
        stored: dict[str, StoredFile],
        counts: RunCounts,
        progress: Callable[[RunProgress], None],
        held: HeldLocks,
        record: RunRecord | None = None,
    ) -> None:
        self._dependencies = dependencies
        self._database = dependencies.database
        self._project = project
        self._snapshot = snapshot
        self._model = model
        self._job = Job(snapshot.profile.id, snapshot.generation, model)
        self._read_files = read
        self._stored = stored
        self._counts = counts
        self._progress = progress
        self._held = held
        self._record = record
        self._small = True

    async def run(
        self, plan: Plan, finish: Callable[[Transaction], Awaitable[None]]
    ) -> CodebaseError | None:
        """Store every batch and the outcome; returns the error that ended the run early, if any.

        ``finish`` stores the outcome, in a transaction of its own.
        """
        self._small = sum(file.size for file in plan.to_read) < SMALL_CHARS
        self._report()
        try:
            await self._batches(plan)
            await self._held.confirm()
            async with step("finish"), self._database.transaction(self._project) as tx:
                await finish(tx)
            if self._counts.chunks >= FLUSH_CHUNKS or self._snapshot.is_rebuild:
                async with step("finish"), self._database.transaction(self._project) as tx:
                    await store.flush_and_analyze(tx)
        except (DatabaseUnavailable, IndexingFailed) as error:
            if self._counts.indexed == 0:
                raise
            return error
        return None

    async def _batches(self, plan: Plan) -> None:
        languages = {file.language for file in plan.to_read}
        unpacking = asyncio.create_task(asyncio.to_thread(unpack, languages))
        if self._small:
            await unpacking
        under_way = {unpacking}  # meanwhile the worker processes start
        # One more than there are workers, so that no worker is idle while a batch is stored.
        most = self._dependencies.pool.workers + 1
        try:
            for batch in cut(plan.to_read):
                while len(under_way) >= most:
                    under_way = await _first_done(under_way)
                with step("read"):
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
        """Read files; returns their records and texts."""
        read_at_ns = time.time_ns()
        contents = await asyncio.to_thread(self._read_files, batch)
        records: list[FileRecord] = []
        texts: dict[int, RawText] = {}
        gone = []
        for file, content in zip(batch, contents, strict=True):
            if isinstance(content, SourceText):
                record, raw = self._found(file, content, read_at_ns)
                records.append(record)
                texts[raw.blob_id] = raw
                self._counts.secrets_masked += content.masked
                if content.encoding != UTF8:
                    self._counts.encodings[content.encoding] += 1
                continue
            if isinstance(content, Skipped):
                self._counts.skipped[content.reason] += 1
            else:
                self._counts.failures.append(content)
            self._counts.done += 1
            if file.path in self._stored:
                gone.append(file.path)
        if gone:
            async with self._database.transaction(self._project) as tx:
                await store.forget_files(tx, self._snapshot, gone)
        return records, texts

    def _found(
        self, file: SourceFile, content: SourceText, read_at_ns: int
    ) -> tuple[FileRecord, RawText]:
        blob_id = blob_id_of_content(content, self._snapshot.generation)
        source = replace(file, language=content.language, kind=content.kind)
        raw = RawText(
            blob_id,
            content.blob_hash,
            content.language,
            content.text,
            content.masked,
            content.encoding,
        )
        return FileRecord(source, blob_id, read_at_ns), raw

    async def _store(self, records: Sequence[FileRecord], texts: dict[int, RawText]) -> None:
        """Prepare the new texts of one batch and store the batch."""
        async with self._database.transaction(self._project) as tx:
            known = await store.embedded_blobs(tx, self._snapshot.profile.id, texts)
        wanted: Sequence[FileRecord] = records
        while wanted:
            fresh = [texts[i] for i in {f.blob_id for f in wanted} if i not in known]
            with step("prepare"):
                prepared = await self._dependencies.pool.prepare(
                    fresh, self._job, small=self._small
                )
            await self._held.confirm()
            await self._database.require_room()
            async with step("store"), self._database.transaction(self._project) as tx:
                chunks, missing = await store.write_batch(
                    tx, self._snapshot, wanted, {blob.blob_id: blob for blob in prepared}
                )
                await self._advance(tx, wanted, missing, chunks)
            texts_embedded("static", self._model.name, chunks)
            self._counts.chunks += chunks
            wanted, known = missing, set()
        for record in records:
            before = self._stored.get(record.source.path)
            if before is None:
                self._counts.added.append(record.source.path)
            elif before.blob_id == record.blob_id:
                self._counts.unchanged += 1
            else:
                self._counts.changed.append(record.source.path)
        self._counts.done += len(records)
        self._report()

    async def _advance(
        self,
        tx: Transaction,
        files: Sequence[FileRecord],
        missing: Sequence[FileRecord],
        chunks: int,
    ) -> None:
        """Store the progress of the run by these files, except for missing ones."""
        if self._record is None:
            return
        late = {file.source.path for file in missing}
        done = [file for file in files if file.source.path not in late]
        indexed = sum(1 for file in done if not self._is_stored(file))
        last = done[-1].source.path if done else None
        await self._record.advance(tx, len(done), indexed, chunks, last)

    def _is_stored(self, file: FileRecord) -> bool:
        before = self._stored.get(file.source.path)
        return before is not None and before.blob_id == file.blob_id

    def _report(self) -> None:
        done, total = self._counts.done, self._counts.total
        self._progress(RunProgress(done, total, "Indexing" if done < total else "Finishing"))


async def _first_done(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until at least one task ends; returns the others. Raises what an ended one raised."""
    done, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return going


def cut(
    files: Sequence[SourceFile], most_bytes: int = BATCH_BYTES
) -> Iterator[Sequence[SourceFile]]:
    """Groups of consecutive files with at most about ``most_bytes`` in total."""
    first = total = 0
    for position, file in enumerate(files):
        if position > first and (total + file.size > most_bytes or position - first >= BATCH_FILES):
            yield files[first:position]
            first, total = position, 0
        total += file.size
    if first < len(files):
        yield files[first:]
