"""Words, parts, terms: what indexing and querying must agree on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.text.tokens import (
    TERM_SPACE,
    aggressive_stem,
    fold,
    path_parts,
    split_word,
    term_id,
    word_stems,
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
    "family",
    [
        ("router", "routing", "routes", "route"),
        ("parser", "parsing", "parse"),
        ("serialize", "serialized", "Serializer".lower(), "serialization", "serialising"),
        ("validate", "validation", "validator", "validating"),
        ("create", "creation", "creating", "creator"),
    ],
)
def test_the_harsh_stem_joins_actor_and_act(family: tuple[str, ...]) -> None:
    assert len({aggressive_stem(word) for word in family}) == 1


def test_folding_forgets_case_and_underscores() -> None:
    assert fold("form_parser") == fold("FormParser") == fold("formParser")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/http/url_map.py", (("url", "map"), ("src", "http"))),
        ("Makefile", (("makefile",), ())),
        (".github/work.yml", (("work",), ("github",))),
        ("a/b.spec.ts", (("b", "spec"), ("a",))),
        ("a/.env", (("env",), ("a",))),
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
