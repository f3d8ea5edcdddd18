"""Which indexes are kept in memory, and are they up to date?

In a long-lived process (a server, a library) the first search of some snapshots loads a memory
index of them in the background. Later searches use it: they find the same candidates in a fraction
of the time. There is one index for the working trees of a project, and one for each searched
commit. Each is also a file, which all processes of the machine map: the first that needs it reads
the database, the others and the next ones find the file, also a program that ends after a single
search. PostgreSQL stays the source of truth: every search reads the versions of the snapshots
first. An outdated index is dropped at once, and that search uses the database. The database is also
used where there is no index yet, and for indexes that are larger than the memory allowed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.naming import Project
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import CodebaseError
from codebase_mcp.search.image_folder import ImageFolder
from codebase_mcp.search.index_files import mapped_index, write_index
from codebase_mcp.search.memory_index import (
    Files,
    Floats,
    IndexedFile,
    Ints,
    MemoryIndex,
    Postings,
    Strings,
    SymbolTable,
    bytes_of,
    index_bytes,
    numbered,
)
from codebase_mcp.search.scope import ScopeVersion

_SQL = load_queries("codebase_mcp.search", "memory_index.sql")
_log = logging.getLogger(__name__)

# Loading waits this long for the index to stop changing: an index run commits many batches.
QUIET_S = 1.0

# While an index keeps changing, loading takes at most this share of the time.
_LOAD_SHARE = 0.05

# An index that no search has used for this long is dropped.
IDLE_S = 900.0

# Whether another process has made an index is looked up after each of these times.
_CLAIMED_S = 0.2

# The number of texts read at once: few, so that searches hardly wait.
_BATCH_TEXTS = 250

_INT = np.dtype(">i4")
_FLOAT = np.dtype(">f4")
_HALF = np.dtype(">f2")


_Key = tuple[str, "tuple[int, ...] | None"]


@dataclass(slots=True)
class _Slot:
    """An index if it is loaded; ``refused`` is a version that cannot be kept in memory.

    ``seen`` tells the last file that was opened.
    """

    index: MemoryIndex | None = None
    seen: tuple[int, int] | None = None
    loading: asyncio.Task[None] | None = None
    refused: ScopeVersion | None = None
    used_at: float = 0.0
    loaded_at: float = 0.0
    load_s: float = 0.0


class MemoryIndexes:
    """The memory indexes of this process, of the most recently searched snapshots.

    ``snapshot_ids`` are snapshots of commits; None means those that are searched by default.
    """

    def __init__(self, database: Database, folder: Path, *, most_bytes: int) -> None:
        self._database = database
        self._files = ImageFolder(folder, "index")
        self._most_bytes = most_bytes
        self._slots: OrderedDict[_Key, _Slot] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def get(
        self, project: Project, snapshot_ids: tuple[int, ...] | None = None
    ) -> MemoryIndex | None:
        """The index of some snapshots, perhaps of an older version."""
        if not self._most_bytes:
            return None
        slot = self._slot(project, snapshot_ids)
        if slot.index is None:
            self._open(slot, _file_name(project, snapshot_ids))
            if slot.index is not None:
                self._make_room()
        return slot.index

    def _slot(self, project: Project, snapshot_ids: tuple[int, ...] | None) -> _Slot:
        """The slot of some snapshots, which are being searched."""
        key = project.schema_name, snapshot_ids
        slot = self._slots.setdefault(key, _Slot())
        self._slots.move_to_end(key)
        slot.used_at = time.monotonic()
        return slot

    def _open(self, slot: _Slot, name: str) -> None:
        """Map the file of an index, unless it was seen before."""
        made = self._files.use(name)
        if made is None or made == slot.seen:
            return
        slot.seen = made
        with suppress(OSError, ValueError, KeyError):
            index = mapped_index(self._files.map(name))
            if index.size_bytes <= self._most_bytes:
                slot.index = index

    def schedule(
        self,
        project: Project,
        version: ScopeVersion,
        snapshot_ids: tuple[int, ...] | None = None,
    ) -> None:
        """Drop an index of an older version than the current ``version``, and load it soon."""
        if self._closed or not self._most_bytes:
            return
        slot = self._slot(project, snapshot_ids)
        if slot.index is not None and slot.index.version != version:
            slot.index = None
        if slot.index is None and slot.refused != version and slot.loading is None:
            slot.loading = asyncio.create_task(self._load(project, snapshot_ids, slot))

    async def forget(self, project: Project) -> None:
        """Drop the indexes of a project that was dropped, and stop loading."""
        keys = [key for key in self._slots if key[0] == project.schema_name]
        dropped = [self._slots.pop(key) for key in keys]
        loading = [slot.loading for slot in dropped if slot.loading is not None]
        for task in loading:
            task.cancel()
        if loading:
            await asyncio.wait(loading)
        self._files.forget(f"{project.schema_name}-")

    async def wait_idle(self) -> None:
        """Wait until no index is being loaded."""
        tasks = [slot.loading for slot in self._slots.values() if slot.loading is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Drop all indexes."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for slot in self._slots.values():
            if slot.loading is not None:
                slot.loading.cancel()
        await self.wait_idle()
        self._slots.clear()

    async def _load(
        self, project: Project, snapshot_ids: tuple[int, ...] | None, slot: _Slot
    ) -> None:
        try:
            pause = slot.loaded_at + slot.load_s / _LOAD_SHARE - time.monotonic()
            await asyncio.sleep(max(QUIET_S, pause))
            started = time.monotonic()
            await self._read(project, snapshot_ids, slot)
            slot.loaded_at = time.monotonic()
            slot.load_s = slot.loaded_at - started
            self._make_room()
            await asyncio.to_thread(return_freed_memory)
        except CodebaseError as error:
            _log.warning("could not read an index into memory: %s", error.message)
        finally:
            slot.loading = None

    async def _read(
        self, project: Project, snapshot_ids: tuple[int, ...] | None, slot: _Slot
    ) -> None:
        """Map the file that another process has made or makes, or make it."""
        name = _file_name(project, snapshot_ids)
        while True:
            with self._files.claim(name) as is_mine:
                async with self._database.transaction(project, readonly=True) as tx:
                    self._open(slot, name)
                    version, profiles = await current_version(tx, snapshot_ids)
                    if slot.index is not None and slot.index.version == version:
                        return
                    if is_mine:
                        slot.index = await read_index(tx, self._most_bytes, version, profiles)
                if is_mine:
                    slot.refused = version if slot.index is None else None
                    if slot.index is not None:
                        await self._keep(slot, name, slot.index)
                    return
            await asyncio.sleep(_CLAIMED_S)

    async def _keep(self, slot: _Slot, name: str, index: MemoryIndex) -> None:
        """Write a new index to its file, and map that instead."""

        def write() -> None:
            with self._files.new(name) as file:
                write_index(file, index)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            _log.warning("Cannot keep an index: %s", error)
        else:
            self._open(slot, name)

    def _make_room(self) -> None:
        """Drop idle indexes, and the least recently used ones if they exceed the memory."""
        oldest = time.monotonic() - IDLE_S
        held = 0
        for slot in reversed(self._slots.values()):
            if slot.index is not None:
                held += slot.index.size_bytes
                if held > self._most_bytes or slot.used_at < oldest:
                    slot.index = slot.seen = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if held and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._make_room)


def return_freed_memory() -> None:
    """Return the memory that glibc keeps after it was freed: some 30 MB after a load."""
    import ctypes  # noqa: PLC0415 - costs a megabyte, which a command need not pay

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _file_name(project: Project, snapshot_ids: tuple[int, ...] | None) -> str:
    if snapshot_ids is None:
        return f"{project.schema_name}-worktrees"
    joined = ",".join(map(str, snapshot_ids))
    return f"{project.schema_name}-{hashlib.sha256(joined.encode()).hexdigest()[:16]}"


async def current_version(
    tx: Transaction, snapshot_ids: Sequence[int] | None
) -> tuple[ScopeVersion, list[int]]:
    """The versions of some snapshots, and the ids of their models."""
    chosen = None if snapshot_ids is None else array_literal(snapshot_ids)
    snapshots = await tx.fetch_all(_SQL["snapshots"], ids=chosen)
    version = tuple((snapshot_id, version) for snapshot_id, version, _ in snapshots)
    return version, list({profile_id for _, _, profile_id in snapshots})


async def read_index(
    tx: Transaction, most_bytes: int, version: ScopeVersion, profiles: Sequence[int]
) -> MemoryIndex | None:
    """An index of some snapshots; None if too large, or with several models."""
    if len(profiles) != 1:
        return None
    ids = array_literal(snapshot_id for snapshot_id, _ in version)
    [(chunk_count,)] = await tx.fetch_all(_SQL["chunk_count"], ids=ids)
    [(dimension,)] = await tx.fetch_all(_SQL["dimension"], profile_id=profiles[0])
    if index_bytes(chunk_count, dimension) > most_bytes:
        return None
    files = await tx.fetch_all(_SQL["files"], ids=ids)
    blob_ids = np.unique(np.fromiter((row[3] for row in files), np.int64, len(files)))
    parts = []
    for first in range(0, max(len(blob_ids), 1), _BATCH_TEXTS):  # a batch even without texts
        blobs = blob_ids[first : first + _BATCH_TEXTS]
        bound = {"blobs": array_literal(blobs.tolist()), "profile_id": profiles[0]}
        rows = await tx.fetch_many(
            [(_SQL[name], bound) for name in ("chunks", "vectors", "comments", "symbols")]
        )
        parts.append(await asyncio.to_thread(_batch, blobs, dimension, rows))
    return await asyncio.to_thread(_assemble, version, dimension, blob_ids, parts, files)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Some texts; chunks and texts are numbered from 0 within the batch."""

    chunk_counts: Ints
    start_lines: Ints
    end_lines: Ints
    words: tuple[Ints, Ints, Floats]
    vectors: Floats
    comments: tuple[Ints, Ints, Floats]
    symbols: list[Row] = field(default_factory=list)


