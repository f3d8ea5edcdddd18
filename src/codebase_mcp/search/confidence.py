"""How sure is it that these files answer the question? Pure.

Four logistic functions and a cut. The first says, from absolute evidence, whether the question
has to do with software like this at all, so that a question about something else finds nothing. The
second says whether this code has what is asked for: if it hardly can, no score reaches 0.5. The
third says how likely the first file is a right one, the fourth how likely each of the others is,
given that and how far it is behind. A file far behind is not shown. The functions are fitted on
annotated queries by ``benchmarks/calibrate.py``; how well they hold: ``docs/search-quality.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, mul
from typing import Any

from codebase_mcp.search.lists import MEANING_CHUNKS
from codebase_mcp.search.query import Query, name_stems
from codebase_mcp.search.ranking import RankedFile
from codebase_mcp.search.signals import path_facts

# How many of the first files show whether the question has to do with the code.
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

# Below these log odds the question has nothing to do with the code.
FLOOR = -0.21

# Log odds by which the evidence in some files may exceed that in all files: the nearest chunk
# stands out among fewer, and fewer files have a name in common.
MOST_GAINED_BY_FILTERS = 2.0

HERE_WEIGHTS: Mapping[str, float] = {
    "intercept": 1.429,
    "coverage": 0.788,
    "mean_meaning": 11.656,
    "spread": -4.771,
    "background": -7.134,
    "expansion_coverage": 4.118,
    "size": -0.494,
}

# The more chunks, the nearer the nearest one by chance. No larger project was fitted on, and hardly
# a smaller one.
LEAST_CHUNKS, MOST_CHUNKS = 300, 10_000

# Below these log odds this code hardly has what is asked for.
LEAST_HERE = -1.56

# Higher odds count as these, and those of an identifier that occurs nowhere are their opposite.
MOST_HERE = 4.0

# The first file's score where this code may have what is asked for, at least, and where it hardly
# can, at most: the evidence cannot tell a question that nothing answers from one that is hard to
# answer.
LEAST_FIRST = 0.5
MOST_ELSEWHERE = 0.49

# A file whose score is a smaller share of the first one's is not shown, unless one of its chunks
# holds everything that was asked for.
LEAST_LEAD = 0.3
FULL_COVERAGE = 1.0

# This many files before the first one by the query's expansion terms halve that evidence.
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
    "here": 0.303,
}

OTHERS_WEIGHTS: Mapping[str, float] = {
    "intercept": -7.991,
    "first": 0.211,
    "lead": 6.986,
}


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What is known of a question beside its candidates, see `QueryEvidence`.

    ``least_meaning`` is the last cosine in the list of meaning, None where no model was available.
    ``chunks`` is the number of chunks searched.
    """

    least_meaning: float | None
    unknown: float
    topic: float
    background: float
    expansion_coverage: float
    chunks: int


