"""Which words of code are kindred to what a question says in everyday words?

"stop hammering the server" shares no word with a rate limiter. The built-in model comes with some
thousand concepts, each a few ways to say it and the words that code has for it, written by hand
(``training/concepts/``; ``training/thesaurus.py`` packs them). The concepts nearest to the question
lend it their words: with less weight than its own, but as exact. And they turn its vector towards
the names that code has for what is asked (as Rocchio's feedback does, "Relevance feedback in
information retrieval", 1971, with concepts in place of relevant texts).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.embedding.embedder import Vectors

if TYPE_CHECKING:
    from codebase_mcp.embedding.static import StaticEmbedder

FILE = "thesaurus.safetensors"

# Under this name the file says which model's table it was made with: the fingerprint.
MADE_WITH = "model"

# So many concepts lend their words, if they are at least so near; of those that are nearest as a
# whole so many are looked at phrase by phrase, and the nearest phrase counts for so much.
CONCEPTS = 3
LEAST_NEARNESS = 0.3
LOOKED_AT = 64
PHRASE_SHARE = 0.8

# So many concepts turn the question's vector: each by so much, times the fourth power of its
# nearness.
TURNING = 8
TURN = 2.0

# A model that reads text is told what code calls so many concepts that are at least so near, so
# many tokens of each.
NAMING = 2
LEAST_NAMED = 0.45
NAMES_TOLD = 24

# A centre's numbers are stored in four bits, -7 to 7, two a byte; beyond three times the usual size
# of a unit vector's number they are cut off.
LEVELS = 7
REACH = 3.0

# The two numbers that each byte stands for, as one value of eight bytes: quick to look up.
_BYTES = np.arange(256, dtype=np.uint8)
_PAIRS = np.stack([(_BYTES << 4).view(np.int8) >> 4, _BYTES.view(np.int8) >> 4], axis=1)
_PAIRS = _PAIRS.astype(np.float32).view(np.complex64).reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Thesaurus:
    """Concepts by their number.

    ``centres`` [concepts, dimension] are the vectors of all that a concept says and is called.
    Its phrases are those from ``phrases[n]`` to before ``phrases[n + 1]``, the tokens of a phrase
    the ``tokens`` from ``starts[phrase]`` to before the next; ``lengths[phrase]`` is the length of
    the sum of their vectors, by which it is to be divided. What code calls it are the ``called``
    tokens from ``calls[n]`` to before ``calls[n + 1]``, in order. The stems that it lends are those
    in ``lent`` from ``lends[n]`` to before ``lends[n + 1]``: places in ``stems``, their numbers,
    and in ``weights``, how much each is worth: less the more concepts lend it.
    """

    embedder: StaticEmbedder
    centres: Vectors
    phrases: NDArray[np.int32]
    starts: NDArray[np.int32]
    tokens: NDArray[np.uint16]
    lengths: NDArray[np.float16]
    calls: NDArray[np.int32]
    called: NDArray[np.uint16]
    lends: NDArray[np.int32]
    lent: NDArray[np.int32]
    stems: NDArray[np.int32]
    weights: NDArray[np.float32]

    def kindred(self, question: str) -> dict[int, float]:
        """The stems that the nearest concepts lend, by number, with their weights."""
        found: dict[int, float] = {}
        for concept, nearness in _nearest(self, question)[:CONCEPTS]:
            own = self.lent[self.lends[concept] : self.lends[concept + 1]]
            for term, weight in zip(
                self.stems[own].tolist(), self.weights[own].tolist(), strict=True
            ):
                found[term] = found.get(term, 0.0) + nearness * nearness * weight
        return found

    def turned(self, question: str) -> Vectors:
        """The question's unit vector, turned towards what the nearest concepts are called."""
        vector = self.embedder.encode_query(question)
        for concept, nearness in _nearest(self, question)[:TURNING]:
            names = self.embedder.rows(self._names(concept)).sum(axis=0)
            vector = vector + (TURN * nearness**4 / np.linalg.norm(names)) * names
        length = np.linalg.norm(vector)
        return vector / length if length else vector

    def named(self, question: str) -> str:
        """What code calls the nearest concepts, in words: for a model that reads text."""
        nearest = _nearest(self, question)[:NAMING]
        told = [
            self._names(concept)[:NAMES_TOLD].tolist()
            for concept, nearness in nearest
            if nearness >= LEAST_NAMED
        ]
        return " ".join(map(self.embedder.text_of, told))

    def nearest(self, text: str) -> list[tuple[int, float]]:
        """The nearest concepts and how near they are: mostly by their nearest phrase."""
        question = self.embedder.encode_query(text)
        whole = self.centres @ question
        looked_at = min(LOOKED_AT, len(whole))
        some = np.argpartition(whole, -looked_at)[-looked_at:]
        by_phrase = self._nearest_phrases(some, question)
        nearness = (1 - PHRASE_SHARE) * whole[some] + PHRASE_SHARE * by_phrase
        best = np.argsort(-nearness)[: max(CONCEPTS, TURNING)]
        return [(int(some[n]), float(nearness[n])) for n in best if nearness[n] >= LEAST_NEARNESS]

    def _names(self, concept: int) -> NDArray[np.uint16]:
        """The tokens of what code calls a concept."""
        return self.called[self.calls[concept] : self.calls[concept + 1]]

    def _nearest_phrases(self, concepts: NDArray[np.intp], question: Vectors) -> Vectors:
        """For each of some concepts how near its nearest phrase is."""
        firsts, lasts = self.phrases[concepts], self.phrases[concepts + 1]
        phrases = _ranges(firsts, lasts)
        starts, ends = self.starts[phrases], self.starts[phrases + 1]
        by_token = self.embedder.rows(self.tokens[_ranges(starts, ends)]) @ question
        cosines = np.add.reduceat(by_token, _offsets(ends - starts)) / self.lengths[phrases]
        nearest: Vectors = np.maximum.reduceat(cosines, _offsets(lasts - firsts))
        return nearest