def _batch(blob_ids: NDArray[np.int64], dimension: int, rows: Sequence[list[Row]]) -> _Batch:
    chunks, vectors, comments, symbols = rows
    position_of = {blob_id: position for position, blob_id in enumerate(blob_ids.tolist())}
    lines = np.frombuffer(b"".join(row[1] for row in chunks), _INT).reshape(-1, 2)
    counts = np.zeros(len(blob_ids), np.int32)
    for blob_id, spans, _ in chunks:
        counts[position_of[blob_id]] = len(spans) // (2 * _INT.itemsize)
    first_chunks = np.cumsum(counts) - counts
    words = _sparse(row[2] for row in chunks)
    dense = np.zeros((len(lines), dimension), np.float32)
    for blob_id, ordinals, halves in vectors:
        rows_of_text = first_chunks[position_of[blob_id]] + np.frombuffer(ordinals, _INT)
        vectors_of_text = np.frombuffer(halves, _HALF).reshape(len(rows_of_text), -1)[:, 2:]
        dense[rows_of_text] = vectors_of_text
    return _Batch(
        counts,
        lines[:, 0].astype(np.int32),
        lines[:, 1].astype(np.int32),
        words,
        dense,
        _sparse(row[1] for row in comments),
        symbols,
    )


def _sparse(values: Iterable[bytes]) -> tuple[Ints, Ints, Floats]:
    """The terms, rows and weights of sparse vectors in pgvector's binary format.

    Each vector begins with its dimension, its number of entries and a zero. Then follow all
    positions, then all values, four bytes each.
    """
    joined = b"".join(values)
    numbers = np.frombuffer(joined, _INT)
    heads, sizes = [], []
    position = 0
    while position < len(numbers):
        size = int(numbers[position + 1])
        heads.append(position + 3)
        sizes.append(size)
        position += 3 + 2 * size
    counts = np.array(sizes, np.int64)
    before = np.cumsum(counts) - counts
    entries = np.repeat(np.array(heads, np.int64) - before, counts) + np.arange(counts.sum())
    weights = np.frombuffer(joined, _FLOAT)[entries + np.repeat(counts, counts)]
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return numbers[entries].astype(np.int32), rows, weights.astype(np.float32)


