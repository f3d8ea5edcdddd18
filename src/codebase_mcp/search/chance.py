"""Is it by chance that the first file seems to answer?

Any code has a word of a question somewhere, and that word makes the place near in meaning too. So
where a file holds one word of several, or none, and none of the terms that code uses for what is
asked, and is not named after the question, the rest of it has to be near without that word.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import thesaurus_of
from codebase_mcp.search.candidates import scaled_cosines
from codebase_mcp.search.lists import ListSource
from codebase_mcp.search.query import Query
from codebase_mcp.search.ranking import RankedFile
from codebase_mcp.search.scope import QueryVector
from codebase_mcp.text.tokens import word_stems, words_of

# A question has several words from this number on.
SEVERAL_WORDS = 3

# A term counts at most this many times its inverse document frequency (`index/prepare.py`).
MOST_PER_TERM = 2.5

# From this value of the signal ``name`` on a file is named after the question.
NAMED = 0.5

# A cosine that is less than this above the background is no sign that a place answers.
HARDLY_NEAR = 0.05

# Nor is it one to hold a smaller share of the expansion terms.
HARDLY_EXPANDED = 0.1


async def is_by_chance(
    source: ListSource,
    query: Query,
    best: RankedFile,
    vectors: Sequence[QueryVector],
    *,
    model: StaticEmbedder,
    frequency: Mapping[str, float],
    expansion_weight: float,
) -> bool:
    """Whether nothing but one word of several speaks for a file.

    ``frequency`` is the inverse document frequency of each stem of the query, ``expansion_weight``
    that of all expansion terms together; ``model`` is that of the first of the ``vectors``.
    """
    candidate, thesaurus = best.candidate, thesaurus_of(model)
    evidence = candidate.evidence
    spoken = {term.id: term.text for term in query.terms if term.spoken}
    is_one_word = query.is_symbol or len(spoken) < SEVERAL_WORDS
    expanded = next(iter(evidence.expansion.values()), 0.0)
    if (
        (is_one_word or thesaurus is None or not vectors)
        or best.signals["name"] >= NAMED
        or expanded >= HARDLY_EXPANDED * expansion_weight > 0
        or evidence.best_words > MOST_PER_TERM * max(frequency[stem] for stem in spoken.values())
    ):
        return False
    places = [
        (candidate.blob_id, next(iter(of))) for of in (evidence.words, evidence.meaning) if of
    ]
    held = await source.held_terms(places[0], spoken) if evidence.words else []
    if len(held) > 1:
        return False
    if not held:
        return evidence.nearest < thesaurus.background(query.plain) + HARDLY_NEAR
    rest = _without(query.plain, {spoken[term] for term in held})
    vector = QueryVector(vectors[0].profile, await model.embed_query(rest))
    [rows] = await source.cosines([(vector, set(places))])
    near = max((cosine for _, cosine in scaled_cosines(vector, rows)), default=1.0)
    return near < thesaurus.background(rest) + HARDLY_NEAR


def _without(text: str, stems: Collection[str]) -> str:
    """A text without the words that have one of some stems."""
    return " ".join(word for word in words_of(text) if not set(word_stems(word)) & set(stems))
