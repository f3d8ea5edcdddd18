"""Which chunks, texts and definitions match a query? Read from the database or from memory.

Filters are part of every statement: none is applied after a limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.search.evidence import ChunkKey, NamedDefinition
from codebase_mcp.search.query import (
    COMMON_CHUNKS,
    Query,
    inverse_frequencies,
    matching_terms,
    name_stems,
    rare_only_term,
    rarest_expansion_terms,
    rarest_terms,
)
from codebase_mcp.search.scope import QueryVector, Scope, fetch_named
from codebase_mcp.text.tokens import term_id

_SQL = load_queries("codebase_mcp.search", "search.sql")

# The lengths of the lists: chunks by words and by meaning, files for each word of the query,
# definitions for each name.
WORD_CHUNKS = 1_000
MEANING_CHUNKS = 150
FILES_PER_NAME = 6
DEFINITIONS = 12

# Matching chunks are counted up to this number.
COUNT_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class Lists:
    """The candidate lists of a query.

    ``words``: blob id, ordinal, distance by the query's own terms, distance by expansion terms;
    best first. ``named_texts``: texts of files whose name has a word of the query.
    ``definitions``: definitions of the query's names, with the ids of their texts. ``holders``:
    texts with the query's only word, if that is rare. ``meanings``: for each model blob id,
    ordinal, distance; nearest first. ``holding_count``: the number of chunks with any of
    `matching_terms`; beyond `COUNT_LIMIT` a lower bound.
    """

    words: Sequence[Row]
    named_texts: set[int]
    definitions: Sequence[tuple[int, NamedDefinition]]
    holders: Sequence[int]
    meanings: Sequence[Sequence[Row]]
    holding_count: int


class ListSource(ABC):
    """Reads the candidate lists of a query.

    ``idf`` is the inverse document frequency of each term, ``expansion`` the weight of each
    expansion term. Chunks are scored by words if they have any of the ``rare`` or
    ``rare_expansion`` terms; with ``together`` they must have all of the ``rare`` terms.
    """

    def __init__(self, query: Query, scope: Scope) -> None:
        self.query = query
        self.scope = scope
        frequencies = scope.frequencies
        self.idf = inverse_frequencies((term.id for term in query.terms), frequencies)
        self.expansion = scope.expansion_weights()
        self.rare, self.together = rarest_terms(query, frequencies)
        self.rare_expansion = rarest_expansion_terms(scope.expansion, frequencies)
        self.only_term = rare_only_term(query, frequencies)
        self.matching_terms = matching_terms(query)
        # Each word of the query, and each pair of neighbours, as terms of file names.
        terms = [term_id(stem) for stem in name_stems(query)]
        self.name_groups = [*((term,) for term in dict.fromkeys(terms)), *pairwise(terms)]

    @abstractmethod
    async def find(self, vectors: Sequence[QueryVector]) -> Lists:
        """All lists, those of meaning by the vectors of some models."""

    @abstractmethod
    async def files(self, texts: Collection[int]) -> Sequence[Row]:
        """The files in scope that have these texts: the columns of the statement ``files``."""

    @abstractmethod
    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        """Names of definitions in these texts, with the text's id: all that contain any of the
        stems, without regard to case and underscores."""

    @abstractmethod
    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        """The given terms that a chunk has."""

    @abstractmethod
    async def cosines(
        self, compared: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> Sequence[Sequence[Row]]:
        """The distances of given chunks, for each model: blob id, ordinal, distance."""


class DatabaseLists(ListSource):
    """The candidate lists from the database, in the transaction of the search."""

    def __init__(self, tx: Transaction, query: Query, scope: Scope) -> None:
        super().__init__(query, scope)
        self._tx = tx
        self._parameters = scope.parameters()

    async def find(self, vectors: Sequence[QueryVector]) -> Lists:
        groups = [array_literal(group) for group in self.name_groups]
        folded = [name.folded for name in self.query.names]
        statements: dict[str, Statement] = {
            "words": self._words(),
            "count": self._holding_count(),
            "names": self._filtered("names", groups=groups, limit=FILES_PER_NAME),
            "symbols": self._filtered("symbols", names=folded, limit=DEFINITIONS),
        }
        if self.only_term is not None:
            snapshots = array_literal(self.scope.all_snapshots)
            parameters = {"term": self.only_term, "all_snapshots": snapshots}
            statements["holders"] = _SQL["holders"], parameters
        meanings = {f"meaning {number}": self._nearest(q) for number, q in enumerate(vectors)}
        rows = await fetch_named(self._tx, statements | meanings)
        [(holding_count,)] = rows["count"]
        return Lists(
            words=rows["words"],
            named_texts={blob_id for (blob_id,) in rows["names"]},
            definitions=[(blob_id, NamedDefinition(*row)) for blob_id, *row in rows["symbols"]],
            holders=[blob_id for (blob_id,) in rows.get("holders", ())],
            meanings=[rows[name] for name in meanings],
            holding_count=holding_count,
        )

    async def files(self, texts: Collection[int]) -> Sequence[Row]:
        blobs = array_literal(texts)
        query, parameters = self._filtered("files", query=sparse_literal(self.idf), blobs=blobs)
        return await self._tx.fetch_all(query, **parameters)

    async def defined_names(
        self, texts: Collection[int], stems: Collection[str]
    ) -> Iterable[tuple[int, str]]:
        parameters = {"blobs": array_literal(texts), "stems": list(stems)}
        return await self._tx.fetch_all(_SQL["defined_names"], **parameters)

    async def held_terms(self, chunk: ChunkKey, terms: Collection[int]) -> Sequence[int]:
        blob_id, ordinal = chunk
        parameters = {"blob_id": blob_id, "ordinal": ordinal, "terms": array_literal(terms)}
        return [term for (term,) in await self._tx.fetch_all(_SQL["held_terms"], **parameters)]

    async def cosines(
        self, compared: Sequence[tuple[QueryVector, Iterable[ChunkKey]]]
    ) -> Sequence[Sequence[Row]]:
        return await self._tx.fetch_many(
            [
                (
                    write_numbers(_SQL["cosines"], profile_id=query.profile.id),
                    {"vector": dense_literal(query.vector), **chunk_parameters(list(chunks))},
                )
                for query, chunks in compared
            ]
        )

    def _filtered(self, name: str, **parameters: object) -> Statement:
        """A statement with its parameters and those of the filters."""
        return _SQL[name], parameters | self._parameters

    def _words(self) -> Statement:
        rare, expansion = self.rare, self.rare_expansion
        parameters = {
            "query": sparse_literal(self.idf),
            "expansion": sparse_literal(self.expansion),
            "limit": WORD_CHUNKS,
        }
        every = array_literal({*rare, *expansion})
        if self.scope.texts is not None:
            return _SQL["words_in_texts"], {**parameters, "rare": every, "texts": self.scope.texts}
        if not self.together:
            return self._in_scope("words", {**parameters, "rare": every})
        common = {
            "rare": array_literal(rare),
            "rare_expansion": array_literal(expansion),
            "bound": COMMON_CHUNKS,
        }
        return self._in_scope("common_words", parameters | common)

    def _holding_count(self) -> Statement:
        parameters = {"terms": array_literal(self.matching_terms), "most": COUNT_LIMIT + 1}
        if self.scope.texts is not None:
            return _SQL["holding_count_in_texts"], {**parameters, "texts": self.scope.texts}
        return self._in_scope("holding_count", parameters)

    def _nearest(self, query: QueryVector) -> Statement:
        scope = self.scope
        parameters = {"vector": dense_literal(query.vector), "limit": MEANING_CHUNKS}
        numbers = {"profile_id": query.profile.id}
        if scope.texts is not None:
            statement = write_numbers(_SQL["meaning_in_texts"], **numbers)
            return statement, {**parameters, "texts": scope.texts}
        name = "meaning"
        sealed = scope.sealed.get(query.profile.id)
        if sealed is not None:
            name = "meaning_sealed"
            numbers |= {"dimension": len(query.vector), "sealed": sealed}
        statement, values = self._in_scope(name, parameters)
        return write_numbers(statement, **numbers), values

    def _in_scope(self, name: str, parameters: Mapping[str, Any]) -> Statement:
        """The variant of a statement with filters, or the variant that leaves out hidden texts."""
        if self.scope.is_narrow:
            return _SQL[f"{name}_filtered"], {**parameters, **self._parameters}
        return _SQL[name], {**parameters, "hidden": self.scope.hidden}


def chunk_parameters(chunks: Collection[ChunkKey]) -> dict[str, str]:
    """Chunks as parameters of the statements."""
    return {
        "blobs": array_literal(blob_id for blob_id, _ in chunks),
        "ordinals": array_literal(ordinal for _, ordinal in chunks),
    }
