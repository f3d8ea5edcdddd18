"""Which words does code use for what a query says in everyday words?

"stop hammering the server" shares no word with a rate limiter. The built-in model comes with a
thesaurus of 15,296 concepts, written by hand: for each some everyday phrases, and the words that
code uses (``training/concepts/``; packed by ``training/thesaurus.py``). The concepts nearest to a
query serve in four ways:

- their terms expand the query (`Thesaurus.expansion_terms`);
- their names move its vector (`Thesaurus.rocchio_vector`), as J. J. Rocchio, "Relevance feedback in
  information retrieval" (1971), does with relevant documents: ``q' = q + sum(weight * names)``;
- their names are appended to the input text of the secondary model (`Thesaurus.code_words`);
- how near they are says how near code would be that does what is asked (`Thesaurus.background`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.embedding.embedder import Vectors, unit_rows

if TYPE_CHECKING:
    from codebase_mcp.embedding.static import StaticEmbedder

FILE_NAME = "thesaurus.safetensors"

# The file's metadata holds the fingerprint of the table that it was made with under this key.
MODEL_KEY = "model"

# The nearest concepts give expansion terms. Their similarity to the query is that of their centroid
# for the first candidates, then mostly that of their nearest phrase.
EXPANSION_CONCEPTS = 3
MIN_SIMILARITY = 0.3
CANDIDATE_CONCEPTS = 64
PHRASE_SHARE = 0.8

# The similarity of the concept in this place is the background that code is compared with.
BACKGROUND_PLACE = 30

# The weight of a concept in the Rocchio-adjusted vector is ROCCHIO_WEIGHT * similarity ** 4.
ROCCHIO_CONCEPTS = 8
ROCCHIO_WEIGHT = 2.0

# How much is appended to the input text of the secondary model.
CODE_WORDS_CONCEPTS = 2
CODE_WORDS_MIN_SIMILARITY = 0.45
CODE_WORDS_TOKENS = 24

# A component of a centroid takes four bits, -7 to 7. It is clipped at three times the root mean
# square of a unit vector's components.
LEVELS = 7
CLIP_RMS = 3.0

# The two components in each possible byte, as a complex number: a fast look-up table.
_BYTES = np.arange(256, dtype=np.uint8)
_PAIRS = np.stack([(_BYTES << 4).view(np.int8) >> 4, _BYTES.view(np.int8) >> 4], axis=1)
_PAIRS = _PAIRS.astype(np.float32).view(np.complex64).reshape(-1)

TokenIds = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class NearestConcepts:
    """The concepts nearest to a query with their similarities, the nearest first.

    ``background`` is the similarity of the concept in the place `BACKGROUND_PLACE`.
    """

    concepts: Sequence[tuple[int, float]]
    background: float


@dataclass(frozen=True, slots=True, eq=False)
class Thesaurus:
    """Concepts by number, as the compressed rows of several tables.

    ``centroids`` [concepts, dimension] are the unit vectors of all phrases and names of a concept.
    Concept ``n`` has the phrases from ``phrase_starts[n]`` up to ``phrase_starts[n + 1]``. A phrase
    ``p`` has the ``phrase_tokens`` from ``token_starts[p]`` up to ``token_starts[p + 1]``, and
    ``phrase_norms[p]`` is the norm of the sum of their vectors. The names in code of a concept are
    the ``name_tokens`` from ``name_starts[n]`` on, its terms the ``concept_terms`` from
    ``term_starts[n]`` on: indexes into ``terms`` (term numbers) and ``term_weights``.
    """

    model: StaticEmbedder
    centroids: Vectors
    phrase_starts: NDArray[np.int32]
    token_starts: NDArray[np.int32]
    phrase_tokens: NDArray[np.uint16]
    phrase_norms: NDArray[np.float16]
    name_starts: NDArray[np.int32]
    name_tokens: NDArray[np.uint16]
    term_starts: NDArray[np.int32]
    concept_terms: NDArray[np.int32]
    terms: NDArray[np.int32]
    term_weights: NDArray[np.float32]

    def expansion_terms(self, query: str) -> dict[int, float]:
        """The terms of the nearest concepts with their weights, by term number."""
        weights: dict[int, float] = {}
        for concept, similarity in _nearest(self, query).concepts[:EXPANSION_CONCEPTS]:
            own = self.concept_terms[self.term_starts[concept] : self.term_starts[concept + 1]]
            for term, weight in zip(
                self.terms[own].tolist(), self.term_weights[own].tolist(), strict=True
            ):
                weights[term] = weights.get(term, 0.0) + similarity * similarity * weight
        return weights

    def rocchio_vector(self, query: str) -> Vectors:
        """The query's unit vector, moved towards the names of the nearest concepts in code."""
        vector = self.model.encode_query(query)
        for concept, similarity in _nearest(self, query).concepts[:ROCCHIO_CONCEPTS]:
            names = self.model.token_vectors(self._names(concept)).sum(axis=0)
            vector = vector + (ROCCHIO_WEIGHT * similarity**4 / np.linalg.norm(names)) * names
        return unit_rows(vector)

    def code_words(self, query: str) -> str:
        """The names of the nearest concepts in code, as text to append to another model's input."""
        return " ".join(
            self.model.decode(self._names(concept)[:CODE_WORDS_TOKENS].tolist())
            for concept, similarity in _nearest(self, query).concepts[:CODE_WORDS_CONCEPTS]
            if similarity >= CODE_WORDS_MIN_SIMILARITY
        )

    def background(self, query: str) -> float:
        """How near something that has to do with the query would be: a cosine.

        It is that of the concept in the place `BACKGROUND_PLACE`, whatever code is searched.
        """
        return _nearest(self, query).background

    def nearest(self, query: str) -> NearestConcepts:
        vector = self.model.encode_query(query)
        by_centroid = self.centroids @ vector
        count = min(CANDIDATE_CONCEPTS, len(by_centroid))
        candidates = np.argpartition(by_centroid, -count)[-count:]
        background = np.sort(by_centroid[candidates])[-min(BACKGROUND_PLACE, count)]
        by_phrase = self._phrase_similarities(candidates, vector)
        similarity = (1 - PHRASE_SHARE) * by_centroid[candidates] + PHRASE_SHARE * by_phrase
        best = np.argsort(-similarity)[: max(EXPANSION_CONCEPTS, ROCCHIO_CONCEPTS)]
        concepts = [
            (int(candidates[n]), float(similarity[n]))
            for n in best
            if similarity[n] >= MIN_SIMILARITY
        ]
        return NearestConcepts(concepts, float(background))

    def _names(self, concept: int) -> NDArray[np.uint16]:
        return self.name_tokens[self.name_starts[concept] : self.name_starts[concept + 1]]

    def _phrase_similarities(self, concepts: NDArray[np.intp], vector: Vectors) -> Vectors:
        """For each concept the cosine of its nearest phrase."""
        first, end = self.phrase_starts[concepts], self.phrase_starts[concepts + 1]
        phrases = _ranges(first, end)
        token_first, token_end = self.token_starts[phrases], self.token_starts[phrases + 1]
        tokens = self.phrase_tokens[_ranges(token_first, token_end)]
        by_token = self.model.token_vectors(tokens) @ vector
        sums = np.add.reduceat(by_token, _offsets(token_end - token_first))
        cosines = sums / self.phrase_norms[phrases]
        nearest: Vectors = np.maximum.reduceat(cosines, _offsets(end - first))
        return nearest


