"""Which terms of a query select the chunks that are scored? Pure: frequencies in, terms out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from codebase_mcp.search.query import Query
from codebase_mcp.text.tokens import ALL_CHUNKS

# How many chunks the rare terms of a query, and its expansion terms, may select. Scoring a chunk
# costs about a microsecond.
RARE_CHUNKS = 2_000
EXPANSION_CHUNKS = 500

# How many chunks are scored where every term is common.
COMMON_CHUNKS = 10_000

# A word in more chunks than this is in several texts, so whether only one holds it is not asked.
HOLDING_CHUNKS = 100


def inverse_frequencies(terms: Iterable[int], frequencies: Mapping[int, int]) -> dict[int, float]:
    """BM25's inverse document frequency of each term, ln(1 + (N - n + ½) / (n + ½))."""
    total = frequencies.get(ALL_CHUNKS, 0)
    counts = {term: frequencies.get(term, 0) for term in terms}
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def matching_terms(query: Query) -> list[int]:
    """The terms of which a chunk must hold one to count as a match: for a symbol, that symbol."""
    if query.is_symbol and query.whole is not None:
        return [query.whole]
    return [term.id for term in query.terms]


def rare_only_term(query: Query, frequencies: Mapping[int, int]) -> int | None:
    """The term of the query's only word, if it is rare enough to be in one text alone."""
    term = query.whole
    return term if term and 0 < frequencies.get(term, 0) <= HOLDING_CHUNKS else None


def rarest_terms(query: Query, frequencies: Mapping[int, int]) -> tuple[list[int], bool]:
    """The terms that select the chunks to score, and whether a chunk must hold all of them.

    These are as many of the rarest terms as select at most `RARE_CHUNKS` chunks together. Where
    even the rarest term is in more, they are the two rarest, and a chunk must hold both.
    """
    present = _by_rarity((term.id for term in query.terms), frequencies)
    if present and frequencies[present[0]] > RARE_CHUNKS:
        return present[:2], True
    return _first_terms(present, frequencies, RARE_CHUNKS, at_least=1), False


def rarest_expansion_terms(expansion: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    """The expansion terms that select chunks too: the rarest, none where all are common."""
    present = _by_rarity(expansion, frequencies)
    return _first_terms(present, frequencies, EXPANSION_CHUNKS, at_least=0)


def _by_rarity(terms: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    return sorted((t for t in terms if frequencies.get(t)), key=frequencies.__getitem__)


def _first_terms(
    terms: Sequence[int], frequencies: Mapping[int, int], max_chunks: int, *, at_least: int
) -> list[int]:
    """The first terms, as many as are in at most ``max_chunks`` chunks together."""
    totals = accumulate(frequencies[term] for term in terms)
    count = sum(1 for total in totals if total <= max_chunks)
    return list(terms[: max(count, at_least)])
