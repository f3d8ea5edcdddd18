r"""Patterns mean what ECMAScript says, and no text makes them slow."""

from __future__ import annotations

import pytest

from codebase_mcp.records.schemas.patterns import (
    MAX_CHARS,
    MAX_COST,
    PatternError,
    compile_pattern,
)


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
        ("^.$", "\u2028", False),
        ("^.$", "🎉", True),
        (r"^\d+$", "123", True),
        (r"^\d+$", "٣", False),
        (r"^\D$", "٣", True),
        (r"^\w$", "é", False),
        (r"^\W$", "é", True),
        (r"\s", "\ufeff", True),
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
        (r"\/\-\<a\>\é\ ", "/-<a>é ", True),
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
        ("[[:alpha:]]", "b", False),
        ("[^]", "x", True),
        ("[]", "x", False),
        (r"[\b]", "\b", True),
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
        ("(?=a)b", "contains a lookaround, which is not supported"),
        ("(?!a)b", "contains a lookaround, which is not supported"),
        ("(?<=a)b", "contains a lookaround, which is not supported"),
        ("(?<!a)b", "contains a lookaround, which is not supported"),
        ("(?i)a", "contains a flag or an unknown group type, which is not supported"),
        ("(?x:a)", "contains a flag or an unknown group type, which is not supported"),
        (r"(a)\1", "contains a backreference, which is not supported"),
        (r"(?<a>b)\k<a>", "contains a backreference, which is not supported"),
        (r"\Aa\Z", r"contains an unknown escape: \A"),
        (r"[\B]", r"contains an unknown escape: \B"),
        (r"\p{Nothing}", "is not a valid regular expression: Unicode property not found"),
        ("\\", "ends with a backslash"),
        ("[\\", "ends with a backslash"),
        ("(", "is not a valid regular expression: unclosed group"),
        (")", "is not a valid regular expression: unopened group"),
        ("[a", "is not a valid regular expression: unclosed character class"),
        ("[a-", "is not a valid regular expression: unclosed character class"),
        (r"[a-\d]", "contains a range between sets of characters"),
        ("*", "is not a valid regular expression: repetition operator missing expression"),
    ],
)
def test_invalid_and_unbounded_patterns_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    "pattern",
    [
        "[z-a]",
        "a{3,1}",
        "(" * 300 + ")" * 300,
        "(" * MAX_CHARS,
        "a" * (MAX_CHARS + 1),
        f"a{{{MAX_COST + 1}}}",
        "(?:a{100}){100}",
        "((((a{9}){9}){9}){9}){9}",
        "(?:){99999999}",
        "a{99999999999999999999}",
        r"\p{L}{100}",
        ".{1000}",
        "[" + "ж" * 900 + "]{100}",
    ],
)
def test_a_pattern_that_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "^(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*b"]
)
def test_a_pattern_with_exponential_backtracking_finishes(pattern: str) -> None:
    assert not compile_pattern(pattern).occurs_in("a" * 200_000 + "!")


def test_the_cost_grows_with_the_text_and_with_expanded_repetitions() -> None:
    short, long = compile_pattern("[a-z]{10}"), compile_pattern("(?:[a-z]{10}){20}")
    assert (short.cost, long.cost) == (10, 200)
    assert short.steps("") == 1
    assert long.steps("x" * 100_000) == 1 + 20 * 10_000
    assert compile_pattern(r"[\p{L}]{5}").cost > compile_pattern("[^a]{5}").cost > 5
