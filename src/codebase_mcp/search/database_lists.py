"""What do the candidate lists hold? Read from the database; ``memory_lists.py`` reads memory.

Filters are part of every statement: none is applied after a limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row
from codebase_mcp.search.evidence import Definition
from codebase_mcp.search.fusion import ChunkKey
from codebase_mcp.search.lists import (
    COUNT_LIMIT,
    DEFINITIONS,
    FILES_PER_NAME,
    MEANING_CHUNKS,
    WORD_CHUNKS,
    Lists,
    name_groups,
)
from codebase_mcp.search.query import Query
from codebase_mcp.search.scope import QueryVector, Scope
from codebase_mcp.search.terms import (
    COMMON_CHUNKS,
    matching_terms,
    rare_only_term,
    rarest_expansion_terms,
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
