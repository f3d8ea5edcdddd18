"""What do the candidate lists hold? Read from a memory index, as ``database_lists.py`` does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from codebase_mcp.database.transaction import Row
from codebase_mcp.search.fusion import ChunkKey
from codebase_mcp.search.lists import (
    DEFINITIONS,
    FILES_PER_NAME,
    MEANING_CHUNKS,
    WORD_CHUNKS,
    Lists,
    name_groups,
)
from codebase_mcp.search.memory_index import MemoryIndex
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import QueryVector, Scope
from codebase_mcp.search.terms import (
    matching_terms,
    rare_only_term,
    rarest_expansion_terms,
    rarest_terms,
)


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
