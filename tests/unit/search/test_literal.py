"""Which questions have exact text, and which are made of words and names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codebase_mcp.search.literal import exact_text
from codebase_mcp.search.text_pattern import MAX_PATTERN_CHARS

QUALITY = Path(__file__).parents[3] / "benchmarks" / "quality"


@pytest.mark.parametrize(
    ("question", "texts", "is_whole"),
    [
        ('"connection reset by peer"', ("connection reset by peer",), True),
        ('"parse_config"', ("parse_config",), True),
        ('where is "no such name" said', ("no such name",), False),
        ('"a b" or "c d"?', ("a b", "c d"), False),
        ("ERR_CTP_BODY", ("ERR_CTP_BODY",), True),
        ("x-request-id", ("x-request-id",), True),
        ("--max-retries", ("--max-retries",), True),
        ("/api/v1/users", ("/api/v1/users",), True),
        ("@app.route", ("@app.route",), True),
        ("%s not found", ("%s not found",), True),
        ("Cannot open {path}: %(why)s", ("Cannot open {path}: %(why)s",), True),
        ('print("x")', ('print("x")',), True),
        ("??=", ("??=",), True),
    ],
)
def test_quoted_text_and_what_is_no_word_is_exact_text(
    question: str, texts: tuple[str, ...], is_whole: bool
) -> None:
    text = exact_text(question)
    assert text is not None
    assert (text.texts, text.is_whole) == (texts, is_whole)


@pytest.mark.parametrize(
    "question",
    [
        "where are requests retried",
        "parse_config",
        "Session.request",
        "std::vector",
        "foo()",
        "src/flask/app.py",
        ".gitignore",
        "node.js",
        "authentication?",
        "don't",
        'who may sign up as "help"',
        "how does {name} expand",
        "does %s work?",
        "\u65e5\u5fd7\u5728\u54ea\u91cc\uff1f",
        "",
    ],
)
def test_words_and_names_are_not(question: str) -> None:
    assert exact_text(question) is None


def test_a_pattern_matches_any_of_several_texts() -> None:
    text = exact_text('"a.b c" and "d e"')
    assert text is not None
    assert text.pattern == (r"a\.b\ c|d\ e", True)


def test_of_many_quoted_texts_those_count_that_have_room_in_a_pattern() -> None:
    quoted = [f"text {number} ((((((((((((((((((" for number in range(40)]
    text = exact_text("It says " + " and ".join(f'"{each}"' for each in quoted))
    assert text is not None
    assert text.texts == tuple(quoted[: len(text.texts)])
    assert len(text.pattern[0]) <= MAX_PATTERN_CHARS
    assert 10 < len(text.texts) < 40
    assert exact_text("no room for %s here " * 60) is None


def test_no_question_of_the_benchmark_is_looked_up_unless_it_has_quotes() -> None:
    queries = {
        entry["query"]
        for path in QUALITY.rglob("*.json")
        for content in [json.loads(path.read_text())]
        for entry in (content if isinstance(content, list) else content.get("queries", ()))
    }
    assert len(queries) > 500
    assert not [query for query in queries if '"' not in query and exact_text(query)]
