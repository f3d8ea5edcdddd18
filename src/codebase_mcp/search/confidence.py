"""How likely does each ranked file answer the question?

Four logistic functions give probabilities as log odds:
1. The question is about software like this. If not, nothing is found.
2. This code has an answer. If that is unlikely, no score reaches 0.5.
3. The first file is an answer.
4. Each further file is an answer, given the third function and its distance from the first file.

`is_by_chance` then checks a first file with little evidence. The functions are fitted on annotated
queries by ``benchmarks/calibrate.py``; ``docs/search-quality.md`` shows how reliable they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.embedding.thesaurus import thesaurus_of
from codebase_mcp.search.candidates import Candidates, scaled_cosines
from codebase_mcp.search.lists import MEANING_CHUNKS, ListSource
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.search.relevance import score_of
from codebase_mcp.search.scope import QueryVector
from codebase_mcp.search.signals import RankedFile, path_facts
from codebase_mcp.text.tokens import word_stems, words_of

# The number of first files whose evidence decides whether the question is about the code.
FILES_CONSIDERED = 10

# Coverage and definitions count up to this value.
MOST = 1.5

RELATED_WEIGHTS: Mapping[str, float] = {
    "intercept": -2.993,
    "coverage": -0.704,
    "name": 1.692,
    "definition": 5.278,
    "meaning": 3.014,
    "mean_meaning": 3.081,
    "spread": 3.422,
    "unknown": -3.734,
    "words": 0.615,
    "known_coverage": 3.380,
    "topic": 1.662,
}

# Below these log odds the question is unrelated to the code.
FLOOR = -0.21

# Log odds by which the evidence in filtered files may exceed the evidence in all files: the nearest
# chunk stands out among fewer chunks, and fewer files have a name in common.
MOST_GAINED_BY_FILTERS = 2.0

ANSWERABLE_WEIGHTS: Mapping[str, float] = {
    "intercept": 1.429,
    "coverage": 0.788,
    "mean_meaning": 11.656,
    "spread": -4.771,
    "background": -7.134,
    "expansion_coverage": 4.118,
    "size": -0.494,
}

# The more chunks there are, the nearer is the nearest chunk by chance. The functions were fitted on
# projects of about this range of sizes.
LEAST_CHUNKS, MOST_CHUNKS = 300, 10_000

# Below these log odds this code probably has no answer.
LEAST_ANSWERABLE = -1.56

# Higher odds are reduced to this value. An identifier that occurs nowhere gets its negative.
MOST_ANSWERABLE = 4.0

# The lowest score of the first file if this code may have an answer, and the highest if it probably
# has none: the evidence hardly separates questions without an answer from hard questions.
LEAST_FIRST = 0.5
MOST_ELSEWHERE = 0.49

# A file with a smaller share of the first file's ranking score is far behind: it is shown only if
# there are fewer results than requested. A file whose best chunk has the whole question never is.
LEAST_LEAD = 0.3
FULL_COVERAGE = 1.0

# If this many files are better by expansion terms, the first file has half of that evidence.
RANKS_HALVING = 3

FIRST_WEIGHTS: Mapping[str, float] = {
    "intercept": -3.318,
    "coverage": 0.203,
    "name": -0.433,
    "definition": 1.463,
    "meaning": 1.124,
    "apart": 3.212,
    "ahead": 3.435,
    "expanded": 0.329,
    "behind": -3.814,
    "unknown": 1.367,
    "answerable": 0.303,
}

OTHERS_WEIGHTS: Mapping[str, float] = {
    "intercept": -7.991,
    "first": 0.211,
    "lead": 6.986,
}


@dataclass(frozen=True, slots=True)
class QueryEvidence:
    """The evidence that a question is about the code, and that the code has an answer.

    Highest values among the first files:
    ``coverage`` (the share of the question in the best chunk, see `RankedFile`), ``name``,
    ``definition``, ``meaning`` (cosine of the nearest chunk), ``mean_meaning`` (of three chunks).

    Values of the question:
    ``unknown``: the share of its words that occur nowhere; ``words``: log(1 + number of words);
    ``known_coverage``: coverage times the share of words that occur; ``topic``: log odds that it
    is about software, 0 if the model does not know; ``background``: the cosine that the nearest
    chunks would have if this code had an answer (`Thesaurus.background`);
    ``expansion_coverage``: the share of its expansion terms in the chunk with most of them;
    ``missing``: it is an identifier that occurs nowhere, not even in a file's name;
    ``literal``: it is a word of the code, or a sentence that occurs word for word in small code.

    Values of the code:
    ``spread``: the difference between the nearest cosine and the last one in the list of meaning;
    ``size``: log(1 + number of chunks), within `LEAST_CHUNKS` and `MOST_CHUNKS`; ``small``: its
    `smallness`.
    """

    coverage: float
    name: float
    definition: float
    meaning: float
    mean_meaning: float
    spread: float
    unknown: float
    words: float
    known_coverage: float
    topic: float
    background: float
    expansion_coverage: float
    size: float
    missing: bool
    literal: bool = False
    small: float = 0.0

    @property
    def is_about_code(self) -> bool:
        """Whether the question is about the code."""
        return self.literal or self.odds >= FLOOR

    @property
    def odds(self) -> float:
        """The log odds that the question is about the code, to compare with `FLOOR`."""
        return _log_odds(RELATED_WEIGHTS, self)

    @property
    def answerable(self) -> float:
        """The log odds that this code has an answer, to compare with `LEAST_ANSWERABLE`.

        Without a background, as for an identifier, they are high unless the identifier is missing.
        """
        if self.missing:
            return -MOST_ANSWERABLE
        if not self.background:
            return MOST_ANSWERABLE
        return min(_log_odds(ANSWERABLE_WEIGHTS, self), MOST_ANSWERABLE)


def is_doubtful(asked: QueryEvidence) -> bool:
    """Whether the evidence may be above `FLOOR` only because of filters.

    That is impossible if the question alone is above it, or the evidence without definitions, whose
    weight grows as files are excluded.
    """
    weights = RELATED_WEIGHTS
    of_question = ("intercept", "unknown", "words", "topic")
    alone = _log_odds({name: weights[name] for name in of_question}, asked)
    without_definitions = asked.odds - weights["definition"] * asked.definition
    return bool(max(alone, without_definitions - MOST_GAINED_BY_FILTERS) < FLOOR)


@dataclass(frozen=True, slots=True)
class FirstEvidence:
    """The evidence that the first file is an answer, comparable between queries.

    ``coverage``, ``name``, ``definition`` and ``meaning`` are values of the file. ``apart`` and
    ``ahead`` are the distances of the tenth and the second file, as shares of its ranking score.
    ``expanded`` is 1 if it is the best file by expansion terms, less for a later rank (see
    `RANKS_HALVING`), 0 without expansion terms. ``behind`` is the cosine of the nearest chunk of
    all files minus that of this file. ``unknown`` and ``answerable`` are values of the question,
    see `QueryEvidence`.
    """

    coverage: float
    name: float
    definition: float
    meaning: float
    apart: float
    ahead: float
    expanded: float
    behind: float
    unknown: float
    answerable: float


class Confidence(NamedTuple):
    """The confidence in a file: ``similarity`` is its score, from 0 to 1.

    ``lead`` is its ranking score as a share of the first file's.
    """

    similarity: float
    lead: float


def _log_odds(weights: Mapping[str, float], evidence: QueryEvidence | FirstEvidence) -> float:
    """The intercept, and the sum of the weighted attributes of some evidence."""
    (_, intercept), *factors = weights.items()
    return sum((factor * getattr(evidence, name) for name, factor in factors), intercept)


# Where the index's model is not available: values that most questions about the code exceed.
ASSUMED_MEANING = {"meaning": 0.55, "mean_meaning": 0.45, "spread": 0.2, "background": 0.0}


def query_evidence(
    query: Query,
    ranked: Sequence[RankedFile],
    candidates: Candidates,
    *,
    topic: float,
    background: float,
    chunks: int,
) -> QueryEvidence:
    """The evidence in the first files and in the code as a whole; ``chunks`` are searched."""
    first = ranked[:FILES_CONSIDERED]
    unknown = candidates.unknown
    coverage = min(max((file.coverage for file in first), default=0.0), MOST)
    definition = min(_most(first, "definition"), MOST)
    small = smallness(chunks)
    meanings = ASSUMED_MEANING
    if candidates.least_meaning is not None:
        meaning = max((file.candidate.evidence.best_meaning for file in first), default=0.0)
        meanings = {
            "meaning": meaning,
            "mean_meaning": _most(first, "meaning"),
            "spread": meaning - candidates.least_meaning,
            "background": background,
        }
    is_missing = (
        query.is_symbol and unknown > 0 and not definition and not _names_a_file(query, first)
    )
    is_literal = (
        not unknown
        and bool(query.terms)
        and (query.whole is not None or small * coverage >= WORD_FOR_WORD)
    )
    return QueryEvidence(
        coverage=coverage,
        name=_most(first, "name"),
        definition=definition,
        **meanings,
        unknown=unknown,
        words=math.log1p(sum(term.spoken for term in query.terms)),
        known_coverage=coverage * (1 - unknown),
        topic=topic,
        expansion_coverage=candidates.expansion_coverage,
        size=math.log1p(min(max(chunks, LEAST_CHUNKS), MOST_CHUNKS)),
        missing=is_missing,
        literal=is_literal,
        small=small,
    )


def _names_a_file(query: Query, files: Iterable[RankedFile]) -> bool:
    """Whether the name of any file has most of the query's words."""
    asked = set(name_stems(query))
    return any(
        2 * len(asked.intersection(path_facts(file.candidate.path).name)) > len(asked)
        for file in files
    )


