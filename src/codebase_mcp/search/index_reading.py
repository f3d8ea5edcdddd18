"""Reads memory indexes from the database: whole, or what an older index lacks.

A text that a newer state still has is taken from the older index, unless it is cut into another
number of chunks or lacked a vector then: everything else that is stored of a text never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.index_merging import lacking, merged
from codebase_mcp.search.memory_index import (
    Files,
    Floats,
    IndexedFile,
    Ints,
    Mask,
    MemoryIndex,
    Postings,
    Strings,
    SymbolTable,
    bytes_of,
    index_bytes,
    numbered,
)
from codebase_mcp.search.scope import ScopeVersion
from codebase_mcp.search.segments import MOST_ADDED, Segments

_SQL = load_queries("codebase_mcp.search", "memory_index.sql")

# The number of texts read at once: few, so that searches hardly wait.
_BATCH_TEXTS = 250

# A search brings an index up to date if no more texts have to be read: it takes some 50 ms.
_MOST_READ = 100

_INT = np.dtype(">i4")
_FLOAT = np.dtype(">f4")
_HALF = np.dtype(">f2")


async def current_version(
    tx: Transaction, snapshot_ids: Sequence[int] | None
) -> tuple[ScopeVersion, list[int]]:
    """The versions of some snapshots, and the ids of their models."""
    chosen = None if snapshot_ids is None else array_literal(snapshot_ids)
    snapshots = await tx.fetch_all(_SQL["snapshots"], ids=chosen)
    version = tuple((snapshot_id, version) for snapshot_id, version, _ in snapshots)
    return version, list({profile_id for _, _, profile_id in snapshots})


async def read_index(
    tx: Transaction,
    most_bytes: int,
    version: ScopeVersion,
    profiles: Sequence[int],
    older: MemoryIndex | None = None,
) -> MemoryIndex | None:
    """An index of some snapshots; None if too large, or with several models.

    What an ``older`` index has is not read again.
    """
    if len(profiles) != 1:
        return None
    ids = array_literal(snapshot_id for snapshot_id, _ in version)
    [(chunk_count,)] = await tx.fetch_all(_SQL["chunk_count"], ids=ids)
    [(dimension,)] = await tx.fetch_all(_SQL["dimension"], profile_id=profiles[0])
    if index_bytes(chunk_count, dimension) > most_bytes:
        return None
    files = await tx.fetch_all(_SQL["files"], ids=ids)
    if older is not None and older.profile.tolist() != profiles:
        older = None
    return await _index_of(tx, files, version, profiles[0], dimension=dimension, older=older)


async def brought_up_to(
    tx: Transaction, held: Segments, version: ScopeVersion, profiles: Sequence[int]
) -> Segments | None:
    """The segments with what has changed up to a version; None if that is too much."""
    base = held.base
    if base.profile.tolist() != profiles:
        return None
    shown, changed = await _compared(tx, base, version)
    if len(changed) > MOST_ADDED:
        return None
    ids = array_literal(snapshot_id for snapshot_id, _ in version)
    blobs = array_literal(changed.tolist())
    files = await tx.fetch_all(_SQL["files_of_texts"], ids=ids, blobs=blobs)
    added = await _index_of(
        tx, files, version, profiles[0],
        dimension=len(base.vectors), older=held.added, most_read=_MOST_READ,
    )  # fmt: skip
    return None if added is None else Segments(base.showing(shown), added)


async def _index_of(
    tx: Transaction,
    files: Sequence[Row],
    version: ScopeVersion,
    profile_id: int,
    *,
    dimension: int,
    older: MemoryIndex | None,
    most_read: int | None = None,
) -> MemoryIndex | None:
    """An index of some files; None if more texts than ``most_read`` have to be read."""
    counts = {row[3]: row[8] for row in files}
    blob_ids = np.array(sorted(counts), np.int64)
    fresh = blob_ids
    if older is not None:
        chunk_counts = np.array([counts[blob_id] for blob_id in blob_ids.tolist()], np.int32)
        fresh = await asyncio.to_thread(lacking, older, blob_ids, chunk_counts)
    if most_read is not None and len(fresh) > most_read:
        return None
    parts = []
    for first in range(0, max(len(fresh), 1), _BATCH_TEXTS):  # a batch even without texts
        blobs = fresh[first : first + _BATCH_TEXTS]
        bound = {"blobs": array_literal(blobs.tolist()), "profile_id": profile_id}
        rows = await tx.fetch_many(
            [(_SQL[name], bound) for name in ("chunks", "vectors", "comments", "symbols")]
        )
        parts.append(await asyncio.to_thread(_batch, blobs, dimension, rows))

    def made() -> MemoryIndex:
        if older is None:
            return _assemble(version, profile_id, fresh, parts, files)
        new = _assemble(version, profile_id, fresh, parts, [])
        return merged(older, new, blob_ids, *_files(blob_ids, files))

    return await asyncio.to_thread(made)


async def _compared(
    tx: Transaction, base: MemoryIndex, version: ScopeVersion
) -> tuple[Mask, NDArray[np.int64]]:
    """Which files of an index to show still, and the texts that others have now.

    A text is among the others with all of its files.
    """
    files, before = base.files, dict(base.version)
    changed = [snapshot_id for snapshot_id, state in version if before.get(snapshot_id) != state]
    rows = await tx.fetch_all(_SQL["texts_of_files"], ids=array_literal(changed))
    now = {(snapshot_id, path): (blob_id, chunks) for snapshot_id, path, blob_id, chunks in rows}
    shown = np.isin(files.snapshots, [snapshot_id for snapshot_id, _ in version])
    ids, chunk_counts = base.blob_ids[files.texts], np.diff(base.first_chunks)[files.texts]
    numbers = np.flatnonzero(np.isin(files.snapshots, changed))
    columns = [column[numbers].tolist() for column in (files.snapshots, ids, chunk_counts)]
    places = zip(numbers.tolist(), files.paths.at(numbers), *columns, strict=True)
    for number, path, snapshot_id, blob_id, chunks in places:
        if now.get((snapshot_id, path)) == (blob_id, chunks):
            del now[snapshot_id, path]
        else:
            shown[number] = False
    others = {blob_id for blob_id, _ in now.values()}.union(base.blob_ids[base.incomplete].tolist())
    other_ids = np.array(sorted(others), np.int64)
    shown[np.isin(ids, other_ids)] = False
    return shown, other_ids


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
    profile_id: int,
    blob_ids: NDArray[np.int64],
    parts: Sequence[_Batch],
    files: Sequence[Row],
) -> MemoryIndex:
    counts = np.concatenate([part.chunk_counts for part in parts])
    first_chunks = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    text_of = np.repeat(np.arange(len(blob_ids), dtype=np.int32), counts)
    vectors = np.concatenate([part.vectors.T for part in parts], axis=1)
    indexed, file_names = _files(blob_ids, files)
    text_counts = [len(part.chunk_counts) for part in parts]
    return MemoryIndex(
        snapshots=np.array([snapshot_id for snapshot_id, _ in version], np.int64),
        versions=bytes_of(number for _, number in version),
        profile=np.array([profile_id], np.int64),
        blob_ids=blob_ids,
        first_chunks=first_chunks,
        text_of=text_of,
        start_lines=np.concatenate([part.start_lines for part in parts]),
        end_lines=np.concatenate([part.end_lines for part in parts]),
        vectors=vectors,
        words=_postings([part.words for part in parts], [len(part.start_lines) for part in parts]),
        comments=_postings([part.comments for part in parts], text_counts),
        file_names=file_names,
        symbols=_symbol_table(blob_ids, list(chain.from_iterable(p.symbols for p in parts))),
        files=indexed,
        incomplete=np.unique(text_of[~vectors.any(axis=0)]),
    )


def _files(blob_ids: NDArray[np.int64], rows: Sequence[Row]) -> tuple[Files, Postings]:
    """Some files, whose texts have these ids, and the words of their names."""
    texts = np.searchsorted(blob_ids, np.array([row[3] for row in rows], np.int64)).tolist()
    indexed = [
        IndexedFile(row[0], row[1], row[2], text, row[4], row[5], row[6])
        for row, text in zip(rows, texts, strict=True)
    ]
    name_rows = np.repeat(np.arange(len(rows), dtype=np.int32), [len(row[7]) for row in rows])
    terms = np.array(list(chain.from_iterable(row[7] for row in rows)), np.int32)
    names = Postings.collect(terms, name_rows, np.ones(len(terms), np.float32))
    return Files.of(indexed), names


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
    ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    texts = np.searchsorted(blob_ids, ids).astype(np.int32)
    lines = np.array([row[4:7] for row in rows], np.int32).reshape(-1, 3)
    columns = np.column_stack([texts, names, kinds, lines, folded])
    return SymbolTable.of(columns, Strings.of(number_of), Strings.of(distinct))
