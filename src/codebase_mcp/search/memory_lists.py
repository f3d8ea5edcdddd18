"""How are candidates found without the database? Pure: arrays in, rows out.

The lists are those of the statements in ``search.sql``. Scores are equal to the last bit, because
numbers are rounded and added in the order of pgvector (as compiled for processors with AVX and
FMA). The nearest vectors are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.literals import VECTOR_DIGITS
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.search.lists import (
    DEFINITIONS,
    FILES_PER_NAME,
    MEANING_CHUNKS,
    WORD_CHUNKS,
    WORD_TEXTS,
    ChunkKey,
    Lists,
    ListSource,
    NamedDefinition,
)
from codebase_mcp.search.memory_index import Floats, Ints, MemoryIndex
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import QueryVector, Scope
from codebase_mcp.text.tokens import fold

# Gathering the vectors of some chunks takes this many times as long as multiplying them in place.
_GATHER_COST = 8

# Fast products, whose last digits depend on the order of the additions, select this many vectors
# more than the limit; then exact products order them.
_NEARLY_EQUAL = 16
_LANES = 8


class MemoryLists(ListSource):
    """The candidate lists from a memory index, which has the vectors of a single model."""

    def __init__(self, index: MemoryIndex, query: Query, scope: Scope) -> None:
        super().__init__(query, scope)
        self._index = index
        self._files, self._texts = index.filtered(scope.filters)

    async def find(self, vectors: Sequence[QueryVector]) -> Lists:
        if self.together and not self.scope.is_narrow:
            both = _intersection(self._index.words.rows_of(self.rare))
            chunks = np.union1d(both, self._holding(self.rare_expansion))
        else:
            chunks = self._holding({*self.rare, *self.rare_expansion})
        named = (self._defining(name.folded) for name in self.query.names)
        return Lists(
            words=self._best_by_words(self._passing(chunks)),
            named_texts=self._named(),
            definitions=list(chain.from_iterable(named)),
            holders=[] if self.only_term is None else self._holders(self.only_term),
            meanings=[self._nearest(query.vector) for query in vectors],
            holding_count=len(self._passing(self._holding(self.matching_terms))),
        )

    async def text_words(self) -> Sequence[Row]:
        index = self._index
        scores = index.words.score(self.idf, index.chunk_count)
        sums = np.bincount(index.text_of, scores, len(index.blob_ids)).astype(np.float64)
        best = _highest(sums, WORD_TEXTS)
        best = best[sums[best] > 0]
        chunks = np.diff(index.first_chunks)[best]
        columns = index.blob_ids[best].tolist(), sums[best].tolist(), chunks.tolist()
        return list(zip(*columns, strict=True))

    async def files(self, texts: Collection[int]) -> Sequence[Row]:
        index, rows = self._index, list[Row]()
        comments = index.comments.score(self.idf, len(index.blob_ids))
        blob_ids = list(texts)
        positions = np.searchsorted(index.blob_ids, np.array(blob_ids, np.int64)).tolist()
        for blob_id, text in zip(blob_ids, positions, strict=True):
            chunks = int(index.first_chunks[text + 1] - index.first_chunks[text])
            for number in index.files.with_text(text):
                if self._files is None or self._files[number]:
                    file = index.files[number]
                    columns = file.snapshot_id, file.path, blob_id, file.language, file.kind
                    rows.append((*columns, chunks, float(comments[text])))
        return rows

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        table, names = self._index.symbols, []
        blob_ids = np.fromiter(texts, np.int64, len(texts))
        positions = np.searchsorted(self._index.blob_ids, blob_ids)
        starts = np.searchsorted(table.texts, positions).tolist()
        ends = np.searchsorted(table.texts, positions, side="right").tolist()
        for blob_id, start, end in zip(blob_ids.tolist(), starts, ends, strict=True):
            for number in set(table.names[start:end].tolist()):
                folded = fold(name := table.strings[number])
                if any(stem in folded for stem in stems):
                    names.append((blob_id, name))
        return names

    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        number = self._number(chunk)
        both = np.array([number, number + 1], np.int32)
        lists = zip(terms, self._index.words.rows_of(terms), strict=True)
        return [term for term, rows in lists if np.diff(np.searchsorted(rows, both))]

    async def cosines(
        self, compared: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> Sequence[Sequence[Row]]:
        distances = []
        for query, chunks in compared:
            keys = list(chunks)
            numbers = np.fromiter(map(self._number, keys), np.int64, len(keys))
            products = _products(_rounded(query.vector), self._index.vectors[:, numbers])
            distances.append(
                [(*key, -product) for key, product in zip(keys, products.tolist(), strict=True)]
            )
        return distances

    def _best_by_words(self, chunks: Ints) -> list[Row]:
        """The best of some chunks by words."""
        words, size = self._index.words, self._index.chunk_count
        own = words.score(self.idf, size)[chunks]
        by_expansion = words.score(self.expansion, size)[chunks]
        best = _highest(own.astype(np.float64) + by_expansion, WORD_CHUNKS)
        distances = (-own[best]).tolist(), (-by_expansion[best]).tolist()
        return list(zip(*self._keys(chunks[best]), *distances, strict=True))

    def _holding(self, terms: Collection[int]) -> Ints:
        """The chunks with any of some terms, ascending."""
        marked = np.zeros(self._index.chunk_count, np.bool_)
        for rows in self._index.words.rows_of(terms):
            marked[rows] = True
        return np.flatnonzero(marked).astype(np.int32)

    def _holders(self, term: int) -> list[int]:
        """The ids of the texts with a term."""
        [chunks] = self._index.words.rows_of([term])
        texts = np.unique(self._index.text_of[chunks])
        holders: list[int] = self._index.blob_ids[texts].tolist()
        return holders

    def _nearest(self, vector: Vectors) -> list[Row]:
        """The chunks nearest to a vector."""
        index, query, limit = self._index, _rounded(vector), MEANING_CHUNKS + _NEARLY_EQUAL
        if self._texts is None:
            near = _highest(query @ index.vectors, limit)
        else:
            chunks = np.flatnonzero(self._texts[index.text_of])
            are_few = len(chunks) * _GATHER_COST < index.chunk_count
            products = (
                query @ index.vectors[:, chunks] if are_few else (query @ index.vectors)[chunks]
            )
            near = chunks[_highest(products, limit)]
        near.sort()
        products = _products(query, index.vectors[:, near])
        best = _highest(products, MEANING_CHUNKS)
        return list(zip(*self._keys(near[best]), (-products[best]).tolist(), strict=True))

    def _named(self) -> set[int]:
        """The ids of texts of files whose name has all words of a group."""
        index, texts = self._index, set[int]()
        for group in self.name_groups:
            files = _intersection(index.file_names.rows_of(group))
            if self._files is not None:
                files = files[self._files[files]]
            texts.update(index.files.texts[files[:FILES_PER_NAME]].tolist())
        return set(index.blob_ids[list(texts)].tolist())

    def _defining(self, folded: str) -> Iterator[tuple[int, NamedDefinition]]:
        """The outermost definition of a name in each text, with the text's id, outermost first."""
        table = self._index.symbols
        rows = table.rows_of(folded)
        if self._texts is not None:
            rows = rows[self._texts[table.texts[rows]]]
        rows = rows[np.lexsort((table.starts[rows], table.depths[rows], table.texts[rows]))]
        outermost = rows[np.diff(table.texts[rows], prepend=-1) != 0]
        order = np.lexsort((table.texts[outermost], table.depths[outermost]))[:DEFINITIONS]
        for number in outermost[order].tolist():
            text, line = int(table.texts[number]), int(table.starts[number])
            definition = NamedDefinition(
                folded=folded,
                name=table.strings[table.names[number]],
                kind=table.strings[table.kinds[number]],
                start_line=line,
                end_line=int(table.ends[number]),
                depth=int(table.depths[number]),
                definers=len(outermost),
                ordinal=self._chunk_at(text, line),
            )
            yield int(self._index.blob_ids[text]), definition

    def _passing(self, chunks: Ints) -> Ints:
        return chunks if self._texts is None else chunks[self._texts[self._index.text_of[chunks]]]

    def _keys(self, chunks: NDArray[np.int32 | np.int64]) -> tuple[list[int], list[int]]:
        """The text ids and the ordinals of some chunks."""
        texts = self._index.text_of[chunks]
        ordinals = chunks - self._index.first_chunks[texts]
        return self._index.blob_ids[texts].tolist(), ordinals.tolist()

    def _number(self, chunk: ChunkKey) -> int:
        """The number of a chunk, given its text's id and its ordinal."""
        blob_id, ordinal = chunk
        text = np.searchsorted(self._index.blob_ids, blob_id)
        return int(self._index.first_chunks[text]) + ordinal

    def _chunk_at(self, text: int, line: int) -> int | None:
        """The ordinal of the chunk of a text with a line."""
        index = self._index
        chunks = slice(int(index.first_chunks[text]), int(index.first_chunks[text + 1]))
        starts, ends = index.start_lines[chunks], index.end_lines[chunks]
        holding = np.flatnonzero((starts <= line) & (line <= ends))
        return int(holding[0]) if len(holding) else None


