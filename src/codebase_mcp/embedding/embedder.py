"""What is the vector of this text? The promise that every embedder keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.tokens import WordBags

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts to embed, with their words already counted: whoever indexes has counted them anyway."""

    texts: Sequence[str]
    bags: WordBags


class Embedder(Protocol):
    """Turns text into unit vectors whose inner product says how near two meanings are.

    ``fingerprint`` changes whenever the same text would get another vector; vectors of different
    fingerprints are never compared.
    """

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def encode_passages(self, passages: Passages) -> Vectors:
        """The vectors of some texts, shape (len(texts), dimension); rows of length 1.

        A text without any known word has a row of zeros.

        Raises:
            EmbeddingUnavailable: the model is missing, or its service is away.
        """
        ...

    def encode_query(self, query: str) -> Vectors:
        """The vector of a question, shape (dimension,); zeros where no word is known."""
        ...


def profile_mismatch(stored_model: str, model: str) -> EmbeddingUnavailable:
    """The index and this process would give the same text different vectors."""
    if stored_model == model:
        message = f"The index was made by another version of this program (model {model})"
    else:
        message = f"The index was made with the embedding model {stored_model}, not with {model}"
    return EmbeddingUnavailable(
        message,
        hint="Call index_repository with force_reindex=true to rebuild it, or start the server "
        "with the model and version that made it.",
        details={"indexed_with": stored_model, "configured": model},
    )
