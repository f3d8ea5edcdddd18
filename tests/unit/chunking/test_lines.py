"""What a line is, and how text without syntax falls into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.chunking.lines import (
    TARGET_CHARS,
    LineTable,
    cut_by_lines,
    normalise_newlines,
    split_lines,
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a\n"]),
        ("\n", ["\n"]),
        ("a\nb", ["a\n", "b"]),
        ("a\r\nb\r\n", ["a\r\n", "b\r\n"]),
        ("a\rb", ["a\r", "b"]),
        ("a\r\r\nb\n\r", ["a\r", "\r\n", "b\n", "\r"]),
        ("\r\n\n\r", ["\r\n", "\n", "\r"]),
        ("a\x0cb\u2028c\x85d\x1ce\x0bf", ["a\x0cb\u2028c\x85d\x1ce\x0bf"]),
    ],
)
def test_only_line_feeds_and_carriage_returns_end_a_line(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@given(st.text(st.sampled_from("ab \n\r\x0c\u2028")))
def test_lines_are_the_text_and_as_many_as_in_the_normalised_one(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == LineTable(normalise_newlines(text)).count
    assert all(line.rstrip("\r\n") == line.replace("\r", "").replace("\n", "") for line in lines)


def test_a_table_measures_runs_of_rows_with_their_line_ends() -> None:
    table = LineTable("ab\n\n  \ncde")
    assert table.count == 4
    assert (table.chars(0, 1), table.chars(0, 2), table.chars(3, 4)) == (3, 4, 4)
    assert [table.is_blank(row) for row in range(4)] == [False, True, True, False]
    assert table.trim(1, 4) == (3, 4)
    assert table.trim(1, 3) == (3, 3)


def test_text_is_cut_at_a_blank_line_where_one_is_near() -> None:
    paragraph = ("word " * 10 + "\n") * 8
    table = LineTable(f"{paragraph}\n{paragraph}\n{paragraph}")
    cuts = cut_by_lines(table, 0, table.count)
    assert cuts == [0, 18]


def test_text_without_blank_lines_is_cut_at_the_target_size() -> None:
    table = LineTable("x" * 99 + "\n" + ("y" * 99 + "\n") * 25)
    cuts = cut_by_lines(table, 0, table.count)
    assert cuts == [0, 10, 20]


def test_a_line_longer_than_the_target_is_a_piece_of_its_own() -> None:
    table = LineTable("short\n" + "x" * (2 * TARGET_CHARS) + "\nshort\n")
    assert cut_by_lines(table, 0, table.count) == [0, 1, 2]
