"""Counting words in bulk gives what counting them one by one gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.text.counting import Lexicon, Ragged, term_table
from codebase_mcp.text.tokens import MAX_WORD_CHARS, term_id, word_stems, words_of

# Runs of every length around that of a word that is too long, and of characters of several bytes.
_PIECES = st.sampled_from(
    ["a", "bB", "_1", " ", "\n", "é", "認証", "—", "long" * 15, "é" * 31, "\ud800"]
)


@given(st.lists(st.lists(_PIECES, max_size=40).map("".join), max_size=6))
def test_counting_in_bulk_equals_counting_one_by_one(texts: list[str]) -> None:
    lexicon, table = Lexicon(), term_table()
    for batch in (texts, texts[::-1]):  # the second time every word is known already
        counts = table.count(lexicon.bags(batch))
        assert len(counts) == len(batch)
        for row, text in enumerate(batch):
            span = slice(counts.starts[row], counts.starts[row + 1])
            found = dict(
                zip(counts.items[span].tolist(), counts.counts[span].tolist(), strict=True)
            )
            words = [w for w in words_of(text) if len(w) <= MAX_WORD_CHARS]
            assert found == Counter(term_id(s) for w in words for s in word_stems(w))
            assert list(found) == sorted(found)


def test_a_table_follows_a_new_lexicon() -> None:
    table = term_table()
    table.count(Lexicon().bags(["alpha beta"]))
    counts = table.count(Lexicon().bags(["beta"]))
    assert counts.items.tolist() == [term_id("beta")]


def test_ragged_lists_are_gathered_in_the_order_asked() -> None:
    ragged = Ragged()
    ragged.extend([[1, 2], []])
    ragged.extend([[3]])
    flat, lengths = ragged.gather(np.array([2, 0, 1, 0]))
    assert (flat.tolist(), lengths.tolist()) == ([3, 1, 2, 1, 2], [1, 2, 0, 2])
