"""Calibrates the cosines of a model to those of the built-in model.

The thresholds of search were fitted with the built-in model, and cosines of different models cannot
be compared: with some models 0.4 is high, with others two random texts have 0.6. So each model is
calibrated once on the same thirty questions. A linear map brings two points to those of the
built-in model: the mean cosine of related pairs, and the 95th percentile of unrelated pairs. (Not
their mean: among thousands of chunks the best unrelated chunk must not pass for an answer.)
"""

from __future__ import annotations

import asyncio
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from codebase_mcp.embedding.embedder import Embedder, Vectors

# The two points of the built-in model, for the pairs in ``scale.toml``.
RELATED = 0.5902
UNRELATED = 0.2337
UNRELATED_QUANTILE = 0.95

# The slope is limited for a model that hardly separates related from unrelated pairs.
MIN_DISTANCE = 0.1


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear calibration of a model's cosines to those of the built-in model."""

    slope: float = 1.0
    shift: float = 0.0

    def apply(self, cosine: float) -> float:
        """The calibrated cosine, between 0 and 1; the built-in model's is unchanged."""
        if self == BUILTIN_SCALE:
            return cosine
        return min(max(self.slope * cosine + self.shift, 0.0), 1.0)


BUILTIN_SCALE = Scale()


async def measure_scale(embedder: Embedder) -> Scale:
    """The scale of a model, from the vectors of the pairs.

    Raises:
        EmbeddingUnavailable: the model is unavailable.
    """
    passages, questions = _pairs()
    texts = await embedder.embed_passages(passages)
    asked = await asyncio.gather(*map(embedder.embed_query, questions))
    return scale_of(np.stack(asked), texts)


def scale_of(questions: Vectors, passages: Vectors) -> Scale:
    """The scale from the vectors of questions, and of their passages in the same order."""
    cosines = questions @ passages.T
    own = np.eye(len(cosines), dtype=bool)
    related = float(cosines[own].mean())
    unrelated = float(np.quantile(cosines[~own], UNRELATED_QUANTILE))
    slope = (RELATED - UNRELATED) / max(related - unrelated, MIN_DISTANCE)
    # Thirty pairs are not more exact than two decimals. The built-in model's scale is then 1 and 0.
    return Scale(round(slope, 2), round(UNRELATED - slope * unrelated, 2) + 0.0)


@cache
def _pairs() -> tuple[list[str], list[str]]:
    """The passages, and the question that each of them answers."""
    text = files("codebase_mcp.embedding").joinpath("scale.toml").read_text(encoding="utf-8")
    pairs: list[dict[str, Any]] = tomllib.loads(text)["pair"]
    return [pair["passage"] for pair in pairs], [pair["question"] for pair in pairs]
