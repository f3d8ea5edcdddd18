"""What do the candidate lists hold? Asked of the database; ``memory_lists.py`` asks memory.

Filters are part of every statement, never applied after a cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.lists import (
    DEFINITIONS,
    FILES_PER_NAME,
    MEANING_CHUNKS,
    WORD_CHUNKS,
    Lists,
    name_groups,
)
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import Asked, Scope
from codebase_mcp.search.terms import (
    HOLDING_CHUNKS,
    LENT_CHUNKS,
    RARE_CHUNKS,
    inverse_frequencies,
    lent_terms,
    rarest_terms,
)

_SQL = load_queries("codebase_mcp.search", "search.sql")


class DatabaseLists:
    """The candidate lists of one search, by statements in its transaction."""

    def __init__(self, tx: Transaction, scope: Scope) -> None:
        self._tx = tx
        self._scope = scope
        self._parameters = scope.parameters()

    async def find(
        self, query: Query, idf: Mapping[int, float], asked_of: Sequence[Asked]
    ) -> Lists:
        """All lists, in one round trip."""
        scope, parameters = self._scope, self._parameters
        asked = sparse_literal(idf)
        groups = [array_literal(group) for group in name_groups(query)]
        folded = [name.folded for name in query.names]
        words, named, symbols, *others = await self._tx.fetch_many(
            [
                _words_statement(query, asked, scope, parameters),
                (_SQL["names"], {"groups": groups, "limit": FILES_PER_NAME, **parameters}),
                (_SQL["symbols"], {"names": folded, "limit": DEFINITIONS, **parameters}),
                *_holders_statement(query, scope),
                *(_meaning_statement(asked_by, scope, parameters) for asked_by in asked_of),
            ]
        )
        holders = others.pop(0) if len(others) > len(asked_of) else []
        return Lists(
            words,
            {blob_id for (blob_id,) in named},
            symbols,
            [blob_id for (blob_id,) in holders],
            others,
        )

    async def files(self, texts: Collection[int], idf: Mapping[int, float]) -> Sequence[Row]:
        """The files, in scope and past the filters, that show these texts."""
        bound = {"query": sparse_literal(idf), "blobs": array_literal(texts), **self._parameters}
        return await self._tx.fetch_all(_SQL["files"], **bound)

    async def cosines(
        self, wanted: Sequence[tuple[Asked, Iterable[tuple[int, int]]]]
    ) -> list[list[Row]]:
        """How near given chunks are, for each model."""
        return await self._tx.fetch_many([_cosine_statement(of, places) for of, places in wanted])


def _holders_statement(query: Query, scope: Scope) -> list[tuple[Any, dict[str, Any]]]:
    """Which texts hold the query's only word, if it is so rare that one alone may."""
    term = query.whole
    if not term or not 0 < scope.frequencies.get(term, 0) <= HOLDING_CHUNKS:
        return []
    return [(_SQL["holders"], {"term": term, "hidden": scope.hidden})]


def _cosine_statement(
    asked: Asked, places: Iterable[tuple[int, int]]
) -> tuple[Any, dict[str, Any]]:
    wanted = list(places)
    bound = {
        "vector": dense_literal(asked.vector),
        "blobs": array_literal(blob_id for blob_id, _ in wanted),
        "ordinals": array_literal(ordinal for _, ordinal in wanted),
    }
    return write_numbers(_SQL["cosines"], profile_id=asked.profile.id), bound


def _words_statement(
    query: Query, asked: str, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    rare, together = rarest_terms(query, scope.frequencies)
    lent = lent_terms(scope.lent, scope.frequencies)
    idf = inverse_frequencies(scope.lent, scope.frequencies)
    bound = {
        "query": asked,
        "kindred": sparse_literal({term: scope.lent[term] * idf[term] for term in idf}),
        "rare": array_literal(rare if together else {*rare, *lent}),
        "limit": WORD_CHUNKS,
    }
    if scope.texts is not None:
        picking = array_literal({*rare, *lent})
        return _SQL["words_in_texts"], {**bound, "rare": picking, "texts": scope.texts}
    name = "common_words" if together else "words"
    if together:
        bound |= {"lent": array_literal(lent), "bound": RARE_CHUNKS + LENT_CHUNKS}
    if scope.filters.narrow:
        return _SQL[f"{name}_filtered"], {**bound, **parameters}
    return _SQL[name], {**bound, "hidden": scope.hidden}


def _meaning_statement(
    asked: Asked, scope: Scope, parameters: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    bound = {"vector": dense_literal(asked.vector), "limit": MEANING_CHUNKS}
    numbers = {"profile_id": asked.profile.id}
    if scope.texts is not None:
        statement = _SQL["meaning_in_texts"]
        return write_numbers(statement, **numbers), {**bound, "texts": scope.texts}
    name = "meaning"
    sealed = scope.sealed.get(asked.profile.id)
    if sealed is not None:
        name = "meaning_sealed"
        numbers |= {"dimension": len(asked.vector), "sealed": sealed}
    if scope.filters.narrow:
        return write_numbers(_SQL[f"{name}_filtered"], **numbers), {**bound, **parameters}
    return write_numbers(_SQL[name], **numbers), {**bound, "hidden": scope.hidden}
