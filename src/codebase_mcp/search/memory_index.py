"""How are candidates found without the database? Pure: arrays in, rows out.

A memory index is a copy of some snapshots of a project, without texts: words with their weights,
vectors, file names and definitions. It gives the same results as the statements in ``search.sql``.
Scores are equal to the last bit, because numbers are rounded and added in the order of pgvector (as
compiled for processors with AVX and FMA). The nearest vectors are exact. An index never changes;
``version`` identifies the state of the snapshots that it copies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from itertools import chain
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.literals import VECTOR_DIGITS, WEIGHT_DIGITS
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
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import FileFilters, QueryVector, Scope, ScopeVersion
from codebase_mcp.text.tokens import ALL_CHUNKS, fold
from codebase_mcp.values import grouped

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

# The size of a chunk without its vector, measured over 14 projects of real code.
_CHUNK_BYTES = 900

# The cache of filter results is emptied when it has this many.
_MAX_CACHED_FILTERS = 50

# Gathering the vectors of some chunks takes this many times as long as multiplying them in place.
_GATHER_COST = 8

# Fast products, whose last digits depend on the order of the additions, select this many vectors
# more than the limit; then exact products order them.
_NEARLY_EQUAL = 16
_LANES = 8


class IndexedFile(NamedTuple):
    """A file of a snapshot; ``text`` is the position of its text."""

    snapshot_id: int
    repository_id: UUID
    path: str
    text: int
    language: str
    kind: str
    extension: str


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows with each term, and the weight of the term there.

    The rows with ``terms[i]`` are ``rows[starts[i]:starts[i + 1]]``, ascending.
    """

    terms: Ints
    starts: NDArray[np.int64]
    rows: Ints
    weights: Floats

    @classmethod
    def collect(cls, terms: Ints, rows: Ints, weights: Floats) -> Postings:
        """Group entries (term, row, weight) by term; rows ascend."""
        order = np.argsort(terms, kind="stable")
        ordered = terms[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        starts = np.append(firsts, len(ordered))
        return cls(ordered[firsts], starts, rows[order], weights[order])

    def spans(self, terms: Collection[int]) -> list[slice]:
        """The slice of entries of each term; empty for a term in no row."""
        if not len(self.terms):
            return [slice(0, 0)] * len(terms)
        numbers = np.fromiter(terms, np.int32, len(terms))
        positions = np.minimum(np.searchsorted(self.terms, numbers), len(self.terms) - 1)
        firsts = self.starts[positions]
        ends = np.where(self.terms[positions] == numbers, self.starts[positions + 1], firsts)
        return list(map(slice, firsts.tolist(), ends.tolist()))

    def rows_of(self, terms: Collection[int]) -> list[Ints]:
        """The rows with each term."""
        return [self.rows[span] for span in self.spans(terms)]

    def score(self, weights: Mapping[int, float], size: int) -> Floats:
        """The inner product of a sparse query with each of ``size`` rows, rounded as in pgvector.

        pgvector adds products by ascending terms, and rounds only after each addition.
        """
        scores = np.zeros(size, np.float32)
        ascending = dict(sorted(weights.items()))
        for span, weight in zip(self.spans(ascending), ascending.values(), strict=True):
            rows, sent = self.rows[span], np.float64(np.float32(round(weight, WEIGHT_DIGITS)))
            scores[rows] = sent * self.weights[span] + scores[rows]
        return scores


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """All definitions, in the order of their texts; strings are positions in ``strings``.

    ``of_folded`` gives the definitions of a folded name: a span of ``by_name``.
    """

    strings: list[str]
    texts: Ints
    names: Ints
    kinds: Ints
    starts: Ints
    ends: Ints
    depths: Ints
    by_name: Ints
    of_folded: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)  # without slots, because of the cached property
class MemoryIndex:
    """Some snapshots of a project as arrays.

    Texts are numbered in the order of their ids, chunks in the order of text and ordinal: those of
    text t are ``first_chunks[t]`` up to ``first_chunks[t + 1]``. ``comments`` and ``file_names``
    are by text and by file, ``words`` by chunk. ``vectors`` has a column for each chunk, with which
    a product with all of them takes half the time.
    """

    version: ScopeVersion
    blob_ids: NDArray[np.int64]
    first_chunks: Ints
    text_of: Ints
    start_lines: Ints
    end_lines: Ints
    vectors: Floats
    words: Postings
    comments: Postings
    file_names: Postings
    symbols: SymbolTable
    files: list[IndexedFile]
    _filtered: dict[FileFilters, tuple[Mask, Mask]] = field(default_factory=dict)

    @property
    def chunk_count(self) -> int:
        """The number of all chunks."""
        return len(self.text_of)

    @property
    def size_bytes(self) -> int:
        """Its approximate size in memory."""
        return index_bytes(self.chunk_count, len(self.vectors))

    @cached_property
    def files_of(self) -> Mapping[int, list[int]]:
        """The files of each text, by position."""
        return grouped((file.text, number) for number, file in enumerate(self.files))

    def frequencies(self, terms: Iterable[int]) -> dict[int, int]:
        """The number of chunks with each of these terms; without the terms that no chunk has."""
        numbers = list(terms)
        sizes = (span.stop - span.start for span in self.words.spans(numbers))
        counts = {term: size for term, size in zip(numbers, sizes, strict=True) if size}
        return counts | {ALL_CHUNKS: self.chunk_count} if ALL_CHUNKS in numbers else counts

    def filtered(self, filters: FileFilters) -> tuple[Mask | None, Mask | None]:
        """The files that pass the filters, and their texts, as masks; None if all pass."""
        if not filters.narrow:
            return None, None
        if filters not in self._filtered:
            if len(self._filtered) >= _MAX_CACHED_FILTERS:
                self._filtered.clear()
            passes = filters.test()
            tested = (
                passes(f.repository_id, f.path, f.extension, f.language, f.kind) for f in self.files
            )
            files = np.fromiter(tested, np.bool_, len(self.files))
            texts = np.zeros(len(self.blob_ids), np.bool_)
            texts[[self.files[number].text for number in np.flatnonzero(files).tolist()]] = True
            self._filtered[filters] = files, texts
        return self._filtered[filters]


def index_bytes(chunk_count: int, dimension: int) -> int:
    """The approximate size in memory of an index with this many chunks."""
    return chunk_count * (4 * dimension + _CHUNK_BYTES)


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
        sums = np.zeros(len(index.blob_ids), np.float64)
        np.add.at(sums, index.text_of, scores)
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
            for number in index.files_of.get(text, ()):
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
            texts.update(index.files[number].text for number in files[:FILES_PER_NAME].tolist())
        return {int(index.blob_ids[text]) for text in texts}

    def _defining(self, folded: str) -> Iterator[tuple[int, NamedDefinition]]:
        """The outermost definition of a name in each text, with the text's id, outermost first."""
        table = self._index.symbols
        first, last = table.of_folded.get(folded, (0, 0))
        rows = table.by_name[first:last]
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