def _assemble(
    version: ScopeVersion,
    dimension: int,
    blob_ids: NDArray[np.int64],
    parts: Sequence[_Batch],
    files: Sequence[Row],
) -> MemoryIndex:
    counts = np.concatenate([part.chunk_counts for part in parts])
    first_chunks = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    texts = np.searchsorted(blob_ids, np.array([row[3] for row in files], np.int64)).tolist()
    indexed = [
        IndexedFile(row[0], row[1], row[2], text, row[4], row[5], row[6])
        for row, text in zip(files, texts, strict=True)
    ]
    name_rows = np.repeat(np.arange(len(files), dtype=np.int32), [len(row[7]) for row in files])
    name_terms = np.array(list(chain.from_iterable(row[7] for row in files)), np.int32)
    text_counts = [len(part.chunk_counts) for part in parts]
    return MemoryIndex(
        snapshots=np.array([snapshot_id for snapshot_id, _ in version], np.int64),
        versions=bytes_of(number for _, number in version),
        blob_ids=blob_ids,
        first_chunks=first_chunks,
        text_of=np.repeat(np.arange(len(blob_ids), dtype=np.int32), counts),
        start_lines=np.concatenate([part.start_lines for part in parts]),
        end_lines=np.concatenate([part.end_lines for part in parts]),
        vectors=np.concatenate([part.vectors.T for part in parts], axis=1),
        words=_postings([part.words for part in parts], [len(part.start_lines) for part in parts]),
        comments=_postings([part.comments for part in parts], text_counts),
        file_names=Postings.collect(name_terms, name_rows, np.ones(len(name_terms), np.float32)),
        symbols=_symbol_table(blob_ids, list(chain.from_iterable(p.symbols for p in parts))),
        files=Files.of(indexed, len(blob_ids)),
    )


