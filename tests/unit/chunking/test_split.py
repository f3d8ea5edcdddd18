"""Where a text is cut, and which definition a chunk bears."""

from __future__ import annotations

import pytest

from codebase_mcp.chunking.lines import LIMIT_CHARS, TARGET_CHARS, split_lines
from codebase_mcp.chunking.split import split
from codebase_mcp.model import Chunk, Outline


def _texts(text: str, outline: Outline) -> list[str]:
    lines = split_lines(text)
    return ["".join(lines[c.start_line - 1 : c.end_line]) for c in outline.chunks]


def _function(name: str, lines: int, indent: str = "") -> str:
    body = "".join(f"{indent}    value_{i} = compute(value, {i})\n" for i in range(lines))
    return f"{indent}def {name}(self, value):\n{body}"


def _chunk_of(outline: Outline, symbol: str) -> Chunk:
    return next(chunk for chunk in outline.chunks if chunk.symbol == symbol)


@pytest.mark.parametrize("text", ["", "\n", "\n\n  \n\t\n", "\r\n\r\n", "\r", "\x0c\n"])
@pytest.mark.parametrize("language", ["python", "markdown", "yaml", "text"])
def test_a_text_without_words_has_no_chunks(text: str, language: str) -> None:
    assert split(text, language).chunks == ()


def test_a_short_file_is_one_chunk_trimmed_of_blank_lines() -> None:
    outline = split("\n\nimport os\n\n\ndef main():\n    return os\n\n\n", "python")
    assert outline.chunks == (Chunk(3, 7, "main", "function"),)


def test_a_file_without_a_final_line_end_keeps_its_last_line() -> None:
    assert split("x = 1\ny = 2", "python").chunks == (Chunk(1, 2, "x", "variable"),)


@pytest.mark.parametrize("language", ["text", "nonsense", "", "gitignore"])
def test_a_language_without_grammar_is_cut_by_lines(language: str) -> None:
    text = "".join(f"line {i} of some prose\n" for i in range(200))
    outline = split(text, language)
    assert "".join(_texts(text, outline)) == text
    assert {(chunk.symbol, chunk.kind) for chunk in outline.chunks} == {(None, "text")}
    assert outline.symbols == outline.comments == ()
    assert all(len(chunk) <= TARGET_CHARS for chunk in _texts(text, outline))


def test_small_functions_are_merged_up_to_the_target_size() -> None:
    text = "\n\n".join(_function(f"small_{i}", 6) for i in range(10))
    outline = split(text, "python")
    sizes = [len(chunk) for chunk in _texts(text, outline)]
    assert len(sizes) < 10
    assert max(sizes) <= TARGET_CHARS
    assert all(chunk.startswith("def ") for chunk in _texts(text, outline))


def test_a_function_longer_than_the_target_stays_whole_while_it_may() -> None:
    text = f"{_function('one', 10)}\n\n{_function('whole', 36)}\n\n{_function('three', 10)}"
    outline = split(text, "python")
    whole = _chunk_of(outline, "whole")
    assert TARGET_CHARS < len(_function("whole", 36)) <= LIMIT_CHARS
    assert (whole.start_line, whole.end_line) == (14, 50)


def test_a_long_class_is_cut_between_its_methods() -> None:
    methods = "\n".join(_function(f"method_{i}", 15, "    ") for i in range(6))
    text = f'class Router:\n    """Keeps routes."""\n\n{methods}'
    outline = split(text, "python")
    texts = _texts(text, outline)
    assert len(texts) > 2
    assert texts[0].startswith("class Router:")
    assert "def method_0" in texts[0]
    assert all(chunk.lstrip().startswith("def method_") for chunk in texts[1:])
    symbols = [chunk.symbol for chunk in outline.chunks]
    assert symbols[0] == "Router"
    assert all(symbol and symbol.startswith("Router.method_") for symbol in symbols[1:])
    assert {chunk.kind for chunk in outline.chunks[1:]} == {"method"}


