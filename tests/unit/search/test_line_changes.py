"""Which lines differ between two versions of a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.search.changes import line_changes

OLD = "a\nb\nc\nd\ne\nf\n"


def test_new_lines_are_added() -> None:
    found = line_changes(OLD, "a\nb\nx\ny\nc\nd\ne\nf\n")
    assert found.added == ((3, 4),)
    assert found.of_new(3, 4) == "added"
    assert found.of_new(1, 3) == "changed"
    assert found.of_new(5, 8) is None


def test_a_text_without_a_predecessor_is_added_and_one_without_a_successor_removed() -> None:
    assert line_changes(None, OLD).of_new(1, 6) == "added"
    assert line_changes(OLD, None).of_old(1, 6) == "removed"


def test_a_piece_that_lost_some_lines_is_changed_where_they_were() -> None:
    found = line_changes(OLD, "a\nb\nc\ne\nf\n").within([(1, 6)])
    assert found.of_old(1, 6) is None
    assert found.of_new(1, 5) == "changed"
    assert found.of_new(1, 3) is None


def test_around_a_piece_that_is_gone_nothing_is_changed() -> None:
    found = line_changes(OLD, "a\nb\ne\nf\n").within([(1, 2), (3, 4), (5, 6)])
    assert found.of_old(3, 4) == "removed"
    assert found.of_new(1, 2) is None
    assert found.of_new(3, 4) is None


LINES = st.lists(st.sampled_from("abc"), max_size=12)


@given(LINES, LINES)
def test_without_the_lines_that_differ_both_texts_are_the_same(
    before: list[str], after: list[str]
) -> None:
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))
    found = line_changes(old, new)
    differing = {
        n for first, last in (*found.added, *found.changed) for n in range(first, last + 1)
    }
    kept = [line for n, line in enumerate(after, 1) if n not in differing]
    rest = iter(before)
    assert all(line in rest for line in kept)  # in the same order
    if old == new:
        assert not (found.added or found.changed or found.removed)
