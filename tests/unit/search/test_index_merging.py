"""A merged index has the texts that are wanted, and reads again what cannot be taken over."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from codebase_mcp.search.index_merging import lacking, merged
from codebase_mcp.search.index_reading import _assemble, _Batch
from codebase_mcp.search.memory_index import MemoryIndex

# Of each text the words of its chunks, and its definition.
TEXTS = {
    10: ([(5, 1.0), (7, 2.0)], "alpha"),
    20: ([(7, 3.0)], "beta"),
    30: ([(5, 4.0)], "alpha"),
    40: ([(9, 5.0)], "gamma"),
}


def index_of(blob_ids: Sequence[int], vector: float = 1.0) -> MemoryIndex:
    """An index of texts with a chunk for each word."""
    words = [entry for blob_id in blob_ids for entry in TEXTS[blob_id][0]]
    terms = np.array([term for term, _ in words], np.int32)
    rows = np.arange(len(words), dtype=np.int32)
    weights = np.array([weight for _, weight in words], np.float32)
    none = np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32)
    symbols = [(each, TEXTS[each][1], TEXTS[each][1], "function", 1, 2, 0) for each in blob_ids]
    batch = _Batch(
        chunk_counts=np.array([len(TEXTS[blob_id][0]) for blob_id in blob_ids], np.int32),
        start_lines=rows + 1,
        end_lines=rows + 2,
        words=(terms, rows, weights),
        vectors=np.full((len(words), 2), vector, np.float32),
        comments=none,
        symbols=symbols,
    )
    version = ((1, UUID(int=len(blob_ids))),)
    return _assemble(version, 1, np.array(blob_ids, np.int64), [batch], [])


def counts(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(numbers, np.int32)


def test_a_text_is_read_again_that_is_new_or_cut_otherwise_or_lacks_a_vector() -> None:
    ids = np.array([10, 20, 40], np.int64)
    assert lacking(index_of([10, 20, 30]), ids, counts(2, 1, 1)).tolist() == [40]
    assert lacking(index_of([10, 20, 30]), ids, counts(2, 3, 1)).tolist() == [20, 40]
    assert lacking(index_of([10, 20], vector=0), ids, counts(2, 1, 1)).tolist() == [10, 20, 40]
    assert lacking(index_of([]), ids, counts(2, 1, 1)).tolist() == [10, 20, 40]


def test_a_merged_index_is_that_of_its_texts() -> None:
    old, new = index_of([10, 20, 30]), index_of([20, 40])
    wanted = np.array([10, 20, 40], np.int64)
    both = merged(old, new, wanted, new.files, new.file_names)
    whole = index_of([10, 20, 40])
    assert both.version == new.version
    for name in ("blob_ids", "first_chunks", "text_of", "vectors"):
        assert np.array_equal(getattr(both, name), getattr(whole, name)), name
    for name in ("terms", "starts", "rows", "weights"):
        assert np.array_equal(getattr(both.words, name), getattr(whole.words, name)), name
    for name in ("alpha", "beta", "gamma", "delta"):
        texts = both.symbols.texts[both.symbols.rows_of(name)]
        assert texts.tolist() == whole.symbols.texts[whole.symbols.rows_of(name)].tolist()
        told = [both.symbols.strings[number] for number in both.symbols.names.tolist()]
    assert told == ["alpha", "beta", "gamma"]
    without = merged(old, index_of([]), np.array([20, 30], np.int64), new.files, new.file_names)
    assert {*without.symbols.folded} == {"alpha", "beta"}
    none = merged(old, index_of([]), np.array([], np.int64), new.files, new.file_names)
    assert none.chunk_count == len(none.symbols.strings) == len(none.symbols.folded) == 0
