r"""Patterns mean what ECMAScript says, and no text makes them slow."""

from __future__ import annotations

import pytest

from codebase_mcp.records.schemas.patterns import MAX_CHARS, PatternError, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "occurs"),
    [
        ("", "x", True),
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^[a-z]+$", "abc", True),
        ("^[a-z]+$", "abc\n", False),
        ("^a|b$", "ab", True),
        ("a|", "", True),
        ("é+", "éé", True),
        ("^.$", "\n", False),
        ("^.$", "🎉", True),
        (r"^\d+$", "123", True),
        (r"^\d+$", "٣", False),
        (r"^\D$", "٣", True),
        (r"^\w$", "é", False),
        (r"^\W$", "é", True),
        (r"\s", "\u0085", False),
        (r"^\S$", "x", True),
        (r"\bfoo\b", "éfoo", True),
        (r"\bfoo\b", "xfoo", False),
        (r"\Boo", "foo", True),
        (r"^\u00e9\x41\u{1F389}$", "éA🎉", True),
        (r"^\t\n\v\f\r$", "\t\n\v\f\r", True),
        (r"\p{L}", "é", True),
        (r"^\P{L}$", "é", False),
        (r"\p{Script=Greek}", "λ", True),
        (r"\/\-\<a\>\ ", "/-<a> ", True),
        ("#&~-", "#&~-", True),
        ("a]b}", "a]b}", True),
        ("^{.*}$", "{x}", True),
        ("a{,3}", "a{,3}", True),
        ("a{,3}", "aa", False),
        ("^a{2}$", "aa", True),
        ("^a{2,}$", "aaaa", True),
        ("^a{2,3}$", "aaaa", False),
        ("^(?:ab){2}?$", "abab", True),
        ("^(?<year>[0-9]{4})-(?P<month>[0-9]{2})$", "2026-01", True),
        ("[-a]", "-", True),
        ("[a-]", "-", True),
        (r"[\w-]", "-", True),
        ("[a-c-e]", "-", True),
        ("[--/]", ".", True),
        ("[+--]", ",", True),
        ("[a&&b]", "&", True),
        ("[a~~b]", "~", True),
        ("[[a]", "[", True),
        (r"[^\W_]", "_", False),
        (r"[^\W_]", "a", True),
        (r"[\]\\]", "\\", True),
    ],
)
def test_patterns_have_the_meaning_of_ecmascript(pattern: str, text: str, occurs: bool) -> None:
    assert compile_pattern(pattern).occurs_in(text) is occurs


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)b", "invalid perl operator: (?="),
        ("(?<!a)b", "invalid perl operator: (?<!"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"(?<a>b)\k<a>", r"invalid escape sequence: \k"),
        (r"\p{Nothing}", r"invalid character class range: \p{Nothing}"),
        ("\\", "trailing \\"),
        ("(", "missing ): ("),
        (")", "unexpected ): )"),
        ("[a", "missing ]: [a"),
        (r"[a-\d]", r"invalid escape sequence: \d"),
        ("*", "no argument for repetition operator: *"),
        ("[z-a]", "invalid character class range: z-a"),
        ("a{3,1}", "invalid repetition size: {3,1}"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(?:a{100}){100}", "invalid repetition size: {100}"),
        (r"\p{L}{100}", "pattern too large - compile failed"),
    ],
)
def test_invalid_and_unbounded_patterns_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"is not a valid regular expression: {reason}"


def test_a_long_pattern_is_refused() -> None:
    with pytest.raises(PatternError, match="is longer than 1,000 characters"):
        compile_pattern("a" * (MAX_CHARS + 1))


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "^(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*b"]
)
def test_a_pattern_with_exponential_backtracking_finishes(pattern: str) -> None:
    assert not compile_pattern(pattern).occurs_in("a" * 200_000 + "!")


def test_the_cost_grows_with_the_text_and_with_expanded_repetitions() -> None:
    short, long = compile_pattern("[a-z]{10}"), compile_pattern("(?:[a-z]{10}){20}")
    assert 10 * short.cost < long.cost < 300
    assert short.steps("") == 1
    assert long.steps("x" * 100_000) == 1 + 5_000 * long.cost
