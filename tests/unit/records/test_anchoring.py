"""What counts as the same place, and where a place went; values alone."""

from __future__ import annotations

from uuid import UUID

import pytest

from codebase_mcp.records.anchoring import (
    AnchorSpot,
    Body,
    Content,
    Definition,
    Named,
    body_of,
    find_renamed,
    follow_file,
    follow_symbol,
    likely_moves,
    most_alike,
    nearest,
)
from codebase_mcp.records.anchors import last_parts

REPOSITORY = UUID(int=1)


def hash_of(*lines: str) -> bytes:
    return body_of(lines, [(1, len(lines))]).hash


def make_spot(symbol: str | None = "Door.close", hash_: bytes = b"same") -> AnchorSpot:
    return AnchorSpot(REPOSITORY, "a.py", symbol, None, 1, 2, hash=hash_, blob_id=1)


def make_definition(
    path: str = "b.py", qualified: str = "Door.close", hash_: bytes = b"same"
) -> Definition:
    return Definition(path, 7, qualified, Body(5, 9, hash_))


# Bodies


@pytest.mark.parametrize(
    "lines",
    [
        ("def f():\n", "    return 1\n"),
        ("def f():   \n", "    return 1\t\n"),
        ("def f():\r\n", "    return 1\r\n"),
        ("def f():\n", "    return 1"),
        ("    def f():\n", "        return 1\n"),
        ("\tdef f():\n", "\t    return 1\n"),
    ],
)
def test_indentation_and_white_space_at_the_end_do_not_count(lines: tuple[str, ...]) -> None:
    assert hash_of(*lines) == hash_of("def f():", "    return 1")


@pytest.mark.parametrize(
    "lines",
    [
        ("def f():", "    return 2"),
        ("def f():", "  return 1"),
        ("def f():", "    return  1"),
        ("def f():", "", "    return 1"),
        ("def f(): return 1",),
    ],
)
def test_every_other_change_counts(lines: tuple[str, ...]) -> None:
    assert hash_of(*lines) != hash_of("def f():", "    return 1")


def test_lines_left_of_a_body_do_not_count_as_its_indentation() -> None:
    inside = ("    def f():", '        """A', "text at the margin", '        """')
    assert hash_of(*inside) == hash_of("def f():", '    """A', "text at the margin", '    """')


def test_definitions_of_the_same_name_have_one_body() -> None:
    lines = ["def f(): 1", "", "def f(): 2", "x"]
    body = body_of(lines, [(1, 1), (3, 3)])
    assert (body.start_line, body.end_line) == (1, 3)
    assert body.hash != body_of(lines, [(1, 1)]).hash


# Whole files


@pytest.mark.parametrize(
    ("here", "copy", "move", "expected"),
    [
        (b"same", None, None, ("a.py", "current", None, None)),
        (b"other", b"same", None, ("a.py", "needs_review", "the file changed", None)),
        (None, b"same", b"other", ("copy.py", "current", None, "a.py")),
        (
            None,
            None,
            b"other",
            ("move.py", "needs_review", "the file was moved and changed", "a.py"),
        ),
        (None, None, None, ("a.py", "needs_review", "the file is gone", None)),
    ],
)
def test_a_file_is_followed(
    here: bytes | None, copy: bytes | None, move: bytes | None, expected: tuple[str, ...]
) -> None:
    spot = follow_file(
        make_spot(None),
        here and Content("a.py", 2, here),
        copy and Content("copy.py", 3, copy),
        move and Content("move.py", 4, move),
    )
    assert (spot.file, spot.state, spot.reason, spot.moved_from) == expected
    assert spot.hash == b"same"
    assert spot.is_missing == (spot.reason == "the file is gone")