@lru_cache(maxsize=100)
def _nearest(thesaurus: Thesaurus, question: str) -> list[tuple[int, float]]:
    """A search asks twice."""
    return thesaurus.nearest(question)


def _ranges(starts: NDArray[np.int32], ends: NDArray[np.int32]) -> NDArray[np.int32]:
    """All numbers from each start to before its end, one range after the other."""
    counts = ends - starts
    first = np.repeat(starts - _offsets(counts), counts)
    numbers: NDArray[np.int32] = np.arange(counts.sum()) + first
    return numbers


def _offsets(counts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Where each of some runs begins that follow each other."""
    begin: NDArray[np.int32] = np.cumsum(counts) - counts
    return begin


@lru_cache(maxsize=2)
def thesaurus_of(embedder: StaticEmbedder) -> Thesaurus | None:
    """The thesaurus that a model comes with, if it has one that was made with its table."""
    from safetensors import safe_open  # noqa: PLC0415 - heavy, and not for the handshake

    file = embedder.source.folder / FILE
    if not file.is_file():
        return None
    with safe_open(file, "numpy") as opened:
        if (opened.metadata() or {}).get(MADE_WITH) != embedder.fingerprint:
            return None
        stored = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    lenders = np.bincount(stored["lent"])
    weights = (1 / np.sqrt(1 + np.log(lenders))).astype(np.float32)
    centres = unpacked(stored.pop("centres"))
    return Thesaurus(embedder, centres, weights=weights, **stored)


def packed(vectors: Vectors) -> NDArray[np.uint8]:
    """Unit vectors [n, dimension] in four bits a number: [n, dimension / 2], even ones below."""
    step = REACH / LEVELS / math.sqrt(vectors.shape[1])
    numbers = np.clip(np.round(vectors / step), -LEVELS, LEVELS).astype(np.int8) & 0x0F
    return (numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8)


def unpacked(bytes_: NDArray[np.uint8]) -> Vectors:
    """The vectors that `packed` took, of length 1 again."""
    numbers = np.take(_PAIRS, bytes_).view(np.float32)
    numbers /= np.sqrt(np.einsum("ij,ij->i", numbers, numbers))[:, None]
    return numbers
