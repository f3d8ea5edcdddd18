"""What a question asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.search.query import IDENTIFIER, looks_like_identifier, parse_query


@pytest.mark.parametrize(
    "polite",
    [
        "where is the code that handles session expiry",
        "find the function which handles session expiry",
        "can you show me where session expiry",
        "please find me the code for session expiry",
        "how does session expiry",
        "session expiry",
        "hi, could you please tell me how session expiry",
        "would you mind showing me where session expiry",
        "please help me understand session expiry, thank you",
        "where would I find the session expiry? thanks in advance",
    ],
)
def test_a_polite_opening_says_nothing(polite: str) -> None:
    parts = [part for part in parse_query(polite).parts if part not in ("handles",)]
    assert parts == ["session", "expiry"]


@pytest.mark.parametrize("query", ["find", "find_user", "list tasks", "get value", "show progress"])
def test_a_verb_that_may_be_a_name_stays(query: str) -> None:
    assert parse_query(query).parts[0] == query.replace("_", " ").split()[0]


def test_neighbours_are_also_looked_for_written_together() -> None:
    query = parse_query("form parser")
    joined = [term for term in query.terms if not term.spoken]
    assert [term.text for term in joined] == ["formpars"]
    assert "formparser" in {name.folded for name in query.names}


def test_stop_words_are_dropped_unless_they_are_all_there_is() -> None:
    assert parse_query("what is the state").parts == ("state",)
    assert parse_query("who am I").parts != ()


@pytest.mark.parametrize(
    ("word", "expected"),
    [("parse_url", True), ("parseUrl", True), ("utf8", True), ("router", False), ("_x", False)],
)
def test_identifiers_are_told_from_words(word: str, expected: bool) -> None:
    assert looks_like_identifier(word) is expected


def test_the_whole_query_as_a_name_counts_most() -> None:
    strengths = {name.folded: name.strength for name in parse_query("retry policy now").names}
    assert strengths["retrypolicynow"] > strengths["retrypolicy"] > strengths["retry"]


def test_each_sentence_counts_its_words_anew() -> None:
    query = parse_query("I am new to this team. Where is the session store?")
    assert dict(zip(query.parts, query.positions, strict=True))["session"] == 0
    assert "team" in query.parts


@given(st.text(max_size=500))
def test_any_text_is_a_query(text: str) -> None:
    query = parse_query(text)
    assert query.text == text
    assert all(0 <= term.id < 10**9 for term in query.terms)


def test_several_identifiers_are_guesses_and_words_beside_them_no_names() -> None:
    query = parse_query("retry a failed request with backoff. RetryPolicy backoff_delay")
    strengths = {name.folded: name.strength for name in query.names}
    assert strengths.pop("retryfailedrequestbackoffretrypolicybackoffdelay") == IDENTIFIER
    assert strengths == {"retrypolicy": IDENTIFIER / 2, "backoffdelay": IDENTIFIER / 2}
    names = parse_query("how are the parts of a URL split by parse_url").names
    assert (names[-1].folded, names[-1].strength) == ("parseurl", IDENTIFIER)
