"""Whatever the text: nothing is lost, nothing is twice, nothing is too long, nothing is raised."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codebase_mcp.chunking.lines import LIMIT_CHARS, split_lines
from codebase_mcp.chunking.split import split
from codebase_mcp.chunking.symbols import KINDS

SNIPPETS = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "snippets").glob("*.txt"))
}
LANGUAGES = [*SNIPPETS, "text"]


def assert_outline_holds(text: str, language: str) -> None:
    """The promises of ``split``, checked on one text."""
    outline = split(text, language)
    lines = split_lines(text)
    covered: list[int] = []
    for chunk in outline.chunks:
        assert chunk.start_line <= chunk.end_line
        rows = lines[chunk.start_line - 1 : chunk.end_line]
        assert rows[0].strip() and rows[-1].strip()
        assert len(rows) == 1 or sum(len(row.rstrip("\r\n")) + 1 for row in rows) <= LIMIT_CHARS
        assert chunk.kind in KINDS or (chunk.kind == "text" and chunk.symbol is None)
        covered += range(chunk.start_line, chunk.end_line + 1)
    assert covered == sorted(set(covered))
    assert {row for row, line in enumerate(lines, 1) if line.strip()} <= set(covered)
    for symbol in outline.symbols:
        assert 1 <= symbol.start_line <= symbol.end_line <= len(lines)
        assert symbol.name and symbol.kind in KINDS - {"extension"}
        assert symbol.depth >= 0
    assert split(text, language) == outline


def _shuffled(text: str, seed: int) -> str:
    """Pieces of real code in the wrong order, repeated, cut off, their line ends mixed."""
    chance = random.Random(seed)
    by_word = chance.random() < 0.5
    pieces = text.split(" ") if by_word else text.splitlines(keepends=True)
    chosen = [chance.choice(pieces) for _ in range(chance.randint(1, 4 * len(pieces)))]
    broken = (" " if by_word else "").join(chosen)
    broken = broken[: chance.randint(0, len(broken))]
    return broken.replace("\n", chance.choice(["\n", "\n", "\r\n", "\r", "\n\n"]))


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=st.text(max_size=300))
def test_any_text_is_covered_exactly_once(language: str, text: str) -> None:
    assert_outline_holds(text, language)


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=12, deadline=None)
@given(
    text=st.lists(st.sampled_from("(){}[]<>\"'`#/*-:;,.=|@$!?\\ \n\r\t\x00a1é\U0001f600")).map(
        "".join
    )
)
def test_any_punctuation_is_covered_exactly_once(language: str, text: str) -> None:
    assert_outline_holds(text, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_broken_code_is_covered_exactly_once(language: str) -> None:
    source = SNIPPETS.get(language, SNIPPETS["markdown"])
    for seed in range(25):
        assert_outline_holds(_shuffled(source, seed), language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_prefix_of_a_text_is_covered_exactly_once(language: str) -> None:
    source = SNIPPETS.get(language, SNIPPETS["markdown"])
    for end in range(0, len(source), 7):
        assert_outline_holds(source[:end], language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_texts_are_cut_within_the_limit(language: str) -> None:
    source = SNIPPETS.get(language, SNIPPETS["markdown"])
    assert_outline_holds(source * 12, language)
    assert_outline_holds(source.replace("\n", " ") + "\n" + source * 3, language)
    assert_outline_holds(
        "\n".join("    " * (i % 7) + line for i, line in enumerate(source * 9)), language
    )
