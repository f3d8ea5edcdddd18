"""The interface of every embedding model: a text's vector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.secrets.masking import mask
from codebase_mcp.text.counting import WordBags

Vectors = NDArray[np.float32]


def unit_rows(vectors: NDArray[np.floating]) -> Vectors:
    """Each vector divided by its Euclidean norm; a vector of zeros stays as it is."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), np.float32)


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts to embed, with their words already counted: indexing counts them in any case."""

    texts: Sequence[str]
    bags: WordBags


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What identifies a model. Vectors of different fingerprints are never compared.

    ``fingerprint`` changes whenever the same text would get a different vector.
    """

    name: str
    fingerprint: str
    dimension: int


class Embedder(Protocol):
    """Turns text into unit vectors; their inner product is the similarity of two texts.

    A method that needs a service raises EmbeddingUnavailable if the service is unreachable, lacks
    the model, or sends an invalid vector.
    """

    sends_texts: ClassVar[bool]
    """Whether texts leave this machine's processes for a service."""

    @property
    def name(self) -> str:
        """The model's name, known without a request."""
        ...

    async def identify(self) -> ModelFacts:
        """The facts about the model; requested once, then kept."""
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The unit vectors of some texts, shape (len(texts), dimension).

        A text without any known word has a row of zeros.
        """
        ...

    async def embed_query(self, query: str) -> Vectors:
        """The unit vector of a query, shape (dimension,); zeros where no word is known."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


async def as_sent(embedder: Embedder, question: str) -> str:
    """A question, without its secrets if a service embeds it.

    It is masked as it came in: where its lines are joined, a setting is no longer recognized.
    """
    if not embedder.sends_texts:
        return question
    return (await asyncio.to_thread(mask, question)).text  # the rules may have to be loaded
