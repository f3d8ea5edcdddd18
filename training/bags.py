"""Which pieces of the table stand in a text, and what is the text's vector?

The same steps as the product's at run time: the product's own splitter gives the words and their
parts, WordPiece gives the pieces of a part, and a text's vector is the unit vector of
``sum over distinct pieces of sqrt(count) * row``. Punctuation is no word, so it never gets here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer

from codebase_mcp.tokens import MAX_WORD_CHARS, split_word, words_of


class Bags:
    """Turns texts into counted pieces, remembering each word it has seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._unknown = tokenizer.token_to_id("[UNK]")
        self._known: dict[str, tuple[int, ...]] = {}
        self.size: int = tokenizer.get_vocab_size()

    def pieces_of_word(self, word: str) -> tuple[int, ...]:
        """The piece ids of one word as written; unknown characters give none."""
        found = self._known.get(word)
        if found is None:
            parts = split_word(word) if len(word) <= MAX_WORD_CHARS else ()
            ids = (
                i
                for part in parts
                for i in self._tokenizer.encode(part, add_special_tokens=False).ids
            )
            found = self._known[word] = tuple(i for i in ids if i != self._unknown)
        return found

    def count(self, text: str) -> Counter[int]:
        """How often each piece occurs in the text."""
        counts: Counter[int] = Counter()
        for word, times in Counter(words_of(text)).items():
            for piece in self.pieces_of_word(word):
                counts[piece] += times
        return counts

    def matrix(self, texts: Iterable[str]) -> csr_matrix:
        """Square roots of the piece counts, [texts, pieces] float32."""
        return self.roots([self.count(text) for text in texts])

    def roots(self, counted: Sequence[Counter[int]]) -> csr_matrix:
        """The square roots of counts as a sparse matrix, [texts, pieces] float32."""
        starts = np.zeros(len(counted) + 1, np.int64)
        np.cumsum([len(c) for c in counted], out=starts[1:])
        columns = np.fromiter((i for c in counted for i in c), np.int32, int(starts[-1]))
        times = np.fromiter((n for c in counted for n in c.values()), np.float32, int(starts[-1]))
        return csr_matrix((np.sqrt(times), columns, starts), shape=(len(counted), self.size))


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row divided by its length; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), np.float32)
