"""What grep finds for a query, held against the real one."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from codebase_mcp.app.evaluation.grep import FileText, best_matches, content_words, grep, printed
from codebase_mcp.model import FileKind


def text_file(path: str, text: str) -> FileText:
    return FileText(path, text, "text", FileKind.CODE)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How are the failed Requests retried?", ("failed", "requests", "retried")),
        ("parse_json JSON parse_json x", ("parse_json", "json")),
        ("what is it", ()),
        ("größe der Datei", ("größe", "der", "datei")),
    ],
)
def test_content_words(query: str, words: tuple[str, ...]) -> None:
    assert content_words(query) == words


def test_more_different_words_come_first_then_more_lines_then_the_earlier_file() -> None:
    files = [
        text_file("one-word-often", "retry\n" * 50),
        text_file("none", "nothing\n"),
        text_file("a-both-twice", "request requests\nretry\n"),
        text_file("b-both-thrice", "retrying requests\nretry\nrequest\n"),
        text_file("both-twice", "Retry\nREQUESTS\n"),
    ]
    (found,) = best_matches([("retry", "request")], files, 10)
    assert [match.path for match in found] == [
        "b-both-thrice", "a-both-twice", "both-twice", "one-word-often",
    ]  # fmt: skip
    assert [match[:2] for match in found] == [(2, 3), (2, 2), (2, 2), (1, 50)]


def test_only_the_best_are_kept() -> None:
    files = [text_file(f"{n:02}", "word\n" * (n % 7 + 1) + "other\n" * (n % 3)) for n in range(60)]
    asked = [("word", "other"), ("other",), ("missing",)]
    whole = best_matches(asked, files, 60)
    assert best_matches(asked, files, 10) == [found[:10] for found in whole]
    assert [len(found) for found in whole] == [60, 40, 0]


def test_what_is_printed_is_what_grep_prints(tmp_path: Path) -> None:
    chance = random.Random(7)
    words = "alpha Beta gammaDelta x.y() {} ÄRGER -- 12: ".split(" ")
    for number in range(20):
        lines = [" ".join(chance.choices(words, k=1)) for _ in range(chance.randrange(40))]
        text = "\n".join(lines) + "\n" * (number % 2)
        (tmp_path / "f").write_text(text, "utf-8")
        command = "grep -i -n -m 20 -C 2 -e alpha -e delta f".split()
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, env={"LC_ALL": "C.UTF-8"}, check=False
        )
        expected = done.stdout.decode()
        file = text_file("f", text)
        (found,) = grep(["alpha delta"], [file], {"f": file}.get, 9)
        assert sum(one.chars for one in found) == (len("f\n") + len(expected) if expected else 0)
        spans = [place.span or (1, 0) for one in found for place in one.places]
        shown = {n for first, last in spans for n in range(first, last + 1)}
        parts = (line.replace("-", ":", 1).split(":")[0] for line in expected.splitlines())
        assert shown == {int(part) for part in parts if part.isdigit()}


def test_a_file_is_printed_up_to_its_twentieth_match_and_lines_up_to_500_characters() -> None:
    often = text_file("f", "word\n" * 100)
    (match,) = best_matches([("word",)], [often], 1)[0]
    (place,) = printed(match, often).places
    assert place.span == (1, 22)
    long = text_file("f", "word" + "x" * 10_000)
    (match,) = best_matches([("word",)], [long], 1)[0]
    assert printed(match, long).chars == len("f\n1:\n") + 500


def test_a_file_that_is_gone_meanwhile_is_left_out() -> None:
    assert grep(["word"], [text_file("f", "word")], lambda _: None, 10) == [[]]
