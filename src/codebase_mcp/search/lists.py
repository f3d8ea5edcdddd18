"""Which chunks, texts and definitions match a query, and what evidence is that for a file?

Filters are part of every statement: none is applied after a limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal, dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries, write_numbers
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.model import FileKind
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

# Whole texts by words: how many, and how many of the rarest terms select their chunks.
WORD_TEXTS = 1_000
TEXT_TERMS = 100

# Matching chunks are counted up to this number.
COUNT_LIMIT = 1_000


# The best chunk of a text counts fully, each further chunk by this factor less, twelve at most.
CHUNK_DECAY = 0.7
CHUNKS_COUNTED = 12
_DECAYS = tuple(CHUNK_DECAY**position for position in range(CHUNKS_COUNTED))

# How near a text is in meaning is the mean cosine of its nearest chunks, at most this many.
NEAREST_CHUNKS = 3

ChunkKey = tuple[int, int]
"""A chunk: the id of its text, and its ordinal there."""


@dataclass(frozen=True, slots=True)
class NamedDefinition:
    """A definition whose name the query has; ``definers`` texts define that name.

    ``ordinal`` is the number of the chunk with its first line, None if there is no such chunk.
    """

    folded: str
    name: str
    kind: str
    start_line: int
    end_line: int
    depth: int
    definers: int
    ordinal: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ScoredChunks:
    """Some chunks with their scores by a query's own terms and by its expansion terms, by column.

    They are in the order of their texts' ids and their ordinals.
    """

    blob_ids: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    own: NDArray[np.float64]
    expansion: NDArray[np.float64]

    @classmethod
    def from_rows(cls, rows: Sequence[Row]) -> ScoredChunks:
        """From the columns of the statement ``words``, which has distances."""
        columns = zip(*sorted(rows), strict=True) if rows else [()] * 4
        blob_ids, ordinals, own, expansion = columns
        numbers = np.array(blob_ids, np.int64), np.array(ordinals, np.int64)
        return cls(*numbers, -np.array(own, np.float64), -np.array(expansion, np.float64))


@dataclass(frozen=True, slots=True)
class Lists:
    """The candidate lists of a query.

    ``words``: the best chunks by words. ``named_texts``: texts of files whose name has a word of
    the query. ``definitions``: definitions of the query's names, with the ids of their texts.
    ``holders``: texts with the query's only word, if that is rare. ``meanings``: for each model
    blob id, ordinal, distance; nearest first. ``holding_count``: the number of chunks with any of
    `matching_terms`; beyond `COUNT_LIMIT` a lower bound.
    """

    words: ScoredChunks
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
    async def text_words(self) -> Sequence[Row]:
        """The texts with most of the query's words in all their chunks together: blob id, the sum
        of the chunks' BM25 scores, number of chunks; the highest sums first."""

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
        # Which variant of a statement reads the chunks in scope, and the parameters of that.
        self._variant, self._bounds = "", {"hidden": scope.hidden}
        if scope.texts is not None:
            self._variant, self._bounds = "_in_texts", {"texts": scope.texts}
        elif scope.is_narrow:
            self._variant, self._bounds = "_filtered", self._parameters

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
            statements["holders"] = self._filtered("holders", term=self.only_term)
        meanings = {f"meaning {number}": self._nearest(q) for number, q in enumerate(vectors)}
        rows = await fetch_named(self._tx, statements | meanings)
        [(holding_count,)] = rows["count"]
        return Lists(
            words=ScoredChunks.from_rows(rows["words"]),
            named_texts={blob_id for (blob_id,) in rows["names"]},
            definitions=[(blob_id, NamedDefinition(*row)) for blob_id, *row in rows["symbols"]],
            holders=[blob_id for (blob_id,) in rows.get("holders", ())],
            meanings=[rows[name] for name in meanings],
            holding_count=holding_count,
        )

    async def text_words(self) -> Sequence[Row]:
        rarest = sorted(self.idf, key=lambda term: -self.idf[term])[:TEXT_TERMS]
        return await self._tx.fetch_all(
            _SQL["text_words"],
            query=sparse_literal(self.idf),
            terms=array_literal(rarest),
            hidden=self.scope.hidden,
            limit=WORD_TEXTS,
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
        parameters = {
            "query": sparse_literal(self.idf),
            "expansion": sparse_literal(self.expansion),
            "limit": WORD_CHUNKS,
        }
        if not self.together or self.scope.texts is not None:
            every = array_literal({*self.rare, *self.rare_expansion})
            return self._in_scope("words", parameters | {"rare": every})
        common = {
            "rare": array_literal(self.rare),
            "rare_expansion": array_literal(self.rare_expansion),
            "bound": COMMON_CHUNKS,
        }
        return self._in_scope("common_words", parameters | common)

    def _holding_count(self) -> Statement:
        terms = array_literal(self.matching_terms)
        parameters = {"terms": terms, "most": COUNT_LIMIT + 1, "unfiltered": not self._variant}
        return self._in_scope("holding_count", parameters)

    def _nearest(self, query: QueryVector) -> Statement:
        name, numbers = "meaning", {"profile_id": query.profile.id}
        sealed = self.scope.sealed.get(query.profile.id)
        if sealed is not None and self.scope.texts is None:
            name = "meaning_sealed"
            numbers |= {"dimension": len(query.vector), "sealed": sealed}
        parameters = {"vector": dense_literal(query.vector), "limit": MEANING_CHUNKS}
        statement, values = self._in_scope(name, parameters)
        return write_numbers(statement, **numbers), values

    def _in_scope(self, name: str, parameters: Mapping[str, Any]) -> Statement:
        """The variant of a statement that reads the chunks in scope."""
        return _SQL[name + self._variant], {**parameters, **self._bounds}


def chunk_parameters(chunks: Collection[ChunkKey]) -> dict[str, str]:
    """Chunks as parameters of the statements."""
    return {
        "blobs": array_literal(blob_id for blob_id, _ in chunks),
        "ordinals": array_literal(ordinal for _, ordinal in chunks),
    }


@dataclass(slots=True)
class TextEvidence:
    """The evidence of the candidate lists in a text.

    ``words`` and ``expansion`` (scores by the query's own terms and by its expansion terms) and
    ``meaning`` (cosines) are by chunk ordinal, best first. ``least_meaning`` is the cosine of the
    last chunk in the list of meaning, of any text. ``is_only_holder`` means that the query is a
    single word that no other text has. ``defined_stems`` are the stems of the query's expected
    names that occur in names of the text's definitions. ``exact`` are the lines, by chunk ordinal,
    with the query's exact text.
    """

    words: Mapping[int, float] = field(default_factory=dict)
    meaning: Mapping[int, float] = field(default_factory=dict)
    expansion: Mapping[int, float] = field(default_factory=dict)
    definitions: Sequence[NamedDefinition] = ()
    comments: float = 0.0
    chunk_count: int = NEAREST_CHUNKS
    is_only_holder: bool = False
    least_meaning: float = 0.0
    defined_stems: frozenset[str] = frozenset()
    exact: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @property
    def body(self) -> float:
        """The score of all chunks together by the query's own terms."""
        return discounted_sum(self.words)

    @property
    def best_words(self) -> float:
        """The best chunk's score by the query's own terms."""
        return next(iter(self.words.values()), 0.0)

    @property
    def best_meaning(self) -> float:
        """The nearest chunk's cosine."""
        return next(iter(self.meaning.values()), 0.0)

    @property
    def nearest(self) -> float:
        """The nearest chunk's cosine; ``least_meaning`` if the list has no chunk of this text."""
        return self.best_meaning or self.least_meaning

    @property
    def mean_meaning(self) -> float:
        """The mean cosine of the nearest chunks; ``least_meaning`` for those not in the list."""
        counted, least = min(self.chunk_count, NEAREST_CHUNKS), self.least_meaning
        if counted == 0 or not self.meaning:
            return least if counted else 0.0
        cosines = list(islice(self.meaning.values(), counted))
        return (sum(cosines) + least * (counted - len(cosines))) / counted


def discounted_sum(scores: Mapping[int, float]) -> float:
    """The sum of the scores of a text's chunks, best first; each further chunk counts less."""
    if len(scores) < 2:
        return next(iter(scores.values()), 0.0)
    return float(sum(map(mul, scores.values(), _DECAYS)))


class CandidateFile(NamedTuple):
    """A file and the evidence in its text."""

    snapshot_id: int
    path: str
    blob_id: int
    language: str
    kind: FileKind
    evidence: TextEvidence
