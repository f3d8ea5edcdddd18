"""How are candidates found without the database? Pure: arrays in, rows out.

The lists are those of the statements in ``search.sql``. Scores are equal to the last bit, because
numbers are rounded and added in the order of pgvector (as compiled for processors with AVX and
FMA). The nearest vectors are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import chain
from operator import add

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.literals import VECTOR_DIGITS
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.search.lists import (
    COUNT_LIMIT,
    DEFINITIONS,
    FILES_PER_NAME,
    MEANING_CHUNKS,
    WORD_CHUNKS,
    WORD_TEXTS,
    ChunkKey,
    Lists,
    ListSource,
    NamedDefinition,
    ScoredChunks,
)
from codebase_mcp.search.memory_index import Floats, Ints, Mask, MemoryIndex
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
            scored = self._holding(self.rare_expansion)
            scored[_intersection(self._index.words.rows_of(self.rare))] = True
        else:
            scored = self._holding({*self.rare, *self.rare_expansion})
        named = (self._defining(name.folded) for name in self.query.names)
        return Lists(
            words=self._best_by_words(scored),
            named_texts=self._named(),
            definitions=list(chain.from_iterable(named)),
            holders=[] if self.only_term is None else self._holders(self.only_term),
            meanings=[self._nearest(query.vector) for query in vectors],
            holding_count=self._holding_count(),
        )

    async def text_words(self) -> Sequence[Row]:
        index = self._index
        scores = index.words.score(self.idf, np.ones(index.chunk_count, np.bool_))
        sums = np.bincount(index.text_of, scores, len(index.blob_ids)).astype(np.float64)
        best = _highest(sums, WORD_TEXTS)
        best = best[sums[best] > 0]
        chunks = np.diff(index.first_chunks)[best]
        columns = index.blob_ids[best].tolist(), sums[best].tolist(), chunks.tolist()
        return list(zip(*columns, strict=True))

    async def files(self, texts: Collection[int]) -> Sequence[Row]:
        index, files = self._index, self._index.files
        asked = self._marked(texts)
        passing = asked[files.texts] if self._files is None else asked[files.texts] & self._files
        numbers = np.flatnonzero(passing)
        own = files.texts[numbers]
        columns = (
            files.snapshots[numbers].tolist(),
            files.paths.at(numbers),
            index.blob_ids[own].tolist(),
            files.labelled(files.languages[numbers]),
            files.labelled(files.kinds[numbers]),
            (index.first_chunks[own + 1] - index.first_chunks[own]).tolist(),
            index.comments.score(self.idf, asked)[own].tolist(),
        )
        return list(zip(*columns, strict=True))

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        index, table = self._index, self._index.symbols
        asked = self._marked(texts)
        rows = np.flatnonzero(asked[table.texts])
        numbers, places = np.unique(table.names[rows], return_inverse=True)
        names = table.strings.at(numbers)
        fits = [any(stem in folded for stem in stems) for folded in map(fold, names)]
        fitting = np.flatnonzero(np.array(fits, np.bool_)[places])
        blob_ids = index.blob_ids[table.texts[rows[fitting]]].tolist()
        found = zip(blob_ids, places[fitting].tolist(), strict=True)
        return {(blob_id, names[place]) for blob_id, place in found}

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

    def _best_by_words(self, scored: Mask) -> ScoredChunks:
        """The best of some chunks by words, those that pass the filters."""
        words, chunks = self._index.words, self._passing(scored)
        own = words.score(self.idf, scored)[chunks].astype(np.float64)
        expansion = words.score(self.expansion, scored)[chunks].astype(np.float64)
        best = np.sort(_highest(own + expansion, WORD_CHUNKS))
        return ScoredChunks(*self._keys(chunks[best]), own[best], expansion[best])

    def _holding(self, terms: Collection[int]) -> Mask:
        """Which chunks have any of some terms."""
        marked = np.zeros(self._index.chunk_count, np.bool_)
        for rows in self._index.words.rows_of(terms):
            marked[rows] = True
        return marked

    def _holding_count(self) -> int:
        most = max(map(len, self._index.words.rows_of(self.matching_terms)), default=0)
        if self._texts is None and most > COUNT_LIMIT:
            return most
        return len(self._passing(self._holding(self.matching_terms)))

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
        blob_ids, ordinals = self._keys(near[best])
        columns = blob_ids.tolist(), ordinals.tolist(), (-products[best]).tolist()
        return list(zip(*columns, strict=True))

    def _named(self) -> set[int]:
        """The ids of texts of files whose name has all words of a group."""
        index, texts = self._index, set[int]()
        terms = list(dict.fromkeys(chain.from_iterable(self.name_groups)))
        rows_of = dict(zip(terms, index.file_names.rows_of(terms), strict=True))
        for group in self.name_groups:
            files = _intersection([rows_of[term] for term in group])
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
        if not len(rows):  # as of most names
            return
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

    def _marked(self, blob_ids: Collection[int]) -> Mask:
        """Which texts have some ids."""
        own, asked = self._index.blob_ids, np.fromiter(blob_ids, np.int64, len(blob_ids))
        places = np.minimum(np.searchsorted(own, asked), len(own) - 1)
        marked = np.zeros(len(own), np.bool_)
        marked[places[own[places] == asked]] = True
        return marked

    def _passing(self, marked: Mask) -> Ints:
        """The marked chunks that pass the filters, ascending."""
        chunks = np.flatnonzero(marked).astype(np.int32)
        return chunks if self._texts is None else chunks[self._texts[self._index.text_of[chunks]]]

    def _keys(
        self, chunks: NDArray[np.int32 | np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The text ids and the ordinals of some chunks."""
        texts = self._index.text_of[chunks]
        ordinals = chunks.astype(np.int64) - self._index.first_chunks[texts]
        return self._index.blob_ids[texts], ordinals

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
    sent = np.round(vector.astype(np.float64), VECTOR_DIGITS)
    return sent.astype(np.float16).astype(np.float32)


def _products(query: Floats, vectors: Floats) -> Floats:
    """The inner products of a query and some columns, added in pgvector's order.

    Eight sums, each of every eighth product, are added by halves."""
    whole = len(query) // _LANES * _LANES
    products = (query[:whole, None] * vectors[:whole]).reshape(
        whole // _LANES, _LANES, vectors.shape[1]
    )
    sums: Floats = reduce(add, products, np.zeros(products.shape[1:], np.float32))
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