@pytest.mark.parametrize(
    ("paths", "added", "expected"),
    [
        (["x/b.py", "y/a.py"], [], "y/a.py"),
        (["new/pkg/data.json", "new/other/data.json"], [], "new/pkg/data.json"),
        (["old/pkg/copy.py", "old/pkg/moved.py"], ["old/pkg/moved.py"], "old/pkg/moved.py"),
        (["b.py", "old/b.py"], [], "old/b.py"),
        (["c.py", "b.py"], [], "b.py"),
        ([], [], None),
    ],
)
def test_of_identical_files_the_most_likely_one_is_chosen(
    paths: list[str], added: list[str], expected: str | None
) -> None:
    path = {"new/pkg/data.json": "old/pkg/data.json", "y/a.py": "x/a.py"}.get(
        expected or "", "old/pkg/a.py"
    )
    found = nearest(path, [Content(other, 1, b"") for other in paths], added)
    assert (found and found.path) == expected


def test_new_files_with_the_same_name_or_definitions_are_candidates() -> None:
    new = {
        "x/old.py": [],
        "much.py": ["a", "b", "c"],
        "little.py": ["a", "z"],
        "none.py": ["z"],
        "same.ts": ["a", "b", "c"],
    }
    assert likely_moves("old.py", ["a", "b", "c"], new) == ["x/old.py", "much.py", "little.py"]
    many = {f"{n:04}.py": ["a"] for n in range(1_001)} | {"deep/old.py": []}
    assert likely_moves("old.py", ["a"], many) == ["deep/old.py"]
    assert len(likely_moves("old.py", ["a"], {f"{n:03}.py": ["a"] for n in range(100)})) == 10


@pytest.mark.parametrize(
    ("other", "is_alike"),
    [
        ("one\ntwo\nthree\nfour\n", True),
        ("  four\n  three\n\n  two\n  one", True),
        ("one\ntwo\nthree\nzzzz\n", True),
        ("one\nxxx\nyyyyy\nzzzz\n", False),
        ("one\ntwo\nthree\nfour\n" + "another\n" * 5, False),
        ("", False),
    ],
)
def test_files_that_share_half_of_their_text_are_similar(other: str, is_alike: bool) -> None:
    found = most_alike("one\ntwo\nthree\nfour\n", {"other": other})
    assert found == ("other" if is_alike else None)


def test_the_most_similar_file_is_chosen() -> None:
    others = {"a": "one\ntwo\n", "b": "one\ntwo\nthree\n", "c": "one\ntwo\nthree\n"}
    assert most_alike("one\ntwo\nthree\n", others) == "b"


# Symbols


def test_a_symbol_in_place_is_compared_with_its_confirmed_body() -> None:
    spot = follow_symbol(make_spot(), make_definition("a.py"))
    assert (spot.state, spot.start_line, spot.end_line, spot.blob_id) == ("current", 5, 9, 7)
    spot = follow_symbol(spot, make_definition("a.py", hash_=b"other"))
    assert (spot.state, spot.reason, spot.hash) == ("needs_review", "Door.close changed", b"same")
    spot = follow_symbol(spot, make_definition("a.py"))
    assert (spot.state, spot.reason) == ("current", None)


