"""Words, parts, terms: what indexing and querying must agree on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.tokens import (
    TERM_SPACE,
    Lexicon,
    Ragged,
    fold,
    harsh_stem,
    path_parts,
    split_word,
    term_id,
    term_table,
    word_stems,
    words_of,
)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("parseHTTPHeader2", ("parse", "http", "header", "2")),
        ("snake_case_name", ("snake", "case", "name")),
        ("XMLParser", ("xml", "parser")),
        ("utf8", ("utf", "8")),
        ("__init__", ("init",)),
        ("Größe_x2", ("größe", "x", "2")),
        ("認証処理", ("認証", "証処", "処理")),
        ("", ()),
        ("_", ()),
    ],
)
def test_a_word_falls_into_its_parts(word: str, parts: tuple[str, ...]) -> None:
    assert split_word(word) == parts


@pytest.mark.parametrize(
    ("word", "stems"),
    [
        ("requests", ("request",)),
        ("form_parser", ("form", "parser", "formpars")),
        ("formParser", ("form", "parser", "formpars")),
        ("x", ()),
    ],
)
def test_a_compound_is_kept_whole_beside_its_parts(word: str, stems: tuple[str, ...]) -> None:
    assert word_stems(word) == stems


@pytest.mark.parametrize(
    "family", [("router", "routing", "routes", "route"), ("parser", "parsing", "parse")]
)
def test_the_harsh_stem_joins_actor_and_act(family: tuple[str, ...]) -> None:
    assert len({harsh_stem(word) for word in family}) == 1


def test_folding_forgets_case_and_underscores() -> None:
    assert fold("form_parser") == fold("FormParser") == fold("formParser")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/http/url_map.py", (("url", "map"), ("src", "http"))),
        ("Makefile", (("makefile",), ())),
        (".github/work.yml", (("work",), ("github",))),
        ("a/b.spec.ts", (("b",), ("a",))),
    ],
)
def test_a_path_has_words_of_its_name_and_its_folders(
    path: str, expected: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    assert path_parts(path) == expected


@given(st.text())
def test_terms_lie_in_their_space_and_are_stable(text: str) -> None:
    assert 0 <= term_id(text) < TERM_SPACE
    assert term_id(text) == term_id(text)


@given(st.lists(st.text(alphabet="abAB_1 é認証\n", max_size=60), max_size=6))
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
            assert found == Counter(term_id(s) for w in words_of(text) for s in word_stems(w))
            assert list(found) == sorted(found)


def test_a_table_follows_a_new_lexicon() -> None:
    table = term_table()
    table.count(Lexicon().bags(["alpha beta"]))
    counts = table.count(Lexicon().bags(["beta"]))
    assert counts.items.tolist() == [term_id("beta")]


def test_ragged_lists_are_gathered_in_the_order_asked() -> None:
    ragged = Ragged()
    for items in ([1, 2], [], [3]):
        ragged.append(items)
    flat, lengths = ragged.gather(np.array([2, 0, 1, 0]))
    assert (flat.tolist(), lengths.tolist()) == ([3, 1, 2, 1, 2], [1, 2, 0, 2])
