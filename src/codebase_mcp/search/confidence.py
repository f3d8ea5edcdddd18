"""How sure is it that this file answers the question? Pure.

Two questions, two answers. Whether a file has to do with the query at all is judged by absolute
evidence, so that a query about something else finds nothing. How likely it is the one that was
meant is a logistic function of that evidence and of its lead over the others, fitted on annotated
queries by ``benchmarks/calibrate.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from codebase_mcp.search.ranking import RankedFile

# Less evidence than this, and a file is no answer. Of 420 questions about other things (baking,
# chess, taxes …) to 21 repositories one in ten finds anything; of the relevant files of real
# queries 0.6 % are lost, where the query shares no word with the file's name 4 %.
FLOOR = 0.88

# Meaning counts double: a cosine of 0.45 is as rare for a question about something else as sharing
# nine tenths of its words.
_MEANT = 2.0
_NAMED = 0.3

INTERCEPT = -9.4
COEFFICIENTS: Mapping[str, float] = {
    "coverage": 0.95,
    "name": 0.9,
    "definition": 2.86,
    "meaning": 3.29,
    "lead": 5.56,
}


@dataclass(frozen=True, slots=True)
class Proof:
    """What speaks for a file, in amounts that mean the same for every query.

    ``lead`` is its ranking score as a share of the best file's.
    """

    coverage: float
    name: float
    definition: float
    meaning: float
    lead: float

    @property
    def weight(self) -> float:
        """How much there is in all, to hold against `FLOOR`."""
        return self.coverage + _MEANT * self.meaning + _NAMED * (self.name + self.definition)


def proof_of(ranked: RankedFile, top_score: float) -> Proof:
    """The proof for a ranked file; ``top_score`` is the ranking score of the first."""
    signals = ranked.signals
    return Proof(
        coverage=min(ranked.coverage, 1.5),
        name=signals["name"],
        definition=min(signals["definition"], 1.5),
        meaning=signals["meaning"],
        lead=ranked.score / top_score if top_score > 0 else 0.0,
    )


def similarity(proof: Proof) -> float:
    """A score from 0 to 1 for a file.

    It is the square root of the fitted probability that the file is one that the query meant: so
    the fitted 0.81 stands at 0.9, where the contract's scale says "excellent", and an even chance
    at 0.7, "fair".
    """
    z = (
        INTERCEPT
        + COEFFICIENTS["coverage"] * proof.coverage
        + COEFFICIENTS["name"] * proof.name
        + COEFFICIENTS["definition"] * proof.definition
        + COEFFICIENTS["meaning"] * proof.meaning
        + COEFFICIENTS["lead"] * proof.lead
    )
    return math.sqrt(1 / (1 + math.exp(-z)))