@pytest.mark.parametrize(
    ("elsewhere", "moved_to", "expected"),
    [
        ([("b.py", "Door.close", b"same")], None, ("b.py", "Door.close", None)),
        ([("b.py", "Gate.close", b"same")], None, ("b.py", "Gate.close", None)),
        (
            [("b.py", "Door.close", b"same"), ("c.py", "Door.close", b"same")],
            "c.py",
            ("c.py", "Door.close", None),
        ),
        (
            [("a.py", "Gate.close", b"same"), ("c.py", "Door.close", b"same")],
            None,
            ("a.py", "Gate.close", None),
        ),
        (
            [("b.py", "Gate.close", b"same"), ("c.py", "Door.close", b"same")],
            None,
            ("c.py", "Door.close", None),
        ),
        (
            [("old.py", "Door.close", b"same"), ("new.py", "Door.close", b"same")],
            None,
            ("new.py", "Door.close", None),
        ),
        (
            [("b.py", "Door.close", b"same"), ("c.py", "Door.close", b"same")],
            None,
            ("a.py", "Door.close", "Door.close is gone; the same text is in b.py, c.py"),
        ),
        (
            [(f"{n}.py", "Door.close", b"same") for n in range(5)],
            None,
            (
                "a.py",
                "Door.close",
                "Door.close is gone; the same text is in 0.py, 1.py, 2.py, …",
            ),
        ),
        (
            [("new.py", "Door.close", b"other")],
            None,
            ("new.py", "Door.close", "Door.close was moved and changed"),
        ),
        (
            [("old.py", "Door.close", b"other")],
            "old.py",
            ("old.py", "Door.close", "Door.close was moved and changed"),
        ),
        (
            [("old.py", "Door.close", b"other")],
            None,
            ("a.py", "Door.close", "Door.close is gone"),
        ),
        (
            [("new.py", "Gate.close", b"other")],
            None,
            ("a.py", "Door.close", "Door.close is gone"),
        ),
        (
            [("new.py", "Door.close", b"other"), ("new2.py", "Door.close", b"other2")],
            None,
            ("a.py", "Door.close", "Door.close is gone"),
        ),
        ([], None, ("a.py", "Door.close", "Door.close is gone")),
    ],
)
def test_a_moved_symbol_is_followed(
    elsewhere: list[tuple[str, str, bytes]],
    moved_to: str | None,
    expected: tuple[str, str, str | None],
) -> None:
    spot = follow_symbol(
        make_spot(),
        None,
        elsewhere=[make_definition(*definition) for definition in elsewhere],
        moved_to=moved_to,
        written={"new.py", "new2.py"},
    )
    assert (spot.file, spot.symbol, spot.reason) == expected
    assert (spot.state == "current") == (spot.reason is None)
    assert spot.moved_from == (None if spot.file == "a.py" else "a.py")
    assert spot.is_missing == (spot.reason is not None and "gone" in spot.reason)
    assert (spot.start_line is None) == spot.is_missing


BEFORE = [Named("close", "Door.close", 1, 2), Named("open", "Door.open", 4, 5)]


@pytest.mark.parametrize(
    ("now", "lines", "expected"),
    [
        ([("shut", "Door.shut", 1, 2)], ["def shut(self):", "    self.shut()"], "Door.shut"),
        ([("shut", "Door.shut", 1, 2)], ["def shut(self):", "    self.shut"], None),
        ([("shut", "Gate.shut", 1, 2)], ["def shut(self):", "    self.shut()"], None),
        ([("open", "Door.open", 1, 2)], ["def open(self):", "    self.open()"], None),
        (
            [("shut", "Door.shut", 1, 2), ("bang", "Door.bang", 3, 4)],
            ["def shut(self):", "    self.shut()", "def bang(self):", "    self.bang()"],
            None,
        ),
    ],
)
def test_a_renamed_symbol_is_the_only_new_definition_with_the_same_body(
    now: list[tuple[str, str, int, int]], lines: list[str], expected: str | None
) -> None:
    confirmed = hash_of("def close(self):", "    self.close()")
    spot = make_spot(hash_=confirmed)
    found = find_renamed(spot, BEFORE, [Named(*named) for named in now], lines)
    assert (found and found[0]) == expected
    assert find_renamed(spot, [], [Named(*named) for named in now], lines) is None


def test_confirming_a_renamed_symbol_stores_its_new_body() -> None:
    renamed = make_definition("a.py", "Door.shut", b"renamed")
    spot = follow_symbol(make_spot(), None, renamed=renamed)
    assert (spot.symbol, spot.state, spot.moved_from, spot.hash) == (
        "Door.shut",
        "current",
        None,
        b"renamed",
    )


def test_the_last_parts_of_a_name() -> None:
    assert last_parts("a.b.c") == ["a.b.c", "b.c", "c"]
    assert last_parts("a") == ["a"]
    assert len(last_parts("a." * 200)) <= 21
