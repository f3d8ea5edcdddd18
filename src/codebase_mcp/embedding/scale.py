"""How much do this model's cosines say, in the built-in model's terms?

What is enough evidence for an answer was fitted with the built-in model, and cosines of different
models cannot be compared: for one 0.4 is much, for another two texts at random have 0.6. So each
model is measured once on the same few questions, and its cosines are mapped by a line that brings
two points to where the built-in model has them: what related pairs have on average, and what one in
twenty unrelated pairs has. (The latter's average says too little: among thousands of chunks it is
the best of the unrelated that must not pass for an answer.)
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

# What the built-in model has of the pairs in ``scale.toml``.
RELATED = 0.5902
UNRELATED = 0.2337
UNRELATED_SHARE = 0.95

# A model that hardly tells the pairs apart is not stretched any further than this distance asks.
LEAST_DISTANCE = 0.1


@dataclass(frozen=True, slots=True)
class Scale:
    """Cosines of a model, brought to where the built-in model's are."""

    slope: float = 1.0
    shift: float = 0.0

    def apply(self, cosine: float) -> float:
        """What a cosine of this model is worth; between 0 and 1 unless it is left as it is."""
        if self == BUILTIN_SCALE:
            return cosine
        return min(max(self.slope * cosine + self.shift, 0.0), 1.0)


BUILTIN_SCALE = Scale()


async def measure_scale(embedder: Embedder) -> Scale:
    """Embed the pairs and compare them.

    Raises:
        EmbeddingUnavailable: the embedder is away.
    """
    passages, questions = _pairs()
    texts = await embedder.embed_passages(passages)
    asked = await asyncio.gather(*map(embedder.embed_query, questions))
    return scale_of(np.stack(asked), texts)


def scale_of(questions: Vectors, passages: Vectors) -> Scale:
    """The scale of a model that gives questions and their passages, in order, these vectors."""
    cosines = questions @ passages.T
    own = np.eye(len(cosines), dtype=bool)
    related = float(cosines[own].mean())
    unrelated = float(np.quantile(cosines[~own], UNRELATED_SHARE))
    slope = (RELATED - UNRELATED) / max(related - unrelated, LEAST_DISTANCE)
    # Two decimals are as exact as thirty pairs are; and the built-in model's scale is 1 and 0.
    return Scale(round(slope, 2), round(UNRELATED - slope * unrelated, 2) + 0.0)


@cache
def _pairs() -> tuple[list[str], list[str]]:
    """Passages, and the question that each of them answers."""
    text = files("codebase_mcp.embedding").joinpath("scale.toml").read_text(encoding="utf-8")
    pairs: list[dict[str, Any]] = tomllib.loads(text)["pair"]
    return [pair["passage"] for pair in pairs], [pair["question"] for pair in pairs]