def _postings(parts: Sequence[tuple[Ints, Ints, Floats]], sizes: Sequence[int]) -> Postings:
    firsts = np.cumsum([0, *sizes])[:-1]
    return Postings.collect(
        np.concatenate([terms for terms, _, _ in parts]),
        np.concatenate(
            [rows + np.int32(first) for (_, rows, _), first in zip(parts, firsts, strict=True)]
        ),
        np.concatenate([weights for _, _, weights in parts]),
    )


def _symbol_table(blob_ids: NDArray[np.int64], rows: Sequence[Row]) -> SymbolTable:
    number_of: dict[str, int] = {}
    names = numbered(number_of, (row[1] for row in rows))
    kinds = numbered(number_of, (row[3] for row in rows))
    distinct = sorted({row[2] for row in rows}, key=str.encode)
    folded = numbered({name: number for number, name in enumerate(distinct)}, (r[2] for r in rows))
    by_name = np.argsort(folded, kind="stable").astype(np.int32)
    ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    lines = np.array([row[4:7] for row in rows], np.int32).reshape(-1, 3)
    return SymbolTable(
        strings=Strings.of(number_of),
        texts=np.searchsorted(blob_ids, ids).astype(np.int32),
        names=names,
        kinds=kinds,
        starts=lines[:, 0],
        ends=lines[:, 1],
        depths=lines[:, 2],
        by_name=by_name,
        folded=Strings.of(distinct),
        of_folded=np.searchsorted(folded[by_name], np.arange(len(distinct) + 1)).astype(np.int32),
    )
