"""How sure is it that this file answers the question? Pure.

A logistic function of the evidence, fitted by ``benchmarks/calibrate.py`` on annotated queries, so
that a score means the same whatever the query: of the hits at 0.9 and above most are relevant,
below 0.6 few.
"""

from __future__ import annotations

import math

from codebase_mcp.search.ranking import RankedFile

# Below this a file is no answer: a query that has nothing to do with the code gives none.
FLOOR = 0.2

INTERCEPT = -4.0
COEFFICIENTS = {"coverage": 3.0, "name": 2.0, "definition": 1.5, "meaning": 5.0, "lead": 1.0}


def evidence_of(ranked: RankedFile, top_score: float) -> dict[str, float]:
    """The inputs of the logistic function."""
    signals = ranked.signals
    return {
        "coverage": min(ranked.coverage, 1.5),
        "name": signals.get("name", 0.0),
        "definition": signals.get("definition", 0.0),
        "meaning": signals.get("meaning", 0.0),
        "lead": ranked.score / top_score if top_score > 0 else 0.0,
    }


def similarity(ranked: RankedFile, top_score: float) -> float:
    """A score from 0 to 1 for a ranked file; ``top_score`` is the ranking score of the first."""
    evidence = evidence_of(ranked, top_score)
    z = INTERCEPT + sum(COEFFICIENTS[name] * value for name, value in evidence.items())
    return 1 / (1 + math.exp(-z))
