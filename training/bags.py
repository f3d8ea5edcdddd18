"""Which pieces of the table stand in a text, and what is the text's vector?

The same steps as the product's at run time, by the product's own code: its splitter gives the words
and their parts, WordPiece gives the pieces of a part, and a text's vector is the unit vector of
``sum over distinct pieces of sqrt(count) * row``. Punctuation is no word, so it never gets here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
from scipy.sparse import csr_matrix, vstack
from tokenizers import Tokenizer

from codebase_mcp.text.counting import Lexicon, WordTable
from codebase_mcp.text.tokens import MAX_WORD_CHARS, split_word

TEXTS_AT_ONCE = 2000
# A lexicon knows words by hashes of 64 bits, so it is begun anew before two could share one.
MOST_WORDS = 400_000


class Bags:
    """Turns texts into counted pieces, remembering each word it has seen."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._unknown = tokenizer.token_to_id("[UNK]")
        self._known: dict[str, tuple[int, ...]] = {}
        self._lexicon = Lexicon()
        self._table = WordTable(self.pieces_of_word)
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

    def matrix(self, texts: Iterable[str]) -> csr_matrix:
        """Square roots of the piece counts, [texts, pieces] float32."""
        waiting, done = iter(texts), []
        while some := list(islice(waiting, TEXTS_AT_ONCE)):
            done.append(self._counted(some))
        return vstack(done, format="csr") if done else csr_matrix((0, self.size), dtype=np.float32)

    def _counted(self, texts: list[str]) -> csr_matrix:
        if len(self._lexicon) > MOST_WORDS:
            self._lexicon = Lexicon()
        counts = self._table.count(self._lexicon.bags(texts))
        roots = np.sqrt(counts.counts).astype(np.float32)
        columns = counts.items.astype(np.int32)
        return csr_matrix((roots, columns, counts.starts), shape=(len(texts), self.size))
