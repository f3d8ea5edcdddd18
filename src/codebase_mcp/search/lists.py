"""What do the candidate lists look like, and where can they come from?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from codebase_mcp.database.transaction import Row
from codebase_mcp.search.evidence import Definition
from codebase_mcp.search.fusion import ChunkKey
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.search.scope import QueryVector
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