def _intersection(lists: Sequence[Ints]) -> Ints:
    """The rows in all of the lists, of which there is at least one."""
    return reduce(partial(np.intersect1d, assume_unique=True), lists)


def _rounded(vector: Vectors) -> Floats:
    """A query's vector as the database compares it."""
    sent = [round(number, VECTOR_DIGITS) for number in vector.tolist()]
    return np.array(sent, np.float16).astype(np.float32)


def _products(query: Floats, vectors: Floats) -> Floats:
    """The inner products of a query and some columns, added in pgvector's order.

    Eight sums, each of every eighth product, are added by halves."""
    whole = len(query) // _LANES * _LANES
    sums: Floats = np.zeros((_LANES, vectors.shape[1]), np.float32)
    for first in range(0, whole, _LANES):
        lanes = slice(first, first + _LANES)
        sums += query[lanes, None] * vectors[lanes]
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    total: Floats = sums[0]
    for addend in query[whole:, None] * vectors[whole:]:
        total += addend
    return total


def _highest(scores: Floats | NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The positions of the highest scores, the highest first; equal scores keep their order."""
    if len(scores) <= most:
        return np.argsort(-scores, kind="stable")
    bound = np.partition(scores, -most)[-most]
    kept = np.flatnonzero(scores >= bound)
    return kept[np.argsort(-scores[kept], kind="stable")][:most]