def confidences(
    ranked: Sequence[RankedFile], asked: QueryEvidence, *, by_chance: bool = False
) -> list[Confidence]:
    """The confidence in each of the ranked files, in order.

    A score is the square root of the probability that the file is an answer. So a probability of
    0.81 becomes 0.9, which the tools' scale calls "excellent", and 0.5 becomes 0.7, "fair". The
    scores of later files depend only on the first file's odds and their own lead, so they have the
    order of the ranking. With ``by_chance`` no score is above `LEAST_FIRST`.
    """
    if not ranked:
        return []
    top = ranked[0].score
    leads = [file.score / top if top > 0 else 0.0 for file in ranked]
    odds = _log_odds(FIRST_WEIGHTS, first_evidence(ranked, leads, asked))
    may_answer = asked.answerable >= LEAST_ANSWERABLE or asked.literal
    first = max(score_of(odds), LEAST_FIRST) if may_answer else min(score_of(odds), MOST_ELSEWHERE)
    if by_chance:
        first = min(first, LEAST_FIRST)
    intercept, by_first, by_lead = OTHERS_WEIGHTS.values()
    base = intercept + by_first * odds
    others = (Confidence(min(first, score_of(base + by_lead * lead)), lead) for lead in leads[1:])
    return [Confidence(first, 1.0), *others]


