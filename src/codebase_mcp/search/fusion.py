"""How near are these chunks in meaning, when two models say so? Pure.

Both cosines are on the built-in model's scale. A chunk that the stronger model has not embedded yet
has the first one's alone, and is neither better nor worse off for that.
"""

from __future__ import annotations

from collections.abc import Mapping

# A chunk of a text: the text's number, and which of its chunks.
Place = tuple[int, int]

# How much of the nearness the stronger model decides.
STRONGER_SHARE = 0.5


def fuse(first: Mapping[Place, float], stronger: Mapping[Place, float]) -> dict[Place, float]:
    """The nearness of every chunk that either model knows."""
    fused = {**stronger, **first}
    for place, cosine in stronger.items():
        if place in first:
            fused[place] = (1 - STRONGER_SHARE) * first[place] + STRONGER_SHARE * cosine
    return fused
