"""How are arrays and vectors written as text? Some times faster than letting the driver do it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from codebase_mcp.text.tokens import TERM_SPACE

# Digits after the point; short texts are sent and read faster.
WEIGHT_DIGITS = 5
VECTOR_DIGITS = 4


def array_literal(numbers: Iterable[int]) -> str:
    """An array as text."""
    return "{" + ",".join(map(str, numbers)) + "}"


def sparse_literal(weights: Mapping[int, float]) -> str:
    """A sparsevec as text; its positions are 1-based there."""
    inner = ",".join(
        f"{term + 1}:{weight:.{WEIGHT_DIGITS}f}" for term, weight in sorted(weights.items())
    )
    return f"{{{inner}}}/{TERM_SPACE}"


def dense_literal(vector: NDArray[Any]) -> str:
    """A halfvec as text."""
    return "[" + ",".join(f"{x:.{VECTOR_DIGITS}f}" for x in vector.tolist()) + "]"
