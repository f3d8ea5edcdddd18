"""Makes a memory index of texts of an older one and of texts that it lacks.

Pure: arrays in, arrays out. Nothing stays of texts that are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.search.memory_index import (
    Files,
    Ints,
    MemoryIndex,
    Postings,
    Strings,
    SymbolTable,
)

_ROW_BITS = 32

# The columns of a definition that are places of strings: its name and kind, and its folded name.
_STRINGS, _FOLDED = slice(1, 3), 6


@dataclass(frozen=True, slots=True)
class _Part:
    """An index, and which texts and chunks of the merged one its own are; -1 for none."""

    index: MemoryIndex
    texts: Ints
    chunks: Ints


def lacking(
    index: MemoryIndex, blob_ids: NDArray[np.int64], chunk_counts: Ints
) -> NDArray[np.int64]:
    """Of some texts, with ascending ids, those that an index lacks.

    A text counts as lacking if it has another number of chunks now, or a chunk without a vector.
    """
    places = _places(blob_ids, index.blob_ids)
    is_usable = places >= 0
    is_usable[index.incomplete] = False
    usable = np.flatnonzero(is_usable)
    is_same = np.diff(index.first_chunks)[usable] == chunk_counts[places[usable]]
    lacks = np.ones(len(blob_ids), np.bool_)
    lacks[places[usable[is_same]]] = False
    return blob_ids[lacks]


def merged(
    old: MemoryIndex,
    new: MemoryIndex,
    blob_ids: NDArray[np.int64],
    files: Files,
    file_names: Postings,
) -> MemoryIndex:
    """An index of some texts, with ascending ids: those of ``new``, which has its version, and the
    others of ``old``."""
    old_texts, new_texts = _places(blob_ids, old.blob_ids), _places(blob_ids, new.blob_ids)
    old_texts[_places(new.blob_ids, old.blob_ids) >= 0] = -1
    counts = np.zeros(len(blob_ids), np.int32)
    for index, texts in ((old, old_texts), (new, new_texts)):
        counts[texts[texts >= 0]] = np.diff(index.first_chunks)[texts >= 0]
    first_chunks = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    parts = _part(old, old_texts, first_chunks), _part(new, new_texts, first_chunks)
    incomplete = np.concatenate([old_texts[old.incomplete], new_texts[new.incomplete]])
    return MemoryIndex(
        snapshots=new.snapshots,
        versions=new.versions,
        profile=new.profile,
        blob_ids=blob_ids,
        first_chunks=first_chunks,
        text_of=np.repeat(np.arange(len(blob_ids), dtype=np.int32), counts),
        start_lines=_by_chunk(parts, "start_lines", first_chunks[-1]),
        end_lines=_by_chunk(parts, "end_lines", first_chunks[-1]),
        vectors=_by_chunk(parts, "vectors", first_chunks[-1]),
        words=_postings(old.words, parts[0].chunks, new.words, parts[1].chunks),
        comments=_postings(old.comments, old_texts, new.comments, new_texts),
        file_names=file_names,
        symbols=_symbols(old.symbols, old_texts, new.symbols, new_texts),
        files=files,
        incomplete=np.sort(incomplete[incomplete >= 0]),
    )


def _places(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> Ints:
    """Where some ids are among others, both ascending; -1 for those that are not there."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int32)
    places = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[places] == wanted, places, -1).astype(np.int32)


def _part(index: MemoryIndex, texts: Ints, first_chunks: Ints) -> _Part:
    text_of = texts[index.text_of]
    ordinals = np.arange(index.chunk_count) - index.first_chunks[index.text_of]
    chunks = np.where(text_of >= 0, first_chunks[text_of] + ordinals, -1).astype(np.int32)
    return _Part(index, texts, chunks)


def _by_chunk(parts: Sequence[_Part], name: str, count: int) -> Any:
    """A column of all chunks, whose last axis is that of the chunks."""
    columns = [getattr(part.index, name) for part in parts]
    column = np.empty((*columns[0].shape[:-1], count), columns[0].dtype)
    for part, own in zip(parts, columns, strict=True):
        kept = part.chunks >= 0
        column[..., part.chunks[kept]] = own[..., kept]
    return column


def _postings(old: Postings, old_rows: Ints, new: Postings, new_rows: Ints) -> Postings:
    keys, weights = _entries(old, old_rows)
    new_keys, new_weights = _entries(new, new_rows)
    places = np.searchsorted(keys, new_keys)
    keys, weights = np.insert(keys, places, new_keys), np.insert(weights, places, new_weights)
    terms = (keys >> _ROW_BITS).astype(np.int32)
    firsts = np.flatnonzero(np.diff(terms, prepend=-1))
    rows = (keys & ((1 << _ROW_BITS) - 1)).astype(np.int32)
    return Postings(terms[firsts], np.append(firsts, len(terms)), rows, weights)


def _entries(postings: Postings, rows: Ints) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The entries that stay, ascending by term and row, which are a number together."""
    terms = np.repeat(postings.terms.astype(np.int64), np.diff(postings.starts))
    moved = rows[postings.rows]
    kept = moved >= 0
    return (terms[kept] << _ROW_BITS) | moved[kept], postings.weights[kept]


def _symbols(old: SymbolTable, old_texts: Ints, new: SymbolTable, new_texts: Ints) -> SymbolTable:
    strings = old.strings.inserted([len(old.strings)] * len(new.strings), new.strings)
    added = Strings.of(name for name in new.folded if old.folded.find(name) is None)
    before = [old.folded.place(name) for name in added]
    folded_names = old.folded.inserted(before, added)
    own = np.arange(len(old.folded), dtype=np.int32)
    of_old = own + np.searchsorted(before, own, side="right").astype(np.int32)
    of_new = np.array([folded_names.find(name) for name in new.folded], np.int32)
    tables = (
        _columns(old, old_texts, 0, of_old),
        _columns(new, new_texts, len(old.strings), of_new),
    )
    places = np.searchsorted(tables[0][:, 0], tables[1][:, 0])
    columns = np.insert(tables[0], places, tables[1], axis=0)
    used, numbers = np.unique(columns[:, _STRINGS], return_inverse=True)
    columns[:, _STRINGS] = numbers.reshape(-1, 2)
    used_names, columns[:, _FOLDED] = np.unique(columns[:, _FOLDED], return_inverse=True)
    return SymbolTable.of(columns, strings.selected(used), folded_names.selected(used_names))


def _columns(table: SymbolTable, texts: Ints, first_string: int, of_folded: Ints) -> Ints:
    """The definitions that stay, as `SymbolTable.of` has them.

    ``first_string`` is the place of the table's strings, ``of_folded`` those of its folded names.
    """
    folded = np.empty(len(table.texts), np.int32)
    folded[table.by_name] = np.repeat(of_folded, np.diff(table.of_folded))
    columns = np.stack([
        texts[table.texts], table.names + first_string, table.kinds + first_string,
        table.starts, table.ends, table.depths, folded,
    ], axis=1)  # fmt: skip
    kept: Ints = columns[columns[:, 0] >= 0]
    return kept