def test_a_long_function_is_cut_between_its_statements_and_keeps_its_name() -> None:
    blocks = "".join(
        f"    if value > {i}:\n" + "".join(f"        call_{i}({j}, value)\n" for j in range(12))
        for i in range(12)
    )
    text = f"def long(value):\n{blocks}"
    outline = split(text, "python")
    texts = _texts(text, outline)
    assert len(texts) > 2
    assert all(chunk.startswith("    if value >") for chunk in texts[1:])
    assert {(chunk.symbol, chunk.kind) for chunk in outline.chunks} == {("long", "function")}


def test_what_follows_a_cut_definition_does_not_join_its_last_piece() -> None:
    methods = "\n".join(_function(f"method_{i}", 15, "    ") for i in range(4))
    text = f"class Long:\n{methods}\n\n{_function('after', 8)}"
    outline = split(text, "python")
    after = _chunk_of(outline, "after")
    assert split_lines(text)[after.start_line - 1].startswith("def after")


LEADS = {
    "python": (
        "# Says why.\n# At length.\n@cache\n@other(1)\n",
        "def {0}(value):\n",
        "    x({1})\n",
        "",
    ),
    "rust": (
        "/// Says why.\n#[inline]\n#[must_use]\n",
        "fn {0}(v: u8) {{\n",
        "    x({1});\n",
        "}\n",
    ),
    "java": ("/** Says why. */\n@Other\n", "class {0} {{\n", "    int x{1};\n", "}\n"),
    "typescript": ("/** Says why. */\n", "export function {0}() {{\n", "  x({1});\n", "}\n"),
    "go": ("// Says why.\n", "func {0}() {{\n", "\tx({1})\n", "}\n"),
    "elixir": (
        '@doc "Says why."\n@spec {0}(any) :: any\n',
        "def {0}(v) do\n",
        "  x({1})\n",
        "end\n",
    ),
    "haskell": ("-- | Says why.\n{0} :: Int\n", "{0} = sum\n", "  [ {1} ]\n", ""),
    "c": ("/* Says\n   why. */\n", "int {0}(void)\n{{\n", "  x({1});\n", "}\n"),
    "ruby": ("# Says why.\n", "def {0}(v)\n", "  x({1})\n", "end\n"),
    "lua": ("--- Says why.\n", "function {0}(v)\n", "  x({1})\n", "end\n"),
}


@pytest.mark.parametrize("language", LEADS)
def test_comments_and_attributes_travel_with_their_definition(language: str) -> None:
    lead, head, line, tail = LEADS[language]
    text = "\n".join(
        lead.format(f"item{n}")
        + head.format(f"item{n}")
        + "".join(line.format(f"item{n}", i) for i in range(45))
        + tail
        for n in range(5)
    )
    outline = split(text, language)
    texts = _texts(text, outline)
    first_line = lead.splitlines()[0]
    for n in range(5):
        name = f"item{n}"
        assert name in {symbol.name for symbol in outline.symbols}
        (with_head,) = [t for t in texts if head.format(name).splitlines()[0] in t]
        before = with_head[: with_head.index(head.format(name))]
        assert before.endswith(lead.format(name))
        assert first_line.format(name) in before


def test_a_comment_behind_code_does_not_pull_the_line_to_what_follows() -> None:
    text = _function("first", 30) + "x = 1  # trailing\n" + _function("second", 30)
    second = _chunk_of(split(text, "python"), "second")
    assert split_lines(text)[second.start_line - 1].startswith("def second")


def test_a_comment_too_long_for_its_definition_does_not_cut_into_the_definition() -> None:
    comment = "".join(f"# A long explanation of what follows, line {i}.\n" for i in range(60))
    text = comment + _function("explained", 25)
    outline = split(text, "python")
    last = _texts(text, outline)[-1]
    assert "def explained" in last and last.endswith(_function("explained", 25))
    assert {chunk.symbol for chunk in outline.chunks} == {"explained"}


def test_a_nested_function_does_not_name_the_part_of_the_function_around_it() -> None:
    inner = "    def helper():\n        return 1\n\n"
    text = _function("outer", 30) + inner + "".join(f"    after({i})\n" for i in range(60))
    assert {chunk.symbol for chunk in split(text, "python").chunks} == {"outer"}


def test_embedded_code_is_cut_and_named_in_its_own_language() -> None:
    functions = "".join(
        f"function f{i}() {{\n" + "".join(f"  call({j}, 'some text');\n" for j in range(25)) + "}\n"
        for i in range(5)
    )
    text = f"<template>\n  <p/>\n</template>\n\n<script>\n{functions}</script>\n"
    outline = split(text, "vue")
    assert [symbol.name for symbol in outline.symbols] == ["f0", "f1", "f2", "f3", "f4"]
    assert {"f1", "f2", "f3"} <= {chunk.symbol for chunk in outline.chunks}
    assert _chunk_of(outline, "f2").start_line == 6 + 2 * 27


def test_a_byte_order_mark_and_form_feeds_are_part_of_their_lines() -> None:
    text = "\ufeffimport os\n\x0c\ndef f():\n    return '\x0c\u2028'\n"
    outline = split(text, "python")
    assert outline.chunks == (Chunk(1, 4, "f", "function"),)
    assert [(s.name, s.start_line) for s in outline.symbols] == [("f", 3)]


def test_text_that_is_no_valid_unicode_is_split_all_the_same() -> None:
    outline = split("def f():\n    return '\udc80\x00'\n", "python")
    assert [symbol.name for symbol in outline.symbols] == ["f"]


def test_a_hundred_thousand_lines_are_split_completely() -> None:
    text = "".join(f"def f{i}(x):\n    return x\n\n\n" for i in range(25_000))
    outline = split(text, "python")
    assert len(outline.symbols) == 25_000
    covered = sum(chunk.end_line - chunk.start_line + 1 for chunk in outline.chunks)
    assert covered >= 50_000
    assert outline.chunks[-1].end_line == 99_998


@pytest.mark.parametrize("language", ["python", "javascript", "json", "css", "rust", "c", "yaml"])
@pytest.mark.parametrize("unit", ["[", "[\n", "(\n", "{", "{a:\n"])
def test_ten_thousand_open_brackets_are_split_completely(language: str, unit: str) -> None:
    text = unit * 10_000
    outline = split(text, language)
    assert "".join(_texts(text, outline)) == text


@pytest.mark.parametrize("language", ["python", "javascript", "css", "json", "text"])
def test_one_huge_line_is_one_chunk(language: str) -> None:
    text = "a{b:c}" * 175_000
    (chunk,) = split(text, language).chunks
    assert (chunk.start_line, chunk.end_line) == (1, 1)


def test_a_minified_text_is_cut_by_lines_and_defines_nothing() -> None:
    line = "function a(b){return b};" * 40 + "\n"
    outline = split(line * 40, "javascript")
    assert len(outline.chunks) == 40
    assert outline.symbols == ()
    assert split(line, "javascript").symbols != ()


def test_cmake_that_cannot_be_read_whole_is_cut_by_lines() -> None:
    whole = "function(greet)\n  message(hello) # aloud\nendfunction()\n"
    assert [symbol.name for symbol in split(whole, "cmake").symbols] == ["greet"]
    outline = split(whole + "set(\n", "cmake")
    assert (outline.symbols, outline.comments) == ((), ())
    assert [(chunk.start_line, chunk.end_line) for chunk in outline.chunks] == [(1, 4)]


def test_names_are_bounded_however_long_they_are_written() -> None:
    nested = (
        "".join("  " * i + f"class {'N' * 300}{i}:\n" for i in range(20)) + "  " * 20 + "x = 1\n"
    )
    for symbol in split(nested, "python").symbols:
        assert len(symbol.name) <= 200
        assert len(symbol.qualified) <= 500
        assert symbol.qualified.endswith(symbol.name)


def test_statements_are_called_what_a_comment_says() -> None:
    text = "-- name: get-user\n-- By id.\nSELECT 1;\n\n-- :name add :!\nCREATE TABLE a (b int);\n"
    symbols = [(s.qualified, s.kind, s.start_line, s.end_line) for s in split(text, "sql").symbols]
    assert symbols == [
        ("get-user", "section", 1, 4),
        ("add", "section", 5, 6),
        ("a", "table", 6, 6),
    ]
