"""The versions and the model that made an index, and the scale of its cosines.

A profile holds the versions of the chunker and the word index, and the embedding model with
its recipe: the facts needed to open it again. Addresses and keys are not stored: they are the
settings of each process, and write access to the database must not be able to change them.

The thresholds of search were fitted with the built-in model, and cosines of different models cannot
be compared: with some models 0.4 is high, with others two random texts have 0.6. So each model is
calibrated once on the same thirty questions. A linear map brings two points to those of the
built-in model: the mean cosine of related pairs, and the 95th percentile of unrelated pairs. (Not
their mean: among thousands of chunks the best unrelated chunk must not pass for an answer.)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from codebase_mcp.embedding.embedder import Embedder, ModelFacts, Vectors
from codebase_mcp.embedding.providers import Recipe
from codebase_mcp.processes import task_group

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


@dataclass(frozen=True, slots=True)
class Profile:
    """The versions and the model that made an index.

    Rows of indexes with the same fingerprint can be compared.

    ``fingerprint`` joins the version of the program and that of the model with a dash. ``id`` is
    the profile's number in one project, 0 where it is not stored yet.
    """

    id: int
    fingerprint: str
    model: str
    dimension: int
    recipe: Recipe = field(default_factory=Recipe)
    scale: Scale = BUILTIN_SCALE

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Profile:
        """From the columns of the table, in their order."""
        number, fingerprint, model, dimension, provider, source, query, passage, slope, shift = row
        return cls(
            number,
            fingerprint,
            model,
            dimension,
            Recipe(provider, source, query, passage),
            Scale(slope, shift),
        )

    @classmethod
    def of(cls, version: str, facts: ModelFacts, recipe: Recipe) -> Profile:
        fingerprint = f"{version}-{facts.fingerprint}"
        return cls(0, fingerprint, facts.name, facts.dimension, recipe)

    @property
    def version(self) -> str:
        """The version of the program's stored formats."""
        return self.fingerprint.partition("-")[0]

    @property
    def model_fingerprint(self) -> str:
        return self.fingerprint.partition("-")[2]

    def is_older(self, version: str) -> bool:
        """Whether an earlier version of the program made the rows of an index."""
        return _numbers(self.version) < _numbers(version)

    def is_newer(self, version: str) -> bool:
        """Whether a later version of the program made them."""
        return _numbers(self.version) > _numbers(version)


@cache
def _numbers(version: str) -> tuple[int, ...]:
    """``2.10.3`` as comparable numbers; a version without numbers is the oldest."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


async def measure_scale(embedder: Embedder) -> Scale:
    """The scale of a model, from the vectors of the pairs.

    Raises:
        EmbeddingUnavailable: the model is unavailable.
    """
    passages, questions = _pairs()
    texts = await embedder.embed_passages(passages)
    async with task_group() as group:
        asked = [group.create_task(embedder.embed_query(question)) for question in questions]
    return scale_of(np.stack([task.result() for task in asked]), texts)


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
