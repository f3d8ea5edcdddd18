"""How are candidates found without the database? Pure: arrays in, rows out.

The lists are those of the statements in ``search.sql``. Scores are equal to the last bit, because
numbers are rounded and added in the order of pgvector (as compiled for processors with AVX and
FMA). The nearest vectors are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from operator import add, itemgetter

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
from codebase_mcp.search.scope import FileFilters, QueryVector, Scope
from codebase_mcp.search.segments import Segments
from codebase_mcp.text.tokens import fold
from codebase_mcp.values import grouped

# Gathering the vectors of some chunks takes this many times as long as multiplying them in place.
_GATHER_COST = 8

# Fast products, whose last digits depend on the order of the additions, select this many vectors
# more than the limit; then exact products order them.
_NEARLY_EQUAL = 16
_LANES = 8


class MemoryLists(ListSource):
    """The candidate lists from memory indexes, which have the vectors of a single model."""

    def __init__(self, segments: Segments, query: Query, scope: Scope) -> None:
        super().__init__(query, scope)
        self._segments = segments
        self._parts = [_Part(self, index) for index in segments.all]

    async def find(self, vectors: Sequence[QueryVector]) -> Lists:
        parts, only_term = self._parts, self.only_term
        definitions = (self._defining(name.folded) for name in self.query.names)
        holders = () if only_term is None else (part.holders(only_term) for part in parts)
        return Lists(
            words=_best_words([part.best_by_words() for part in parts]),
            named_texts=self._named(),
            definitions=list(chain.from_iterable(definitions)),
            holders=list(chain.from_iterable(holders)),
            meanings=[self._nearest(query.vector) for query in vectors],
            holding_count=sum(part.holding_count() for part in parts),
        )

    async def text_words(self) -> Sequence[Row]:
        rows = chain.from_iterable(part.text_words() for part in self._parts)
        return sorted(rows, key=lambda row: (-row[1], row[0]))[:WORD_TEXTS]

    async def files(self, texts: Collection[int]) -> Sequence[Row]:
        return list(chain.from_iterable(part.files(texts) for part in self._parts))

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        names = (part.defined_names(texts, stems) for part in self._parts)
        return set(chain.from_iterable(names))

    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        return self._parts[self._segments.place_of(chunk[0])].held_terms(chunk, terms)

    async def cosines(
        self, compared: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> Sequence[Sequence[Row]]:
        place_of, rows_of = self._segments.place_of, list[list[Row]]()
        for query, chunks in compared:
            by_place = grouped((place_of(chunk[0]), chunk) for chunk in chunks)
            rows = (self._parts[at].distances(query.vector, own) for at, own in by_place.items())
            rows_of.append(list(chain.from_iterable(rows)))
        return rows_of

    def _nearest(self, vector: Vectors) -> list[Row]:
        """The chunks nearest to a vector."""
        rows = chain.from_iterable(part.nearest(vector) for part in self._parts)
        return sorted(rows, key=itemgetter(2, 0, 1))[:MEANING_CHUNKS]

    def _named(self) -> set[int]:
        """The ids of the texts of the first files whose name has all words of a group."""
        of_parts = [part.named(self.name_groups) for part in self._parts]
        return {
            blob_id
            for files in zip(*of_parts, strict=True)
            for _, blob_id in sorted(chain.from_iterable(files))[:FILES_PER_NAME]
        }

    def _defining(self, folded: str) -> list[tuple[int, NamedDefinition]]:
        """The outermost definition of a name in each text, with the text's id, outermost first."""
        found = [own for part in self._parts if (own := list(part.defining(folded)))]
        if len(found) < 2:
            return found[0] if found else []
        definers = sum(own[0][1].definers for own in found)
        every = sorted(chain.from_iterable(found), key=lambda each: (each[1].depth, each[0]))
        return [
            (blob_id, replace(definition, definers=definers))
            for blob_id, definition in every[:DEFINITIONS]
        ]