def first_evidence(
    ranked: Sequence[RankedFile], leads: Sequence[float], asked: QueryEvidence
) -> FirstEvidence:
    """The evidence that the first file is an answer; ``leads`` as in `Confidence`.

    In small code the file is compared less with further files, and more with the question.
    """
    best, second = ranked[0], leads[1] if len(leads) > 1 else 0.0
    nearest = [file.candidate.evidence.nearest for file in ranked]
    # A file that alone has the name or word leads even as the only candidate, and a file that is
    # nearer in meaning does not count against it.
    only_place = best.signals["only_place"]
    tenth = max(leads[:FILES_CONSIDERED][-1], 0.0)
    apart = only_place if len(leads) == 1 else 1.0 - tenth if best.score > 0 else 0.0
    ahead = only_place if len(leads) == 1 else 1.0 - second if second > 0 else 0.0
    held = only_place or support(best, asked.background, asked.unknown)
    of_small = held, only_place or held * (1.0 - max(second, 0.0))
    apart, ahead = (
        asked.small * alone + (1.0 - asked.small) * compared
        for alone, compared in zip(of_small, (apart, ahead), strict=True)
    )
    return FirstEvidence(
        coverage=min(best.coverage, MOST),
        name=best.signals["name"],
        definition=min(best.signals["definition"], MOST),
        meaning=best.signals["meaning"],
        apart=apart,
        ahead=ahead,
        expanded=_expanded(ranked),
        behind=0.0 if only_place else max(nearest) - nearest[0],
        unknown=(1.0 - asked.small) * asked.unknown,
        answerable=asked.answerable,
    )


