"""What was this index made with?

A profile names the versions of the program that cut and counted, and the model that embedded. It
holds what is needed to open that model again: never an address or a key, which are the reader's
own, and which nobody who can write to the database may choose for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.embedding.choice import Provider
from codebase_mcp.embedding.embedder import ModelFacts
from codebase_mcp.embedding.scale import BUILTIN_SCALE, Scale


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to open a model: by whom, its folder or name (None: the built-in one), its prefixes."""

    provider: Provider = "static"
    model: str | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What an index was made with; indexes of one fingerprint hold comparable rows.

    ``fingerprint`` is the version of the program and that of the model, joined by a dash. ``id`` is
    the profile's number in one project, 0 where it is not stored yet.
    """

    id: int
    fingerprint: str
    model: str
    dimension: int
    recipe: Recipe = Recipe()
    scale: Scale = BUILTIN_SCALE

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Profile:
        """From the columns that every statement selects, in the order of the table."""
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
        """The profile of an index that is to be made."""
        fingerprint = f"{version}-{facts.fingerprint}"
        return cls(0, fingerprint, facts.name, facts.dimension, recipe)

    @property
    def version(self) -> str:
        """The version of the program, as far as it decides what is stored."""
        return self.fingerprint.partition("-")[0]

    @property
    def model_fingerprint(self) -> str:
        """The version of the model."""
        return self.fingerprint.partition("-")[2]

    def is_older(self, version: str) -> bool:
        """Whether an earlier version of the program made the rows of an index."""
        return _numbers(self.version) < _numbers(version)

    def is_newer(self, version: str) -> bool:
        """Whether a later version made them."""
        return _numbers(self.version) > _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    """``2.10.3`` as numbers, to be compared; what has none is older than anything."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
