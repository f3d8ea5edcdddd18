"""Files of queries: what they may look like, and how a wrong one is explained."""

from __future__ import annotations

import json

import pytest

from codebase_mcp.app.evaluation.questions import (
    Question,
    Target,
    as_lines,
    check_targets,
    read_questions,
)
from codebase_mcp.errors import InvalidInput

TWO = [
    Question("where is login checked", (Target("src/auth.py", (5, 10)),)),
    Question("retry", (Target("lib/retry.ts"), Target("src/net.py", (3, 3)))),
]
TEXT = """\
# my queries

where is login checked\tsrc/auth.py:5-10
retry\t./lib/retry.ts\tsrc/net.py:3
"""
JSON = [
    {"query": "where is login checked", "targets": ["src/auth.py:5-10"]},
    {
        "query": " retry ",
        "targets": [{"path": "lib/retry.ts"}, {"path": "src/net.py", "start_line": 3}],
    },
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.tsv", TEXT),
        ("-", TEXT.replace("\n", "\r\n")),
        ("q.txt", "\ufeff" + TEXT),
        ("q.json", json.dumps(JSON, indent=2)),
        ("-", json.dumps(JSON)),
        ("q.jsonl", "\n\n".join(map(json.dumps, JSON))),
        ("-", "\n".join(map(json.dumps, JSON))),
    ],
)
def test_every_form_says_the_same(name: str, content: str) -> None:
    assert read_questions(name, content.encode()) == TWO


def test_what_is_written_is_read_again() -> None:
    questions = [
        *TWO,
        Question("größe", (Target("a b/c:7", (1, 2)), Target("x:3-9")), "commits", "4f2a"),
    ]
    assert read_questions("q.jsonl", as_lines(questions).encode()) == questions


@pytest.mark.parametrize(
    ("name", "content", "field", "rule"),
    [
        ("q.tsv", "login src/a.py\n", "line 1, target", "add a TAB"),
        ("q.tsv", "a\tx.py\n\t b.py\n", "line 2, query", "1 to 500 characters"),
        ("q.tsv", "a" * 501 + "\tx.py\n", "line 1, query", "1 to 500 characters"),
        ("q.tsv", "a\tx.py\n\na\ty.py\n", "line 3, query", "is a duplicate of line 1"),
        ("q.tsv", "a\tx.py:9-3\n", "line 1, target", "the first before the last"),
        ("q.tsv", "a\tx.py:0\n", "line 1, target", "lines from 1 on"),
        ("q.tsv", "a\t/etc/passwd\n", "line 1, target", "relative to the repository"),
        ("q.tsv", "a\t../x.py\n", "line 1, target", "relative to the repository"),
        ("q.tsv", "# nothing\n", "the file", "holds no query"),
        ("q.json", "", "line 1", "is not JSON"),
        ("q.json", '[\n{"query": }]', "line 2", "is not JSON"),
        ("q.json", '{"query": "a"}', "the file", "must hold a JSON list"),
        ("q.json", "[3]", "query 1, the entry", "must be an object"),
        ("q.json", "[]", "the file", "holds no query"),
        ("q.json", "[" * 100_000, "line 1", "is not JSON"),
        ("q.jsonl", '{"query": "a", "targets": []}', "line 1, targets", "at least one target"),
        ("q.jsonl", '{"query": "a", "targets": "x"}', "line 1, targets", "must be a list"),
        (
            "q.jsonl",
            '{"query": "a", "path": "x"}',
            "line 1, path",
            "is not a field; the fields are query",
        ),
        ("q.jsonl", '{"query": 1, "targets": ["x"]}', "line 1, query", "must be a text"),
        ("q.jsonl", '{"query": "a", "targets": ["x"], "group": 1}', "line 1, group", "a text"),
        ("q.jsonl", "{", "line 1, the line", "is not JSON"),
        (
            "q.jsonl",
            '{"query": "a", "targets": [{"path": "x", "end_line": 3}]}',
            "line 1, target",
            "a start_line where it has an end_line",
        ),
        (
            "q.jsonl",
            '{"query": "a", "targets": [{"path": "x", "start_line": true}]}',
            "line 1, target",
            "whole numbers",
        ),
        (
            "q.jsonl",
            '{"query": "a", "targets": [{"path": "x", "lines": [1, 2]}]}',
            "line 1, target",
            "path, start_line, end_line and nothing else",
        ),
    ],
)
def test_a_wrong_file_is_explained(name: str, content: str, field: str, rule: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_questions(name, content.encode())
    (problem,) = caught.value.details["fields"]
    assert problem["field"] == field
    assert rule in problem["constraint"]
    assert "nothing was done" in caught.value.message


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"^q\.tsv: 30 things to correct") as caught:
        read_questions("q.tsv", b"no target\n" * 30)
    assert len(caught.value.details["fields"]) == 20


def test_bytes_that_are_no_text_are_named_by_their_line() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_questions("q.tsv", b"a\tx.py\nb\xff\ty.py\n")
    assert caught.value.details["fields"][0]["field"] == "line 2"


def test_targets_that_are_not_indexed_are_refused() -> None:
    questions = read_questions("q.tsv", b"a\tx.py:5\nb\ty.py\tx.py:6\nc\tx.py\n")
    check_targets("q.tsv", questions[:1], {"x.py": 5}.get)
    with pytest.raises(InvalidInput) as caught:
        check_targets("q.tsv", questions, {"x.py": 5}.get)
    assert [(p["field"], p["constraint"][:24]) for p in caught.value.details["fields"]] == [
        ("line 2, target", "y.py is not an indexed f"),
        ("line 2, target", "x.py:6 has only 5 lines"),
    ]