@lru_cache(maxsize=100)
def _nearest(thesaurus: Thesaurus, query: str) -> NearestConcepts:
    """Cached, as a search asks for terms, a vector, words and the background."""
    return thesaurus.nearest(query)


def _ranges(starts: NDArray[np.int32], ends: NDArray[np.int32]) -> NDArray[np.int32]:
    """The numbers from each start up to its end, in the order of the ranges."""
    counts = ends - starts
    first = np.repeat(starts - _offsets(counts), counts)
    numbers: NDArray[np.int32] = np.arange(counts.sum(), dtype=np.int32) + first
    return numbers


def _offsets(counts: NDArray[np.int32]) -> NDArray[np.int32]:
    """The start of each of some consecutive ranges."""
    starts: NDArray[np.int32] = np.cumsum(counts) - counts
    return starts


@lru_cache(maxsize=2)
def thesaurus_of(model: StaticEmbedder) -> Thesaurus | None:
    """The thesaurus in a model's folder; None if it is missing, or made for another table."""
    from safetensors import safe_open  # noqa: PLC0415 - heavy, and not for the handshake

    file = model.folder / FILE_NAME
    if not file.is_file():
        return None
    with safe_open(file, "numpy") as opened:
        if (opened.metadata() or {}).get(MODEL_KEY) != model.fingerprint:
            return None
        stored = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    # The more concepts have a term, the less it says: a damped inverse document frequency.
    frequencies = np.bincount(stored["concept_terms"])
    return Thesaurus(
        model,
        centroids=dequantized(stored["centroids"]),
        phrase_starts=_range_bounds(stored["phrase_counts"]),
        token_starts=_range_bounds(stored["token_counts"]),
        phrase_tokens=stored["phrase_tokens"],
        phrase_norms=stored["phrase_norms"],
        name_starts=_range_bounds(stored["name_counts"]),
        name_tokens=stored["name_tokens"],
        term_starts=_range_bounds(stored["term_counts"]),
        concept_terms=stored["concept_terms"],
        terms=stored["terms"],
        term_weights=(1 / np.sqrt(1 + np.log(frequencies))).astype(np.float32),
    )


def _range_bounds(counts: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The start of each of some consecutive ranges, and the end of the last range."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int32))).astype(np.int32)


def quantized(vectors: Vectors) -> NDArray[np.uint8]:
    """Unit vectors, four bits a component, even components in the low bits: [n, dimension / 2]."""
    step = CLIP_RMS / LEVELS / math.sqrt(vectors.shape[1])
    levels = np.clip(np.round(vectors / step), -LEVELS, LEVELS).astype(np.int8) & 0x0F
    return (levels[:, ::2] | levels[:, 1::2] << 4).astype(np.uint8)


def dequantized(bytes_: NDArray[np.uint8]) -> Vectors:
    """The unit vectors that `quantized` stored, approximately."""
    vectors = np.take(_PAIRS, bytes_).view(np.float32)
    # In place: this is done once per process, on the way to its first answer.
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors
