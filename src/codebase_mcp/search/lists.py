"""What do the candidate lists look like, and where can they come from?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Protocol

import numpy as np

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.evidence import Definition
from codebase_mcp.search.fusion import ChunkKey
from codebase_mcp.search.memory_index import MemoryIndex
from codebase_mcp.search.query import (
    COMMON_CHUNKS,
    Query,
    matching_terms,
    name_stems,
    rare_only_term,
    rarest_expansion_terms,
    rarest_terms,
)
from codebase_mcp.search.scope import QueryVector, Scope
from codebase_mcp.text.tokens import term_id

# The lengths of the lists: chunks by words and by meaning, files for each word of the query,
# definitions for each name.
WORD_CHUNKS = 1_000
MEANING_CHUNKS = 150
FILES_PER_NAME = 6
DEFINITIONS = 12

# Matching chunks are counted up to here.
COUNT_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Lists:
    """What each list found.

    ``words``: blob id, ordinal, distance by the query's own terms, distance by expansion terms;
    best first. ``named_texts``: texts of files whose name holds a word of the query.
    ``definitions``: what the query names, with the ids of the texts. ``holders``: texts that hold
    the query's only word, if that is rare. ``meanings``: for each model blob id, ordinal, distance;
    nearest first. ``holding_count``: how many chunks hold one of `matching_terms`; beyond
    `COUNT_LIMIT` perhaps more.
    """

    words: Sequence[Row]
    named_texts: set[int]
    definitions: Sequence[tuple[int, Definition]]
    holders: Sequence[int]
    meanings: Sequence[Sequence[Row]]
    holding_count: int


class ListSource(Protocol):
    """Where the lists of one search come from."""

    async def find(
        self, query: Query, idf: Mapping[int, float], vectors: Sequence[QueryVector]
    ) -> Lists:
        """All lists; ``idf`` is the inverse document frequency of each term of the query."""
        ...

    async def files(self, texts: Collection[int], idf: Mapping[int, float]) -> Sequence[Row]:
        """The files in scope that have these texts, with the score of their comments."""
        ...

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        """Names of definitions in these texts, with the text's id: all that hold any of the stems,
        without regard to case and underscores."""
        ...

    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        """Which of some terms a chunk holds."""
        ...

    async def cosines(
        self, wanted: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> Sequence[Sequence[Row]]:
        """The distances of given chunks, for each model: blob id, ordinal, distance."""
        ...


def name_groups(query: Query) -> list[tuple[int, ...]]:
    """Each word of the query, and each pair of neighbours, as terms of file names."""
    terms = [term_id(stem) for stem in name_stems(query)]
    return [(term,) for term in dict.fromkeys(terms)] + list(pairwise(terms))


class MemoryLists:
    """The candidate lists of one search, from a memory index."""

    def __init__(self, index: MemoryIndex, scope: Scope) -> None:
        self._index = index
        self._scope = scope

    async def find(
        self, query: Query, idf: Mapping[int, float], vectors: Sequence[QueryVector]
    ) -> Lists:
        """All lists."""
        index, filters = self._index, self._scope.filters
        defined = (index.defining(one.folded, filters, DEFINITIONS) for one in query.names)
        return Lists(
            self._words(query, idf),
            index.named(name_groups(query), filters, FILES_PER_NAME),
            list(chain.from_iterable(defined)),
            self._holders(query),
            [index.nearest(one.vector, filters, MEANING_CHUNKS) for one in vectors],
            index.holding_count(matching_terms(query), filters),
        )

    async def files(self, texts: Collection[int], idf: Mapping[int, float]) -> Sequence[Row]:
        """The files in scope that pass the filters and have these texts."""
        return list(self._index.files_of_texts(texts, idf, self._scope.filters))

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        """Names of definitions in these texts that hold any of the stems."""
        return self._index.defined_names(texts, stems)

    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        """Which of some terms a chunk holds."""
        return self._index.held_terms(chunk, terms)

    async def cosines(
        self, wanted: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> Sequence[Sequence[Row]]:
        """The distances of given chunks; a memory index has the vectors of one model alone."""
        return [list(self._index.distances(query.vector, chunks)) for query, chunks in wanted]

    def _words(self, query: Query, idf: Mapping[int, float]) -> Sequence[Row]:
        index, scope = self._index, self._scope
        rare, together = rarest_terms(query, scope.frequencies)
        expansion = rarest_expansion_terms(scope.expansion, scope.frequencies)
        if together and not scope.is_narrow:
            chunks = np.union1d(index.holding(rare, together=True), index.holding(expansion))
        else:
            chunks = index.holding({*rare, *expansion})
        return index.matching(idf, scope.expansion_weights(), chunks, scope.filters, WORD_CHUNKS)

    def _holders(self, query: Query) -> Sequence[int]:
        term = rare_only_term(query, self._scope.frequencies)
        return [] if term is None else self._index.holders(term)


_SQL = load_queries("codebase_mcp.search", "search.sql")


class DatabaseLists:
    """The candidate lists of one search, by statements in its transaction."""

    def __init__(self, tx: Transaction, scope: Scope) -> None:
        self._tx = tx
        self._scope = scope
        self._parameters = scope.parameters()

    async def find(
        self, query: Query, idf: Mapping[int, float], vectors: Sequence[QueryVector]
    ) -> Lists:
        """All lists, in one round trip."""
        scope, parameters = self._scope, self._parameters
        groups = [array_literal(group) for group in name_groups(query)]
        folded = [name.folded for name in query.names]
        words, [(holding_count,)], named_texts, symbols, *others = await self._tx.fetch_many(
            [
                _words_statement(query, idf, scope, parameters),
                _holding_count_statement(query, scope, parameters),
                (_SQL["names"], {"groups": groups, "limit": FILES_PER_NAME, **parameters}),
                (_SQL["symbols"], {"names": folded, "limit": DEFINITIONS, **parameters}),
                *_holders_statement(query, scope),
                *(_meaning_statement(vector, scope, parameters) for vector in vectors),
            ]
        )
        holders = others.pop(0) if len(others) > len(vectors) else []
        return Lists(
            words,
            {blob_id for (blob_id,) in named_texts},
            [(blob_id, Definition(*definition)) for blob_id, *definition in symbols],
            [blob_id for (blob_id,) in holders],
            others,
            holding_count,
        )

    async def files(self, texts: Collection[int], idf: Mapping[int, float]) -> Sequence[Row]:
        """The files in scope that pass the filters and have these texts."""
        bound = {"query": sparse_literal(idf), "blobs": array_literal(texts), **self._parameters}
        return await self._tx.fetch_all(_SQL["files"], **bound)

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        """Names of definitions in these texts that hold any of the stems."""
        bound = {"blobs": array_literal(texts), "stems": list(stems)}
        return await self._tx.fetch_all(_SQL["defined_names"], **bound)

    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        """Which of some terms a chunk holds."""
        blob_id, ordinal = chunk
        bound = {"blob_id": blob_id, "ordinal": ordinal, "terms": array_literal(terms)}
        return [term for (term,) in await self._tx.fetch_all(_SQL["held_terms"], **bound)]

    async def cosines(
        self, wanted: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> list[list[Row]]:
        """The distances of given chunks, for each model."""
        return await self._tx.fetch_many([_cosine_statement(*one) for one in wanted])


def _holding_count_statement(
    query: Query, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    bound = {"terms": array_literal(matching_terms(query)), "most": COUNT_LIMIT + 1}
    if scope.texts is not None:
        return _SQL["holding_count_in_texts"], {**bound, "texts": scope.texts}
    if scope.is_narrow:
        return _SQL["holding_count_filtered"], {**bound, **parameters}
    return _SQL["holding_count"], {**bound, "hidden": scope.hidden}


def _holders_statement(query: Query, scope: Scope) -> list[tuple[Any, dict[str, Any]]]:
    """Which texts hold the query's only word, if it is rare enough to be in one text alone."""
    term = rare_only_term(query, scope.frequencies)
    if term is None:
        return []
    return [(_SQL["holders"], {"term": term, "all_snapshots": array_literal(scope.all_snapshots)})]


def _cosine_statement(query: QueryVector, chunks: Iterable[ChunkKey]) -> tuple[Any, dict[str, Any]]:
    wanted = list(chunks)
    bound = {
        "vector": dense_literal(query.vector),
        "blobs": array_literal(blob_id for blob_id, _ in wanted),
        "ordinals": array_literal(ordinal for _, ordinal in wanted),
    }
    return write_numbers(_SQL["cosines"], profile_id=query.profile.id), bound


def _words_statement(
    query: Query, idf: Mapping[int, float], scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    rare, together = rarest_terms(query, scope.frequencies)
    expansion = rarest_expansion_terms(scope.expansion, scope.frequencies)
    bound = {
        "query": sparse_literal(idf),
        "expansion": sparse_literal(scope.expansion_weights()),
        "rare": array_literal(rare if together else {*rare, *expansion}),
        "limit": WORD_CHUNKS,
    }
    if scope.texts is not None:
        every = array_literal({*rare, *expansion})
        return _SQL["words_in_texts"], {**bound, "rare": every, "texts": scope.texts}
    name = "common_words" if together else "words"
    if together:
        bound |= {
            "rare_expansion": array_literal(expansion),
            "bound": COMMON_CHUNKS,
        }
    if scope.is_narrow:
        return _SQL[f"{name}_filtered"], {**bound, **parameters}
    return _SQL[name], {**bound, "hidden": scope.hidden}


def _meaning_statement(
    query: QueryVector, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    bound = {"vector": dense_literal(query.vector), "limit": MEANING_CHUNKS}
    numbers = {"profile_id": query.profile.id}
    if scope.texts is not None:
        statement = _SQL["meaning_in_texts"]
        return write_numbers(statement, **numbers), {**bound, "texts": scope.texts}
    name = "meaning"
    sealed = scope.sealed.get(query.profile.id)
    if sealed is not None:
        name = "meaning_sealed"
        numbers |= {"dimension": len(query.vector), "sealed": sealed}
    if scope.is_narrow:
        return write_numbers(_SQL[f"{name}_filtered"], **numbers), {**bound, **parameters}
    return write_numbers(_SQL[name], **numbers), {**bound, "hidden": scope.hidden}
