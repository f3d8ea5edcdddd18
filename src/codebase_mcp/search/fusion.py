"""How near are these chunks in meaning, when two models say so? Pure.

Both cosines are on the built-in model's scale. A chunk that the secondary model has not embedded
yet keeps the primary model's cosine, which neither favours it nor holds it back.
"""

from __future__ import annotations

from collections.abc import Mapping

# A chunk: the id of its text, and its ordinal there.
ChunkKey = tuple[int, int]

# How much of the cosine the secondary model decides.
SECONDARY_SHARE = 0.5


def fuse(
    primary: Mapping[ChunkKey, float], secondary: Mapping[ChunkKey, float]
) -> dict[ChunkKey, float]:
    """The cosine of every chunk that either model has compared with the query."""
    fused = {**secondary, **primary}
    for chunk, cosine in secondary.items():
        if chunk in primary:
            fused[chunk] = (1 - SECONDARY_SHARE) * primary[chunk] + SECONDARY_SHARE * cosine
    return fused
