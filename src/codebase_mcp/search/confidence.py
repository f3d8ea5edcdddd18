"""How sure is it that these files answer the question? Pure.

Three questions, three answers. Whether the question has to do with this code at all, a logistic
function of absolute evidence says, so that a question about something else finds nothing. How
likely a file is the one that was meant, another one says, of that evidence and of the file's lead
over the others. And a file far behind the first is no answer. The functions are fitted on annotated
queries by ``benchmarks/calibrate.py``; how well they hold, ``docs/search-quality.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, mul

from codebase_mcp.search.query import Query
from codebase_mcp.search.ranking import RankedFile

# What the first files show decides whether the question has to do with the code.
LOOKED_AT = 10

# Beyond this a file's best chunk says all that was asked for, and more says nothing more.
MOST = 1.5

RELATED: Mapping[str, float] = {
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

# Less evidence than this, and the question has nothing to do with the code.
FLOOR = -0.21

# A file whose score is a smaller share of the first one's is no answer, unless one of its chunks
# says all that was asked for.
LEAST_LEAD = 0.3
SAYS_ALL = 1.0

MEANT: Mapping[str, float] = {
    "intercept": -8.305,
    "coverage": -0.328,
    "name": -0.127,
    "definition": 0.111,
    "meaning": 0.530,
    "lead": 7.309,
    "ahead": 8.420,
    "related": 0.020,
}


@dataclass(frozen=True, slots=True)
class About:
    """What speaks for it that a question has to do with the code, as its first files show.

    The most of each file's evidence: ``coverage`` (how much of the question its best chunk says,
    see `RankedFile`), ``name``, ``definition``, ``meaning`` (cosine of the best chunk) and
    ``mean_meaning`` (of the best three). ``spread`` is how much nearer the best chunk is than the
    last in the list of meaning, ``unknown`` which share of the question's words occurs nowhere,
    ``words`` the logarithm of one more than their number, ``known_coverage`` the coverage times the
    share of known words, ``topic`` how much the question is about software at all (log odds, 0 if
    the model cannot say).
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
        """How likely the question has to do with the code: log odds, to hold against `FLOOR`."""
        return _sum(RELATED, self)


@dataclass(frozen=True, slots=True)
class Proof:
    """What speaks for a file, in amounts that mean the same for every query.

    What the best file shows says how well the question is answered at all: ``coverage``, ``name``,
    ``definition`` and ``meaning`` are its own. Of the file itself only its place counts, so that
    the score's order is the ranking's: ``lead`` is its ranking score as a share of the best file's,
    ``ahead`` how far the first is ahead of the second by the same measure, for the first alone.
    ``related`` are the question's odds.
    """

    coverage: float
    name: float
    definition: float
    meaning: float
    lead: float
    ahead: float
    related: float


# What each weight after the intercept belongs to, in their order.
_VALUES: Mapping[type, attrgetter[tuple[float, ...]]] = {
    About: attrgetter(*list(RELATED)[1:]),
    Proof: attrgetter(*list(MEANT)[1:]),
}

# Where the model of an index is gone: as near as a question about the code mostly comes at least.
ASSUMED = {"meaning": 0.55, "mean_meaning": 0.45, "spread": 0.2}


def about(
    query: Query, ranked: Sequence[RankedFile], *, least: float | None, unknown: float, topic: float
) -> About:
    """What the first files show of a question.

    ``least`` is the list of meaning's last cosine, None where no model could be asked.
    """
    first = ranked[:LOOKED_AT]
    coverage = min(max((file.coverage for file in first), default=0.0), MOST)
    meaning = max((file.candidate.evidence.best_meaning for file in first), default=0.0)
    if least is None:
        near = ASSUMED
    else:
        mean = _most(first, "meaning")
        near = {"meaning": meaning, "mean_meaning": mean, "spread": meaning - least}
    return About(
        coverage=coverage,
        name=_most(first, "name"),
        definition=min(_most(first, "definition"), MOST),
        **near,
        unknown=unknown,
        words=math.log1p(sum(term.spoken for term in query.terms)),
        known_coverage=coverage * (1 - unknown),
        topic=topic,
    )


def proofs_of(ranked: Sequence[RankedFile], related: float) -> list[Proof]:
    """The proof for each of the ranked files, in order; ``related`` are the question's odds."""
    if not ranked:
        return []
    best = ranked[0]
    top = best.score
    second = ranked[1].score if len(ranked) > 1 else 0.0
    first = Proof(
        coverage=min(best.coverage, MOST),
        name=best.signals["name"],
        definition=min(best.signals["definition"], MOST),
        meaning=best.signals["meaning"],
        lead=1.0,
        ahead=(top - second) / top if second > 0 else 0.0,
        related=related,
    )
    leads = (file.score / top if top > 0 else 0.0 for file in ranked[1:])
    shared = first.coverage, first.name, first.definition, first.meaning
    return [first, *(Proof(*shared, lead, 0.0, related) for lead in leads)]


def similarity(proof: Proof) -> float:
    """A score from 0 to 1 for a file.

    It is the square root of the fitted probability that the file is one that the query meant: so
    the fitted 0.81 stands at 0.9, where the contract's scale says "excellent", and an even chance
    at 0.7, "fair".
    """
    return math.sqrt(1 / (1 + math.exp(-_sum(MEANT, proof))))


def _sum(weights: Mapping[str, float], facts: About | Proof) -> float:
    intercept, *factors = weights.values()
    return sum(map(mul, factors, _VALUES[type(facts)](facts)), intercept)


def _most(files: Sequence[RankedFile], signal: str) -> float:
    return max((file.signals[signal] for file in files), default=0.0)
