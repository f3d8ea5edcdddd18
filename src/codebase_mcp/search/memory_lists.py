"""What do the candidate lists hold? Asked of a memory index, as ``database_lists.py`` asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from codebase_mcp.database.transaction import Row
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
from codebase_mcp.search.scope import Asked, Scope
from codebase_mcp.search.terms import (
    HOLDING_CHUNKS,
    inverse_frequencies,
    lent_terms,
    rarest_terms,
)


class MemoryLists:
    """The candidate lists of one search, out of a memory index."""

    def __init__(self, index: MemoryIndex, scope: Scope) -> None:
        self._index = index
        self._scope = scope

    async def find(
        self, query: Query, idf: Mapping[int, float], asked_of: Sequence[Asked]
    ) -> Lists:
        """All lists."""
        index, filters = self._index, self._scope.filters
        defined = (index.defining(one.folded, filters, DEFINITIONS) for one in query.names)
        return Lists(
            self._words(query, idf),
            index.named(name_groups(query), filters, FILES_PER_NAME),
            list(chain.from_iterable(defined)),
            self._holders(query),
            [index.nearest(asked.vector, filters, MEANING_CHUNKS) for asked in asked_of],
        )

    async def files(self, texts: Collection[int], idf: Mapping[int, float]) -> Sequence[Row]:
        """The files, in scope and past the filters, that show these texts."""
        return list(self._index.files_of_texts(texts, idf, self._scope.filters))

    async def cosines(
        self, wanted: Sequence[tuple[Asked, Iterable[tuple[int, int]]]]
    ) -> Sequence[Sequence[Row]]:
        """Never asked: a project with a secondary model is searched in the database."""
        return [[] for _ in wanted]

    def _words(self, query: Query, idf: Mapping[int, float]) -> Sequence[Row]:
        index, scope = self._index, self._scope
        rare, together = rarest_terms(query, scope.frequencies)
        lent = lent_terms(scope.lent, scope.frequencies)
        if together and not scope.filters.narrow:
            picked = np.union1d(index.holding(rare, together=True), index.holding(lent))
        else:
            picked = index.holding({*rare, *lent})
        rarity = inverse_frequencies(scope.lent, scope.frequencies)
        expansion = {term: scope.lent[term] * rarity[term] for term in rarity}
        return index.matching(idf, expansion, picked, scope.filters, WORD_CHUNKS)

    def _holders(self, query: Query) -> Sequence[int]:
        term = query.whole
        if not term or not 0 < self._scope.frequencies.get(term, 0) <= HOLDING_CHUNKS:
            return []
        return self._index.holders(term)
