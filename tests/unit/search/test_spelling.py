"""Which words of a question are misspelt, and how they were meant."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.search.query import parse_query
from codebase_mcp.search.vocabulary import (
    doubtful_words,
    edit_distance,
    likeliest,
    max_edits,
    replace_words,
    spellings,
)
from codebase_mcp.text.tokens import stem, term_id

WORDS = st.text("abc", max_size=7)


ENGLISH = frozenset({"where", "session", "hammer", "server", "ses"})


def chunks_of(**counts: int) -> dict[int, int]:
    return {term_id(stem(word)): count for word, count in counts.items()}


@pytest.mark.parametrize(
    ("query", "doubtful"),
    [
        ("where do sesions expire", ["sesions"]),
        ("hammering the server", []),  # a word of the language, though not in the code
        ("session expires", []),  # in the code
        ("parse_sesion SesionStore", []),  # names, not words
        ("urlz", []),  # too short
        ("Sesions sesions", ["sesions"]),
    ],
)
def test_doubtful_is_what_neither_code_nor_language_has(query: str, doubtful: list[str]) -> None:
    in_code = chunks_of(session=20, expire=10)
    assert doubtful_words(parse_query(query), in_code, ENGLISH.__contains__) == doubtful


@pytest.mark.parametrize("slip", ["sesion", "sessiion", "sessoin", "sessian"])
def test_one_slip_is_mended(slip: str) -> None:
    assert likeliest(slip, chunks_of(session=20)) == "session"


def test_the_commoner_word_was_meant() -> None:
    assert likeliest("hosst", chunks_of(host=50, hosts=50, hoist=3)) == "host"


@pytest.mark.parametrize(
    ("word", "in_code"),
    [("sesssiion", {"session": 20}), ("bession", {"session": 20}), ("sesion", {"session": 1})],
)
def test_two_slips_a_wrong_first_letter_and_a_rarity_are_left(
    word: str, in_code: dict[str, int]
) -> None:
    assert likeliest(word, chunks_of(**in_code)) is None


def test_some_hundreds_of_spellings_are_asked_for() -> None:
    assert 100 < len(spellings("authentcate")) < 1_000


def test_words_are_replaced_and_keep_their_capitals() -> None:
    text = "Where do Sesions expire? SESIONS_TABLE of sesionsByUser"
    told = "Where do Sessions expire? SESSIONS_TABLE of sessionsByUser"
    assert replace_words(text, {"sesions": "sessions"}) == told
    assert replace_words("a (b", {"(b": "b"}) == "a b"
    assert replace_words(text, {}) == text


@pytest.mark.parametrize(
    ("first", "second", "slips"),
    [
        ("authenticate", "authenticate", 0),
        ("authentcate", "authenticate", 1),
        ("databasee", "database", 1),
        ("cathe", "cache", 1),
        ("mirgation", "migration", 1),
        ("rekwests", "requests", 2),
        ("ca", "abc", 3),  # letters that were swapped stay neighbours
        ("", "abc", 3),
    ],
)
def test_slips_are_letters_left_out_added_replaced_or_swapped(
    first: str, second: str, slips: int
) -> None:
    assert edit_distance(first, second) == slips


@given(WORDS, WORDS)
def test_they_are_the_fewest(first: str, second: str) -> None:
    assert edit_distance(first, second) == fewest(first, second)


@cache
def fewest(first: str, second: str) -> int:
    """The definition: the cheapest way to use up both words from their ends."""
    if not first or not second:
        return len(first) + len(second)
    ways = [
        fewest(first[:-1], second) + 1,
        fewest(first, second[:-1]) + 1,
        fewest(first[:-1], second[:-1]) + (first[-1] != second[-1]),
    ]
    if len(first) > 1 and len(second) > 1 and first[-2:] == second[-1] + second[-2]:
        ways.append(fewest(first[:-2], second[:-2]) + 1)
    return min(ways)


@pytest.mark.parametrize(
    ("word", "slips"), [("user", 0), ("cache", 1), ("cached", 1), ("timeout", 2)]
)
def test_a_longer_word_may_hold_more(word: str, slips: int) -> None:
    assert max_edits(word) == slips
