"""What is the vector of this text? The promise that every embedder keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.counting import WordBags

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts to embed, with their words already counted: whoever indexes has counted them anyway."""

    texts: Sequence[str]
    bags: WordBags


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What identifies a model: vectors of different fingerprints are never compared.

    ``fingerprint`` changes whenever the same text would get another vector.
    """

    name: str
    fingerprint: str
    dimension: int


class Embedder(Protocol):
    """Turns text into unit vectors whose inner product says how near two meanings are.

    Every method that needs a service raises EmbeddingUnavailable where that is away, lacks the
    model, or answers with what is no vector of it.
    """

    @property
    def name(self) -> str:
        """The model's name, known without asking anybody."""
        ...

    async def identify(self) -> ModelFacts:
        """What the model is; asked once, then known."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The vectors of some texts, shape (len(texts), dimension); rows of length 1.

        A text that means nothing to the model has a row of zeros.
        """
        ...

    async def embed_query(self, query: str) -> Vectors:
        """The vector of a question, shape (dimension,); zeros where it means nothing."""
        ...

    async def close(self) -> None:
        """Let connections go."""
        ...


class LocalSource(Protocol):
    """Loads a model; equal sources load the same one, and it can be sent to another process."""

    def __call__(self) -> LocalModel: ...

    def __hash__(self) -> int: ...


@runtime_checkable
class LocalModel(Protocol):
    """A model that needs nobody: worker processes embed with it, from words already counted."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def source(self) -> LocalSource:
        """Loads the same model in a worker process."""
        ...

    def encode_passages(self, passages: Passages) -> Vectors:
        """The vectors of some passages, as `Embedder.embed_passages` gives them."""
        ...
