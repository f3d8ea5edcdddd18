"""How are the files of a plan stored, batch after batch?

A batch is read, prepared, embedded, and stored in a transaction; a few are under way at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from codebase_mcp.chunking.grammars import unpack
from codebase_mcp.database.connection import Database, HeldLocks, Transaction
from codebase_mcp.database.naming import Project
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.errors import CodebaseError, DatabaseUnavailable, IndexingFailed
from codebase_mcp.index import store
from codebase_mcp.index.identity import blob_id_of_content
from codebase_mcp.index.plan import Plan, RunCounts, StoredFile
from codebase_mcp.index.pool import SMALL_CHARS, Job, PreparerPool
from codebase_mcp.index.prepare import RawText
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.runs import RunRecord
from codebase_mcp.index.store import FileRecord, Snapshot
from codebase_mcp.model import SourceFile
from codebase_mcp.source.read import UTF8, Content, Skipped, SourceText
from codebase_mcp.telemetry.metrics import EMBEDDING_TEXTS
from codebase_mcp.telemetry.stopwatch import step

# A killed run loses at most a batch per worker, and a worker holds a batch in memory.
BATCH_BYTES = 1_000_000
BATCH_FILES = 500

# From this many new chunks on, the word index is flushed and statistics are updated at once.
FLUSH_CHUNKS = 500


@dataclass(slots=True)
class Batches:
    """The batches of a run, a few of them processed concurrently.

    ``read_files`` keeps the order of the files. ``stored`` are the files of the snapshot before the
    run, by path. ``record`` stores the progress, if there is one.
    """

    database: Database
    pool: PreparerPool
    project: Project
    snapshot: Snapshot
    model: StaticEmbedder
    read_files: Callable[[Sequence[SourceFile]], Sequence[Content]]
    stored: Mapping[str, StoredFile]
    counts: RunCounts
    progress: Callable[[RunProgress], None]
    held: HeldLocks
    record: RunRecord | None = None
    _is_small: bool = True

    async def run(
        self, plan: Plan, finish: Callable[[Transaction], Awaitable[None]]
    ) -> CodebaseError | None:
        """Store every batch and the outcome; returns the error that ended the run early, if any.

        ``finish`` stores the outcome, in a transaction of its own.
        """
        self._is_small = sum(file.size for file in plan.to_read) < SMALL_CHARS
        self._report()
        try:
            await self._store_all(plan)
            await self.held.confirm()
            async with step("finish"), self._transaction() as tx:
                await finish(tx)
            if self.counts.chunks >= FLUSH_CHUNKS or self.snapshot.is_rebuild:
                async with step("finish"), self._transaction() as tx:
                    await store.flush_and_analyze(tx)
        except (DatabaseUnavailable, IndexingFailed) as error:
            if self.counts.indexed == 0:
                raise
            return error
        return None

    async def _store_all(self, plan: Plan) -> None:
        languages = {file.language for file in plan.to_read}
        unpacking = asyncio.create_task(asyncio.to_thread(unpack, languages))
        if self._is_small:
            await unpacking
        under_way = {unpacking}  # meanwhile the worker processes start
        # More than there are workers, so that no worker is idle while a batch is stored.
        most = self.pool.workers + 1
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
        """Read files; returns their records, and their texts by blob."""
        read_at_ns = time.time_ns()
        contents = await asyncio.to_thread(self.read_files, batch)
        records: list[FileRecord] = []
        texts: dict[int, RawText] = {}
        gone = []
        for file, content in zip(batch, contents, strict=True):
            if isinstance(content, SourceText):
                blob_id = blob_id_of_content(content, self.snapshot.generation)
                source = replace(file, language=content.language, kind=content.kind)
                records.append(FileRecord(source, blob_id, read_at_ns))
                texts[blob_id] = RawText(
                    blob_id,
                    content.blob_hash,
                    content.language,
                    content.text,
                    content.masked,
                    content.encoding,
                )
                self.counts.secrets_masked += content.masked
                if content.encoding != UTF8:
                    self.counts.encodings[content.encoding] += 1
                continue
            if isinstance(content, Skipped):
                self.counts.skipped[content.reason] += 1
            else:
                self.counts.failures.append(content)
            self.counts.done += 1
            if file.path in self.stored:
                gone.append(file.path)
        if gone:
            async with self._transaction() as tx:
                await store.forget_files(tx, self.snapshot, gone)
        return records, texts

    async def _store(self, records: Sequence[FileRecord], texts: Mapping[int, RawText]) -> None:
        """Prepare the new texts of a batch and store the batch."""
        job = Job(self.snapshot.profile.id, self.snapshot.generation, self.model)
        async with self._transaction() as tx:
            stored = await store.stored_blobs(tx, self.snapshot.profile.id, texts)
        embedded = {blob_id for blob_id, (_, is_embedded) in stored.items() if is_embedded}
        files: Sequence[FileRecord] = records
        while files:
            fresh = [texts[i] for i in {f.blob_id for f in files} if i not in embedded]
            with step("prepare"):
                blobs = await self.pool.prepare(fresh, job, small=self._is_small)
            await self.held.confirm()
            await self.database.require_room()
            async with step("store"), self._transaction() as tx:
                chunks, missing = await store.write_batch(
                    tx, self.snapshot, files, {blob.blob_id: blob for blob in blobs}
                )
                await self._record_progress(tx, files, missing, chunks)
            EMBEDDING_TEXTS.add("static", self.model.name, amount=chunks)
            self.counts.chunks += chunks
            files, embedded = missing, set()
        for file in records:
            if file.source.path not in self.stored:
                self.counts.added.append(file.source.path)
            elif self._is_unchanged(file):
                self.counts.unchanged += 1
            else:
                self.counts.changed.append(file.source.path)
        self.counts.done += len(records)
        self._report()

    async def _record_progress(
        self,
        tx: Transaction,
        files: Sequence[FileRecord],
        missing: Sequence[FileRecord],
        chunks: int,
    ) -> None:
        """Store the progress of the run by these files, except for the missing files."""
        if self.record is not None:
            done = [file for file in files if file not in missing]
            indexed = sum(not self._is_unchanged(file) for file in done)
            last = done[-1].source.path if done else None
            await self.record.advance(tx, len(done), indexed, chunks, last)

    def _is_unchanged(self, file: FileRecord) -> bool:
        before = self.stored.get(file.source.path)
        return before is not None and before.blob_id == file.blob_id

    def _transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self.database.transaction(self.project)

    def _report(self) -> None:
        done, total = self.counts.done, self.counts.total
        self.progress(RunProgress(done, total, "Indexing" if done < total else "Finishing"))


async def _first_done(tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
    """Wait until a task ends; returns the running tasks, or raises the error of an ended task."""
    done, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
    return going


def cut(files: Sequence[SourceFile]) -> Iterator[Sequence[SourceFile]]:
    """Groups of consecutive files with at most about ``BATCH_BYTES`` in total."""
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