class _Part:
    """What one of the indexes has for the lists."""

    def __init__(self, source: ListSource, index: MemoryIndex) -> None:
        self._source = source
        self._index = index
        self._files, self._texts = index.filtered(source.scope.filters)

    def best_by_words(self) -> ScoredChunks:
        """The chunks with the best scores by words, of those with a rare term."""
        source, words = self._source, self._index.words
        if source.together and not source.scope.is_narrow:
            scored = self._holding(source.rare_expansion)
            scored[_intersection(words.rows_of(source.rare))] = True
        else:
            scored = self._holding({*source.rare, *source.rare_expansion})
        chunks = self._passing(scored)
        own = words.score(source.idf, scored)[chunks].astype(np.float64)
        expansion = words.score(source.expansion, scored)[chunks].astype(np.float64)
        best = np.sort(_highest(own + expansion, WORD_CHUNKS))
        return ScoredChunks(*self._keys(chunks[best]), own[best], expansion[best])

    def text_words(self) -> list[Row]:
        """The columns of `ListSource.text_words`, the highest scores first."""
        index = self._index
        among = np.ones(index.chunk_count, np.bool_)
        if self._texts is not None:
            among = self._texts[index.text_of]
        scores = index.words.score(self._source.idf, among)
        sums = np.bincount(index.text_of, scores, len(index.blob_ids)).astype(np.float64)
        best = _highest(sums, WORD_TEXTS)
        best = best[sums[best] > 0]
        chunks = np.diff(index.first_chunks)[best]
        columns = index.blob_ids[best].tolist(), sums[best].tolist(), chunks.tolist()
        return list(zip(*columns, strict=True))

    def files(self, texts: Collection[int]) -> list[Row]:
        """The columns of `ListSource.files`."""
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
            index.comments.score(self._source.idf, asked)[own].tolist(),
        )
        return list(zip(*columns, strict=True))

    def defined_names(self, texts: Collection[int], stems: Collection[str]) -> set[tuple[int, str]]:
        """The same as `ListSource.defined_names`."""
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

    def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> list[int]:
        """The given terms that a chunk has."""
        number = self._number(chunk)
        both = np.array([number, number + 1], np.int32)
        lists = zip(terms, self._index.words.rows_of(terms), strict=True)
        return [term for term, rows in lists if np.diff(np.searchsorted(rows, both))]

    def distances(self, vector: Vectors, chunks: Sequence[ChunkKey]) -> list[Row]:
        """Some chunks with their distances."""
        numbers = np.fromiter(map(self._number, chunks), np.int64, len(chunks))
        products = _products(_rounded(vector), self._index.vectors[:, numbers]).tolist()
        return [(*chunk, -product) for chunk, product in zip(chunks, products, strict=True)]

    def holding_count(self) -> int:
        """The number of chunks that match; beyond `COUNT_LIMIT` it is a lower bound."""
        terms = self._source.matching_terms
        most = max(map(len, self._index.words.rows_of(terms)), default=0)
        if self._texts is None and most > COUNT_LIMIT:
            return most
        return len(self._passing(self._holding(terms)))

    def holders(self, term: int) -> list[int]:
        """The ids of the texts with a term, whether they pass the filters or not."""
        index = self._index
        [chunks] = index.words.rows_of([term])
        _, shown = index.filtered(FileFilters())
        texts = np.unique(index.text_of[chunks])
        holders: list[int] = index.blob_ids[
            texts if shown is None else texts[shown[texts]]
        ].tolist()
        return holders

    def nearest(self, vector: Vectors) -> list[Row]:
        """The chunks nearest to a vector, with their distances."""
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

    def named(self, groups: Sequence[Collection[int]]) -> list[list[tuple[str, int]]]:
        """For each group the paths and texts of the first files whose name has all of its words."""
        index = self._index
        terms = list(dict.fromkeys(chain.from_iterable(groups)))
        rows_of = dict(zip(terms, index.file_names.rows_of(terms), strict=True))
        named = []
        for group in groups:
            files = _intersection([rows_of[term] for term in group])
            if self._files is not None:
                files = files[self._files[files]]
            first = files[:FILES_PER_NAME]
            blob_ids = index.blob_ids[index.files.texts[first]].tolist()
            named.append(list(zip(index.files.paths.at(first), blob_ids, strict=True)))
        return named

    def defining(self, folded: str) -> Iterator[tuple[int, NamedDefinition]]:
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

    def _holding(self, terms: Collection[int]) -> Mask:
        """Which chunks have any of some terms."""
        marked = np.zeros(self._index.chunk_count, np.bool_)
        for rows in self._index.words.rows_of(terms):
            marked[rows] = True
        return marked

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


def _best_words(parts: Sequence[ScoredChunks]) -> ScoredChunks:
    """The best chunks of all parts."""
    if len(parts) == 1:
        return parts[0]
    columns = [
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("blob_ids", "ordinals", "own", "expansion")
    ]
    blob_ids, ordinals, own, expansion = columns
    order = np.lexsort((ordinals, blob_ids))
    best = order[np.sort(_highest((own + expansion)[order], WORD_CHUNKS))]
    return ScoredChunks(*(column[best] for column in columns))


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