def _expanded(ranked: Sequence[RankedFile]) -> float:
    """The value ``expanded`` of `FirstEvidence`."""
    own = ranked[0].signals["expansion"]
    if own <= 0:
        return 0.0
    before = sum(file.signals["expansion"] > own for file in ranked)
    return RANKS_HALVING / (RANKS_HALVING + before)


def _most(files: Sequence[RankedFile], signal: str) -> float:
    return max((file.signals[signal] for file in files), default=0.0)


# If at most this many chunks are searched, all of them are in the list of meaning. Code with twice
# as many is no longer small.
FEW_CHUNKS = MEANING_CHUNKS

# A chunk whose cosine is this much above the background is as near as an answer.
CLEARLY_NEAR = 0.25

# A chunk with this share of a question has it word for word. It is below 1 because long chunks get
# lower BM25 scores.
WORD_FOR_WORD = 0.8


def smallness(chunks: int) -> float:
    """1 if few chunks are searched, 0 if there are enough to compare files."""
    return min(max(2 - chunks / FEW_CHUNKS, 0.0), 1.0)


def support(best: RankedFile, background: float, unknown: float) -> float:
    """How well a file matches a question, by words or by meaning, between 0 and 1.

    Meaning counts less if a large share of the question's words occurs nowhere.
    """
    above = best.candidate.evidence.nearest - background
    near = (1.0 - unknown) * min(above / CLEARLY_NEAR, 1.0) if background else 0.0
    return min(max(best.coverage, near, 0.0), 1.0)


# Questions with at least this many words can match by chance.
SEVERAL_WORDS = 3

# A term counts at most this many times its inverse document frequency (`index/prepare.py`).
MOST_PER_TERM = 2.5

# With at least this value of the signal ``name`` a file is named after the question.
NAMED = 0.5

# A cosine less than this above the background is no evidence for a file, and neither is a smaller
# share of the expansion terms.
HARDLY_NEAR = 0.05
HARDLY_EXPANDED = 0.1


async def is_by_chance(
    source: ListSource,
    best: RankedFile,
    vectors: Sequence[QueryVector],
    model: StaticEmbedder,
    frequency: Mapping[str, float],
) -> bool:
    """Whether the only evidence for a file is a single word of the question.

    Any code has a word of a question somewhere, and that word makes the chunk near in meaning too.
    So if the file has at most one word and hardly any expansion terms, and is not named after the
    question, the rest of the question must be near the file without that word.

    ``model`` made the first of the ``vectors``; ``frequency`` is the inverse document
    frequency of each stem of the query.
    """
    query, thesaurus = source.query, thesaurus_of(model)
    candidate, evidence = best.candidate, best.candidate.evidence
    expansion_weight = sum(source.expansion.values())
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
    best_chunks = [
        (candidate.blob_id, next(iter(ordinals)))
        for ordinals in (evidence.words, evidence.meaning)
        if ordinals
    ]
    held = await source.held_terms(best_chunks[0], spoken) if evidence.words else []
    if len(held) > 1:
        return False
    if not held:
        return evidence.nearest < thesaurus.background(query.plain) + HARDLY_NEAR
    rest = _without(query.plain, {spoken[term] for term in held})
    vector = QueryVector(vectors[0].profile, await model.embed_query(rest))
    [rows] = await source.cosines([(vector, set(best_chunks))])
    near = max((cosine for _, cosine in scaled_cosines(vector, rows)), default=1.0)
    return near < thesaurus.background(rest) + HARDLY_NEAR


def _without(text: str, stems: Collection[str]) -> str:
    """A text without the words that have any of some stems."""
    return " ".join(word for word in words_of(text) if not set(word_stems(word)) & set(stems))
