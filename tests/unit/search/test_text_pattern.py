"""Which lines a pattern matches, held against Python's own expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from codebase_mcp.errors import InvalidInput
from codebase_mcp.search import text_pattern
from codebase_mcp.search.text_pattern import TextMatcher, TextQuery

TEXT = """\
import os

MAX_RETRIES = 5
def retry(limit=MAX_RETRIES):
    for attempt in range(limit):  # Größe
        yield attempt * os.environ["RETRY_MS"]
\tclass Retry_Error(Exception): pass
naïve = 'a.b' or "a+b"
    return retry(retry)
last line without an end"""


def lines(query: TextQuery, text: str = TEXT) -> list[int]:
    """The numbers of the lines that match, from 1."""
    data = text.encode()
    data += b"\n" if data and not data.endswith(b"\n") else b""
    spans = TextMatcher.compile(query).spans(data)
    return [data.count(b"\n", 0, start) + 1 for start, _ in spans]


def expected(query: TextQuery, text: str = TEXT) -> list[int]:
    """The same by Python's engine, line by line."""
    source = query.pattern if query.regex else re.escape(query.pattern)
    if query.whole_word:
        source = rf"(?:^|[^0-9A-Za-z_])(?:{source})(?:$|[^0-9A-Za-z_])"
    flags = re.IGNORECASE if query.ignores_case else re.NOFLAG
    every = text.removesuffix("\n").split("\n") if text else []
    return [n for n, line in enumerate(every, 1) if re.search(source, line, flags)]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (TextQuery("MAX_RETRIES"), [3, 4]),
        (TextQuery("max_retries"), [3, 4]),
        (TextQuery("max_retries", ignore_case=False), []),
        (TextQuery("retry", whole_word=True), [4, 9]),
        (TextQuery("a.b"), [8]),
        (TextQuery("a+b"), [8]),
        (TextQuery("a.b", regex=True), [8]),
        (TextQuery("größe"), [5]),
        (TextQuery("GRÖSSE", ignore_case=True), []),
        (TextQuery(r"^$", regex=True), [2]),
        (TextQuery(r"\S$", regex=True), [1, 3, 4, 5, 6, 7, 8, 9, 10]),
        (TextQuery(r"without an end$", regex=True), [10]),
        (TextQuery(r"[^x]import", regex=True), []),
        (TextQuery(r"\Aimport", regex=True), [1]),
        (TextQuery(r"environ\[\"\w+\"\]", regex=True), [6]),
        (TextQuery(r"x*", regex=True), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (TextQuery("5\ndef"), [3]),
        (TextQuery(r"import os\s+MAX", regex=True, multiline=True), [1]),
        (TextQuery(r"import os\s+MAX", regex=True), []),
        (TextQuery(r"import os\n+MAX", regex=True), [1]),
        (TextQuery(r"(?s)import.*naïve", regex=True, multiline=True), [1]),
    ],
)
def test_the_lines_that_match(query: TextQuery, numbers: list[int]) -> None:
    assert lines(query) == numbers


ATOMS = st.sampled_from(
    ["retry", "RETR", "os", "a", "_", r"\.", r"\w", r"\d", r"\s", ".", "[a-f]", "[^a-m ]", "ö"]
)
PIECES = st.one_of(
    ATOMS,
    st.tuples(ATOMS, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])).map("".join),
    st.lists(ATOMS, min_size=2, max_size=3).map(lambda atoms: f"(?:{'|'.join(atoms)})"),
    st.sampled_from([r"\b", "^", "$"]),
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=5).map("".join)
ALPHABET = st.sampled_from(["retry", "RETRY", "os.a", " ", "_", "a", "ö", "7", "\t", "\n", "x("])
TEXTS = st.lists(ALPHABET, max_size=40).map("".join)


@given(
    pattern=PATTERNS,
    text=st.one_of(st.just(TEXT), TEXTS),
    ignore_case=st.sampled_from([None, True, False]),
    whole_word=st.booleans(),
)
@examples(max_examples=200)
def test_expressions_match_the_lines_that_pythons_match(
    pattern: str, text: str, ignore_case: bool | None, whole_word: bool
) -> None:
    ascii_only = f"(?a:{pattern})" if "ö" not in pattern else pattern
    query = TextQuery(pattern, regex=True, ignore_case=ignore_case, whole_word=whole_word)
    if re.search(r"\\[wbds]", pattern) and not text.isascii():
        text = text.encode("ascii", "replace").decode()  # RE2's classes know ASCII alone
    python = TextQuery(
        ascii_only, regex=True, ignore_case=query.ignores_case, whole_word=whole_word
    )
    assert lines(query, text) == expected(python, text)


@given(pattern=st.text("aRö_.+*[](){}\\|^$ \t'\"", min_size=1, max_size=6), text=TEXTS)
@examples(max_examples=100)
def test_a_literal_matches_as_it_stands(pattern: str, text: str) -> None:
    query = TextQuery(pattern, ignore_case=False)
    assert lines(query, text + pattern) == expected(query, text + pattern)


def test_a_text_that_each_match_holds_is_sought_first(monkeypatch: pytest.MonkeyPatch) -> None:
    query = TextQuery(r"\w+ = foo\(\d+\)", regex=True, ignore_case=False)
    text = "".join(f"value_{n} = {'foo' if n % 3 else 'bar'}({n})\n" for n in range(500))
    every = expected(query, text)
    assert len(every) > 300
    assert lines(query, text) == every
    monkeypatch.setattr(text_pattern, "_MOST_LINES", 10)
    monkeypatch.setattr(text_pattern, "_SLICE_BYTES", 100)
    assert lines(query, text) == every


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?=a)b", "look-around"),
        (r"(?<!x)y", "look-around"),
        (r"(a)\1", "backreferences"),
        ("a++", "possessive"),
        ("(?>a)", "atomic groups"),
        (r"a\Z", r"\\Z"),
        ("(", "no regular expression"),
        ("[z-a]", "no regular expression"),
        ("a{2000}", "no regular expression"),
        ("((a{100}){100}){10}", "no regular expression"),
    ],
)
def test_what_re2_lacks_is_refused_by_name(pattern: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        TextMatcher.compile(TextQuery(pattern, regex=True))
    assert refused.value.details["field"] == "pattern"
    assert refused.value.hint


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [("foo(", "missing )"), ("a)|(b", "unexpected )"), ("[a", "missing ]: [a")],
)
@pytest.mark.parametrize("whole_word", [False, True])
def test_an_invalid_expression_is_named_as_it_was_given(
    pattern: str, reason: str, whole_word: bool
) -> None:
    with pytest.raises(InvalidInput) as refused:
        TextMatcher.compile(TextQuery(pattern, regex=True, whole_word=whole_word))
    assert refused.value.message == f"pattern is no regular expression: {reason}"


@pytest.mark.parametrize("pattern", ["", "x" * 1_001])
def test_a_pattern_has_a_length(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="characters"):
        TextMatcher.compile(TextQuery(pattern))


def test_no_pattern_takes_exponential_time() -> None:
    text = "a" * 200_000 + "\n"
    assert lines(TextQuery("(a*)*b", regex=True), text) == []
    assert lines(TextQuery("(a|aa)+$", regex=True), text) == [1]


def test_the_search_looks_at_the_clock() -> None:
    def stop() -> None:
        raise TimeoutError

    matcher = TextMatcher.compile(TextQuery("retry"))
    with pytest.raises(TimeoutError):
        list(matcher.spans(TEXT.encode(), stop))
