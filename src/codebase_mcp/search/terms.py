"""Which words of a query pick the chunks that are scored? Pure: frequencies in, terms out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from codebase_mcp.search.query import Query
from codebase_mcp.tokens import ALL_CHUNKS

# Scoring a chunk costs about a microsecond; so many may be picked by the rare terms of a query.
RARE_CHUNKS = 2_000
LENT_CHUNKS = 500

# A word in more chunks is not looked for in one text alone.
HOLDING_CHUNKS = 100


def inverse_frequencies(terms: Iterable[int], frequencies: Mapping[int, int]) -> dict[int, float]:
    """BM25's inverse document frequency of each term, ln(1 + (N - n + ½) / (n + ½))."""
    total = frequencies.get(ALL_CHUNKS, 0)
    counts = {term: frequencies.get(term, 0) for term in terms}
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def rarest_terms(query: Query, frequencies: Mapping[int, int]) -> tuple[list[int], bool]:
    """The terms that pick chunks to score, and whether a chunk must hold all of them.

    As many of the rarest as pick a bounded number together. Where even the rarest is common, the
    two rarest, both of them.
    """
    present = _by_rarity((term.id for term in query.terms), frequencies)
    if present and frequencies[present[0]] > RARE_CHUNKS:
        return present[:2], True
    return _picking(present, frequencies, RARE_CHUNKS, at_least=1), False


def lent_terms(lent: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    """The terms lent to a query that pick chunks too: the rarest, none where all are common."""
    return _picking(_by_rarity(lent, frequencies), frequencies, LENT_CHUNKS, at_least=0)


def _by_rarity(terms: Iterable[int], frequencies: Mapping[int, int]) -> list[int]:
    return sorted((t for t in terms if frequencies.get(t)), key=frequencies.__getitem__)


def _picking(
    terms: Sequence[int], frequencies: Mapping[int, int], most: int, *, at_least: int
) -> list[int]:
    """As many of the first terms as pick so many chunks together."""
    totals = accumulate(frequencies[term] for term in terms)
    count = sum(1 for total in totals if total <= most)
    return list(terms[: max(count, at_least)])
