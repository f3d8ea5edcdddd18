"""Cosines of any model, brought to the built-in model's scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.embedding.conftest import chosen

from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import (
    BUILTIN_SCALE,
    RELATED,
    UNRELATED,
    Recipe,
    measure_scale,
    scale_of,
)
from codebase_mcp.embedding.providers import open_embedder
from codebase_mcp.embedding.static import StaticEmbedder


@pytest.mark.anyio
async def test_the_builtin_models_cosines_stay_what_they_are() -> None:
    assert await measure_scale(StaticEmbedder.load()) == BUILTIN_SCALE
    assert BUILTIN_SCALE.apply(-0.1) == -0.1


@pytest.mark.anyio
async def test_the_builtin_models_scale_is_known_without_embedding_anything() -> None:
    models = Models.open(Recipe())
    nobody = open_embedder(*chosen("ollama", "any", url="http://127.0.0.1:9"))
    model = replace(await models.primary(), embedder=nobody)
    assert await models.scale_of(model) == BUILTIN_SCALE


def cosines(related: float, unrelated: float) -> tuple[np.ndarray, np.ndarray]:
    """Questions and passages whose inner products are these."""
    passages = np.eye(30, dtype=np.float32)
    questions = np.full((30, 30), unrelated, np.float32)
    np.fill_diagonal(questions, related)
    return questions, passages


@pytest.mark.parametrize(("related", "unrelated"), [(0.9, 0.7), (0.5, 0.0), (0.8, 0.6)])
def test_a_model_with_other_cosines_is_brought_to_the_same_ones(
    related: float, unrelated: float
) -> None:
    scale = scale_of(*cosines(related, unrelated))
    assert scale.apply(related) == pytest.approx(RELATED, abs=0.01)
    assert scale.apply(unrelated) == pytest.approx(UNRELATED, abs=0.01)
    assert scale.apply(1.0) <= 1.0
    assert scale.apply(-1.0) == 0.0


def test_a_model_with_equal_cosines_for_everything_gives_no_evidence() -> None:
    scale = scale_of(*cosines(0.7, 0.7))
    assert scale.apply(0.7) == pytest.approx(UNRELATED, abs=0.01)
    assert scale.apply(0.72) < RELATED