@dataclass(frozen=True, slots=True)
class QueryEvidence:
    """The evidence in the first files that a question has to do with the code.

    These are the highest values of any of the files: ``coverage`` (how much of the question the
    best chunk holds, see `RankedFile`), ``name``, ``definition``, ``meaning`` (cosine of the
    nearest chunk) and ``mean_meaning`` (of the nearest three). ``spread`` is how much nearer the
    nearest chunk is than the last in the list of meaning, ``unknown`` the share of the question's
    words that occur nowhere, ``words`` the logarithm of one more than their number,
    ``known_coverage`` the coverage times the share of known words, ``topic`` how much the question
    is about software at all (log odds, 0 if the model cannot say). ``background`` is a cosine that
    the nearest chunks would have if this code had what is asked for (`Thesaurus.background`);
    ``expansion_coverage`` is how much of the question's expansion terms the best chunk by them
    holds, ``size`` the logarithm of the number of chunks, within `LEAST_CHUNKS` and `MOST_CHUNKS`;
    ``missing`` says that the question is an identifier that occurs nowhere, and is no file's name
    either, ``literal`` that it is a word of the code, or stands in small code as it is;
    ``small`` is the `smallness` of the code.
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
        """Whether the question has anything to do with the code."""
        return self.literal or self.odds >= FLOOR

    @property
    def odds(self) -> float:
        """How likely the question has to do with the code: log odds, to compare with `FLOOR`."""
        return _related(self)

    @property
    def here(self) -> float:
        """How likely this code has what is asked for: log odds, to compare with `LEAST_HERE`.

        Where there is no background, as for an identifier, nothing speaks against it, unless the
        identifier occurs nowhere.
        """
        if self.missing:
            return -MOST_HERE
        return min(_here(self), MOST_HERE) if self.background else MOST_HERE


def is_doubtful(asked: QueryEvidence) -> bool:
    """Whether the evidence in files that pass a filter may be above `FLOOR`, and that in all not.

    It is not if even the question alone is above it, or if they are so without definitions, which
    tell more the fewer there are.
    """
    weights = RELATED_WEIGHTS
    alone = weights["intercept"] + sum(
        weights[fact] * getattr(asked, fact) for fact in ("unknown", "words", "topic")
    )
    without_definitions = asked.odds - weights["definition"] * asked.definition
    return bool(max(alone, without_definitions - MOST_GAINED_BY_FILTERS) < FLOOR)


@dataclass(frozen=True, slots=True)
class FirstEvidence:
    """The evidence that the first file is a right one, comparable between queries.

    Its ``coverage``, ``name``, ``definition`` and ``meaning``; ``apart`` and ``ahead``, how far its
    ranking score is above the tenth file's and the second's, as a share of its own; ``expanded``,
    how high it is by the query's expansion terms alone (1 for the first, `RANKS_HALVING` places
    later half of it, 0 without any); ``behind``, how much nearer in meaning another file's nearest
    chunk is; ``unknown``, the share of the question's words that occur nowhere; ``here``, how
    likely this code has what is asked for (log odds).
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
    here: float


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a file is: ``similarity`` is its score, from 0 to 1.

    ``lead`` is its ranking score as a share of the first file's.
    """

    similarity: float
    lead: float


class _Logistic:
    """Log odds from the attributes of some evidence; ``weights`` begin with the intercept."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        (_, self._intercept), *factors = weights.items()
        self._values: Callable[[Any], tuple[float, ...]] = attrgetter(
            *(name for name, _ in factors)
        )
        self._factors = [factor for _, factor in factors]

    def __call__(self, evidence: QueryEvidence | FirstEvidence) -> float:
        return sum(map(mul, self._factors, self._values(evidence)), self._intercept)


_related, _here, _first = map(_Logistic, (RELATED_WEIGHTS, HERE_WEIGHTS, FIRST_WEIGHTS))

# Where the index's model is not available: values that most questions about the code exceed.
ASSUMED_MEANING = {"meaning": 0.55, "mean_meaning": 0.45, "spread": 0.2, "background": 0.0}


def query_evidence(query: Query, ranked: Sequence[RankedFile], facts: QueryFacts) -> QueryEvidence:
    """The evidence in the first files, and in the code as a whole."""
    first = ranked[:FILES_CONSIDERED]
    coverage = min(max((file.coverage for file in first), default=0.0), MOST)
    meaning = max((file.candidate.evidence.best_meaning for file in first), default=0.0)
    if facts.least_meaning is None:
        meanings = ASSUMED_MEANING
    else:
        meanings = {
            "meaning": meaning,
            "mean_meaning": _most(first, "meaning"),
            "spread": meaning - facts.least_meaning,
            "background": facts.background,
        }
    defined = min(_most(first, "definition"), MOST)
    small = smallness(facts.chunks)
    return QueryEvidence(
        coverage=coverage,
        name=_most(first, "name"),
        definition=defined,
        **meanings,
        unknown=facts.unknown,
        words=math.log1p(sum(term.spoken for term in query.terms)),
        known_coverage=coverage * (1 - facts.unknown),
        topic=facts.topic,
        expansion_coverage=facts.expansion_coverage,
        size=math.log1p(min(max(facts.chunks, LEAST_CHUNKS), MOST_CHUNKS)),
        missing=query.is_symbol
        and facts.unknown > 0
        and not defined
        and not _names_a_file(query, first),
        literal=not facts.unknown
        and bool(query.terms)
        and (query.whole is not None or small * coverage >= WORD_FOR_WORD),
        small=small,
    )


