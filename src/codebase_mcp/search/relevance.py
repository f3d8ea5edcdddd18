"""How relevant are short texts, such as observations and commits, to a question? Pure.

From two kinds of evidence: the words that a text shares with the question, and how near they are in
meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from codebase_mcp.search.query import Query

Id = TypeVar("Id", bound=Any)

# The least evidence of an answer. It grows with the number of compared texts, as does the evidence
# of the best unrelated text. About half of the questions about baking, chess or taxes find anything
# among the 150 texts of ``benchmarks/memory``; in a trial with 30 texts a sixth did.
FLOOR = 0.8
FLOOR_PER_DOUBLING = 0.03
FLOOR_FROM = 10

# The evidence at which half of the texts are answers, and the slope there. A logistic fit gives 2.0
# and 4.3 on ``benchmarks/memory``; among fewer texts less evidence is enough.
EVEN_EVIDENCE = 1.75
STEEPNESS = 4.4


@dataclass(frozen=True, slots=True)
class Weighing:
    """The weights of shared words and of nearness in meaning.

    With ``floored`` texts with little evidence are left out.
    """

    words: float = 1.0
    meaning: float = 3.0
    floored: bool = True


FUSED = Weighing()
WORDS_ONLY = Weighing(meaning=0.0, floored=False)
MEANING_ONLY = Weighing(words=0.0, floored=False)


@dataclass(frozen=True, slots=True)
class Match(Generic[Id]):
    """The evidence that a text answers a question.

    ``words`` is its BM25 score; ``cosine`` is 0 if the vectors cannot be compared.
    """

    id: Id
    words: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Recalled(Generic[Id]):
    """A text that answers a question; ``relevance`` lies between 0 and 1."""

    id: Id
    relevance: float


def nearness(whole: float | None, passage: float | None) -> float:
    """The mean cosine of a whole text and of its nearest passage.

    The answer may be a single sentence of a long text; the whole text gives the context.
    """
    if whole is None:
        return 0.0
    return whole if passage is None else (whole + passage) / 2


def rank(
    query: Query,
    frequency: Mapping[int, float],
    matches: Iterable[Match[Id]],
    compared: int,
    weighing: Weighing = FUSED,
) -> list[Recalled[Id]]:
    """The texts relevant to a question, best first.

    ``frequency`` is the inverse document frequency of each of its terms; the matches are the best
    of ``compared`` texts. A score by words is divided by the weight of the question, not by
    the best score: if even the best text has few of the words, the meaning decides.
    """
    asked_for = sum(frequency[term.id] for term in query.terms if term.spoken) or 1.0
    floor = floor_among(compared) if weighing.floored else 0.0
    scored = [
        (weighing.words * match.words / asked_for + weighing.meaning * match.cosine, match.id)
        for match in matches
    ]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return [Recalled(identity, relevance(score)) for score, identity in scored if score > floor]


def floor_among(compared: int) -> float:
    """The least evidence of an answer, given the number of texts compared."""
    return FLOOR + FLOOR_PER_DOUBLING * math.log2(max(compared / FLOOR_FROM, 1.0))


def relevance(evidence: float) -> float:
    """A score from 0 to 1: 0.9 and above excellent, 0.7 an even chance, below 0.6 poor."""
    return score_of(STEEPNESS * (evidence - EVEN_EVIDENCE))


def score_of(log_odds: float) -> float:
    """The square root of the probability with these log odds."""
    # exp of more than 709 overflows: a file may lie that far behind the only place of a name.
    return math.sqrt(1 / (1 + math.exp(min(-log_odds, 700.0))))
