"""Which lines of a definition are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.tools.replies.excerpts import excerpt

LINES = ["def charge(self, card):\n", *(f"    step_{n}()\n" for n in range(1, 40))]


def test_a_short_definition_is_shown_whole() -> None:
    assert excerpt(LINES[:8], [5], most_lines=10, most_chars=1_000) == list(range(8))


def test_of_a_long_one_the_signature_and_what_matches_with_two_lines_around() -> None:
    shown = excerpt(LINES, [20, 35], most_lines=12, most_chars=1_000)
    assert shown == [0, 18, 19, 20, 21, 22, 33, 34, 35, 36, 37]


def test_lines_end_where_the_budget_does() -> None:
    shown = excerpt(LINES, [20, 35], most_lines=8, most_chars=1_000)
    assert shown == [0, 18, 19, 20, 21, 22]


def test_a_gap_of_one_line_is_closed() -> None:
    shown = excerpt(LINES, [4], most_lines=12, most_chars=1_000)
    assert shown == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("head", "count"),
    [
        (["def charge(\n", "    self,\n", ") -> None:\n"], 1),
        (["int charge(struct card *card,\n", "           int amount)\n", "{\n"], 3),
        (["async function charge(card) {\n"], 1),
    ],
)
def test_a_signature_may_take_several_lines(head: list[str], count: int) -> None:
    shown = excerpt([*head, *LINES[1:]], [30], most_lines=12, most_chars=1_000)
    assert shown[: count + 1] == [*range(count), 28]


def test_without_a_match_it_is_the_beginning() -> None:
    assert excerpt(LINES, [], most_lines=4, most_chars=1_000) == [0, 1, 2, 3]


@given(
    st.lists(st.text("ab {:\n", max_size=300), max_size=30),
    st.lists(st.integers(0, 40), max_size=10),
    st.integers(1, 40),
    st.integers(1, 3_000),
)
def test_places_are_real_ascending_and_within_the_number_of_lines(
    lines: list[str], matching: list[int], most_lines: int, most_chars: int
) -> None:
    shown = excerpt(lines, matching, most_lines=most_lines, most_chars=most_chars)
    assert shown == sorted(set(shown))
    assert all(0 <= place < len(lines) for place in shown)
    assert len(shown) <= max(most_lines, 4)  # a signature is shown whole


def test_where_little_fits_it_is_the_best_line_alone() -> None:
    assert excerpt(LINES, [20, 35], most_lines=4, most_chars=1_000) == [0, 19, 20, 21]
    assert excerpt(LINES, [20, 35], most_lines=2, most_chars=1_000) == [0, 20]
