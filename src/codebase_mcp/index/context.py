"""Adds context to the vector of a chunk. Pure.

The text of a chunk often does not show what it is about: the body of ``retry`` contains loops and
sleeps. So its vector is moved towards the name of its definition, towards all names that its file
defines, and towards the file's comments. With vectors alone NDCG@10 rises from 0.70 to 0.81, see
``docs/search-quality.md``. The cost of a search stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codebase_mcp.embedding.embedder import Vectors

# The weight of each part of the context; the chunk's own vector has weight 1.
OF_CHUNK = 0.3
NAMES = 0.3
COMMENTS = 0.3


@dataclass(frozen=True, slots=True)
class Context:
    """Unit vectors of the context of the chunks of some files; zeros if there is none.

    ``of_chunk`` is the name of each chunk's definition (one row a chunk); ``names`` and
    ``comments`` are each file's (one row a file). A file has as many chunks as ``chunk_counts``
    says.
    """

    of_chunk: Vectors
    names: Vectors
    comments: Vectors
    chunk_counts: Sequence[int]


def in_context(chunks: Vectors, context: Context) -> Vectors:
    """The unit vectors of chunks, one row each, moved towards their context."""
    of_file = np.repeat(
        NAMES * context.names + COMMENTS * context.comments, context.chunk_counts, axis=0
    )
    turned = chunks + OF_CHUNK * context.of_chunk + of_file
    lengths = np.linalg.norm(turned, axis=1, keepdims=True)
    vectors: Vectors = (turned / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)
    return vectors
