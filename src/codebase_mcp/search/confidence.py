"""How sure is it that these files answer the question? Pure.

Two logistic functions and a cut. The first says, from absolute evidence, whether the question has
to do with this code at all, so that a question about something else finds nothing. The second says
how likely a file is the right one, from that evidence and the file's lead over the others. A file
far behind the first is not shown. The functions are fitted on annotated queries by
``benchmarks/calibrate.py``; how well they hold: ``docs/search-quality.md``.
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

# A file whose score is a smaller share of the first one's is not shown, unless one of its chunks
# holds everything that was asked for.
LEAST_LEAD = 0.3
FULL_COVERAGE = 1.0

MATCH_WEIGHTS: Mapping[str, float] = {
    "intercept": -8.322,
    "coverage": -0.271,
    "name": 0.046,
    "definition": 0.336,
    "meaning": 1.288,
    "lead": 6.779,
    "ahead": 7.636,
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
class FileEvidence:
    """The evidence that a file is the right one, comparable between queries.

    ``coverage``, ``name``, ``definition`` and ``meaning`` are those of the best file: they say how
    well the question is answered at all. Of the file itself only its position counts, so that
    files keep the order of the ranking: ``lead`` is its ranking score as a share of the best
    file's. ``ahead`` is how far the first file is ahead of the second by the same measure, 0 for
    the others.
    """

    coverage: float
    name: float
    definition: float
    meaning: float
    lead: float
    ahead: float


# The attributes that the weights after the intercept belong to, in their order.
_VALUES: Mapping[type, attrgetter[tuple[float, ...]]] = {
    QueryEvidence: attrgetter(*list(RELATED_WEIGHTS)[1:]),
    FileEvidence: attrgetter(*list(MATCH_WEIGHTS)[1:]),
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


def file_evidence(ranked: Sequence[RankedFile]) -> list[FileEvidence]:
    """The evidence for each of the ranked files, in order."""
    if not ranked:
        return []
    best = ranked[0]
    top = best.score
    second = ranked[1].score if len(ranked) > 1 else 0.0
    first = FileEvidence(
        coverage=min(best.coverage, MOST),
        name=best.signals["name"],
        definition=min(best.signals["definition"], MOST),
        meaning=best.signals["meaning"],
        lead=1.0,
        ahead=(top - second) / top if second > 0 else 0.0,
    )
    leads = (file.score / top if top > 0 else 0.0 for file in ranked[1:])
    shared = first.coverage, first.name, first.definition, first.meaning
    return [first, *(FileEvidence(*shared, lead, 0.0) for lead in leads)]


def similarity(evidence: FileEvidence) -> float:
    """A score from 0 to 1 for a file.

    It is the square root of the fitted probability that the file is a right one. So a probability
    of 0.81 becomes 0.9, which the tools' scale calls "excellent", and 0.5 becomes 0.7, "fair".
    """
    return math.sqrt(1 / (1 + math.exp(-_sum(MATCH_WEIGHTS, evidence))))


def _sum(weights: Mapping[str, float], evidence: QueryEvidence | FileEvidence) -> float:
    intercept, *factors = weights.values()
    return sum(map(mul, factors, _VALUES[type(evidence)](evidence)), intercept)


def _most(files: Sequence[RankedFile], signal: str) -> float:
    return max((file.signals[signal] for file in files), default=0.0)
