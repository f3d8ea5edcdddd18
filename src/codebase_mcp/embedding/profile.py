"""The versions and the model that made an index.

A profile holds the versions of the chunker and the word index, and the embedding model with
its recipe: the facts needed to open it again. Addresses and keys are not stored: they are the
settings of each process, and write access to the database must not be able to change them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codebase_mcp.embedding.embedder import ModelFacts
from codebase_mcp.embedding.providers import Provider
from codebase_mcp.embedding.scale import BUILTIN_SCALE, Scale


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to open a model: provider, folder or name (None: the built-in model), and prefixes."""

    provider: Provider = "static"
    model: str | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None


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
    recipe: Recipe = Recipe()
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


def _numbers(version: str) -> tuple[int, ...]:
    """``2.10.3`` as comparable numbers; a version without numbers is the oldest."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
