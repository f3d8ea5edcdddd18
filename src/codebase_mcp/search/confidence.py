"""How sure is it that these files answer the question? Pure.

Three logistic functions and a cut. The first says, from absolute evidence, whether the question
has to do with this code at all, so that a question about something else finds nothing. The second
says how likely the first file is a right one, the third how likely each of the others is, given
that and how far it is behind. A file far behind is not shown. The functions are fitted on annotated
queries by ``benchmarks/calibrate.py``; how well they hold: ``docs/search-quality.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, mul

from codebase_mcp.search.query import Query
from codebase_mcp.search.ranking import RankedFile

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

# At these odds the question clearly has to do with the code. Then its first file has this score at
# least: the evidence cannot tell a question that nothing answers from one that is hard to answer.
CLEARLY_RELATED = 1.6
LEAST_FIRST = 0.5

# A file whose score is a smaller share of the first one's is not shown, unless one of its chunks
# holds everything that was asked for.
LEAST_LEAD = 0.3
FULL_COVERAGE = 1.0

# This many files before the first one by the query's expansion terms halve that evidence.
RANKS_HALVING = 3

FIRST_WEIGHTS: Mapping[str, float] = {
    "intercept": -4.064,
    "coverage": 0.393,
    "name": -0.381,
    "definition": 1.571,
    "meaning": 3.141,
    "apart": 3.008,
    "ahead": 3.630,
    "expanded": 0.330,
    "behind": -3.068,
    "unknown": 1.791,
}

OTHERS_WEIGHTS: Mapping[str, float] = {
    "intercept": -8.045,
    "first": 0.221,
    "lead": 7.103,
}


@dataclass(frozen=True, slots=True)
class QueryEvidence:
    """The evidence in the first files that a question has to do with the code.

    These are the highest values of any of the files: ``coverage`` (how much of the question the
    best chunk holds, see `RankedFile`), ``name``, ``definition``, ``meaning`` (cosine of the
    nearest chunk) and ``mean_meaning`` (of the nearest three). ``spread`` is how much nearer the
    nearest chunk is than the last in the list of meaning, ``unknown`` the share of the question's
    words that occur nowhere, ``words`` the logarithm of one more than their number,
    ``known_coverage`` the coverage times the share of known words, ``topic`` how much the question
    is about software at all (log odds, 0 if the model cannot say).
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

    @property
    def odds(self) -> float:
        """How likely the question has to do with the code: log odds, to compare with `FLOOR`."""
        return _sum(RELATED_WEIGHTS, self)


@dataclass(frozen=True, slots=True)
class FirstEvidence:
    """The evidence that the first file is a right one, comparable between queries.

    Its ``coverage``, ``name``, ``definition`` and ``meaning``; ``apart`` and ``ahead``, how far its
    ranking score is above the tenth file's and the second's, as a share of its own; ``expanded``,
    how high it is by the query's expansion terms alone (1 for the first, `RANKS_HALVING` places
    later half of it, 0 without any); ``behind``, how much nearer in meaning another file's nearest
    chunk is; ``unknown``, the share of the question's words that occur nowhere.
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


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a file is: ``similarity`` is its score, from 0 to 1.

    ``lead`` is its ranking score as a share of the first file's.
    """

    similarity: float
    lead: float


# The attributes that the weights after the intercept belong to, in their order.
_VALUES: Mapping[type, attrgetter[tuple[float, ...]]] = {
    QueryEvidence: attrgetter(*list(RELATED_WEIGHTS)[1:]),
    FirstEvidence: attrgetter(*list(FIRST_WEIGHTS)[1:]),
}

# Where the index's model is not available: values that most questions about the code exceed.
ASSUMED_MEANING = {"meaning": 0.55, "mean_meaning": 0.45, "spread": 0.2}


def query_evidence(
    query: Query,
    ranked: Sequence[RankedFile],
    *,
    least_meaning: float | None,
    unknown: float,
    topic: float,
) -> QueryEvidence:
    """The evidence in the first files.

    ``least_meaning`` is the last cosine in the list of meaning, None where no model was available.
    """
    first = ranked[:FILES_CONSIDERED]
    coverage = min(max((file.coverage for file in first), default=0.0), MOST)
    meaning = max((file.candidate.evidence.best_meaning for file in first), default=0.0)
    if least_meaning is None:
        meanings = ASSUMED_MEANING
    else:
        meanings = {
            "meaning": meaning,
            "mean_meaning": _most(first, "meaning"),
            "spread": meaning - least_meaning,
        }
    return QueryEvidence(
        coverage=coverage,
        name=_most(first, "name"),
        definition=min(_most(first, "definition"), MOST),
        **meanings,
        unknown=unknown,
        words=math.log1p(sum(term.spoken for term in query.terms)),
        known_coverage=coverage * (1 - unknown),
        topic=topic,
    )


def confidences(ranked: Sequence[RankedFile], asked: QueryEvidence) -> list[Confidence]:
    """How sure each of the ranked files is, in order.

    A score is the square root of the fitted probability that the file is a right one. So a
    probability of 0.81 becomes 0.9, which the tools' scale calls "excellent", and 0.5 becomes 0.7,
    "fair". Of the first file all evidence counts. Of the others only the first one's probability
    and their own lead do, so that files keep the order of the ranking.
    """
    if not ranked:
        return []
    top = ranked[0].score
    leads = [file.score / top if top > 0 else 0.0 for file in ranked]
    odds = _sum(FIRST_WEIGHTS, first_evidence(ranked, leads, asked.unknown))
    first = max(_score(odds), LEAST_FIRST if asked.odds >= CLEARLY_RELATED else 0.0)
    intercept, by_first, by_lead = OTHERS_WEIGHTS.values()
    base = intercept + by_first * odds
    others = (Confidence(min(first, _score(base + by_lead * lead)), lead) for lead in leads[1:])
    return [Confidence(first, 1.0), *others]


def first_evidence(
    ranked: Sequence[RankedFile], leads: Sequence[float], unknown: float
) -> FirstEvidence:
    """The evidence that the first file is a right one; ``leads`` are those of `Confidence`."""
    best, second = ranked[0], leads[1] if len(leads) > 1 else 0.0
    nearest = [file.candidate.evidence.nearest for file in ranked]
    # What is asked for is nowhere else: it needs no others behind it, and meaning says nothing.
    only_place = best.signals["only_place"]
    tenth = max(leads[:FILES_CONSIDERED][-1], 0.0)
    return FirstEvidence(
        coverage=min(best.coverage, MOST),
        name=best.signals["name"],
        definition=min(best.signals["definition"], MOST),
        meaning=best.signals["meaning"],
        apart=only_place if len(leads) == 1 else 1.0 - tenth if best.score > 0 else 0.0,
        ahead=only_place if len(leads) == 1 else 1.0 - second if second > 0 else 0.0,
        expanded=_expanded(ranked),
        behind=0.0 if only_place else max(nearest) - nearest[0],
        unknown=unknown,
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


def _sum(weights: Mapping[str, float], evidence: QueryEvidence | FirstEvidence) -> float:
    intercept, *factors = weights.values()
    return sum(map(mul, factors, _VALUES[type(evidence)](evidence)), intercept)


def _most(files: Sequence[RankedFile], signal: str) -> float:
    return max((file.signals[signal] for file in files), default=0.0)