def _names_a_file(query: Query, files: Iterable[RankedFile]) -> bool:
    """Whether one of the files has most of the query's words in its name."""
    asked = set(name_stems(query))
    return any(
        2 * len(asked.intersection(path_facts(file.candidate.path).name)) > len(asked)
        for file in files
    )


def confidences(
    ranked: Sequence[RankedFile], asked: QueryEvidence, *, by_chance: bool = False
) -> list[Confidence]:
    """How sure each of the ranked files is, in order.

    A score is the square root of the fitted probability that the file is a right one. So a
    probability of 0.81 becomes 0.9, which the tools' scale calls "excellent", and 0.5 becomes 0.7,
    "fair". Of the first file all evidence counts. Of the others only the first one's probability
    and their own lead do, so that files keep the order of the ranking. Where the first file answers
    ``by_chance`` (``chance.py``), no score is above `LEAST_FIRST`.
    """
    if not ranked:
        return []
    top = ranked[0].score
    leads = [file.score / top if top > 0 else 0.0 for file in ranked]
    odds = _first(first_evidence(ranked, leads, asked))
    is_here = asked.here >= LEAST_HERE or asked.literal
    first = max(_score(odds), LEAST_FIRST) if is_here else min(_score(odds), MOST_ELSEWHERE)
    if by_chance:
        first = min(first, LEAST_FIRST)
    intercept, by_first, by_lead = OTHERS_WEIGHTS.values()
    base = intercept + by_first * odds
    others = (Confidence(min(first, _score(base + by_lead * lead)), lead) for lead in leads[1:])
    return [Confidence(first, 1.0), *others]


def first_evidence(
    ranked: Sequence[RankedFile], leads: Sequence[float], asked: QueryEvidence
) -> FirstEvidence:
    """The evidence that the first file is a right one; ``leads`` are those of `Confidence`.

    In small code the file is held less against the others, and more against the question.
    """
    best, second = ranked[0], leads[1] if len(leads) > 1 else 0.0
    nearest = [file.candidate.evidence.nearest for file in ranked]
    # What is asked for is nowhere else: it needs no others behind it, and meaning says nothing.
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
        here=asked.here,
    )


def _expanded(ranked: Sequence[RankedFile]) -> float:
    """How high the first file is by the query's expansion terms, between 0 and 1."""
    own = ranked[0].signals["expansion"]
    if own <= 0:
        return 0.0
    before = sum(file.signals["expansion"] > own for file in ranked)
    return RANKS_HALVING / (RANKS_HALVING + before)


def _score(odds: float) -> float:
    return math.sqrt(1 / (1 + math.exp(-odds)))


def _most(files: Sequence[RankedFile], signal: str) -> float:
    return max((file.signals[signal] for file in files), default=0.0)


# Where no more chunks than this are searched, the list of meaning holds all of them, and its last
# one is the worst there is. From twice as many on, files are compared as in any larger code.
FEW_CHUNKS = MEANING_CHUNKS

# A chunk whose cosine is this much above the background is as near as one that answers.
CLEARLY_NEAR = 0.25

# A chunk that holds so much of a question says it word for word; a long one is held to less.
WORD_FOR_WORD = 0.8


def smallness(chunks: int) -> float:
    """1 where few chunks are searched, 0 where there are enough to compare files."""
    return min(max(2 - chunks / FEW_CHUNKS, 0.0), 1.0)


def support(best: RankedFile, background: float, unknown: float) -> float:
    """How much of a question a file holds, by words or by meaning, between 0 and 1.

    Meaning says the less, the larger the share of the question's words that occur nowhere.
    """
    above = best.candidate.evidence.nearest - background
    near = (1.0 - unknown) * min(above / CLEARLY_NEAR, 1.0) if background else 0.0
    return min(max(best.coverage, near, 0.0), 1.0)
