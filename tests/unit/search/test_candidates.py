"""How a directory becomes conditions on paths."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.search.scope import directory_bounds, directory_matcher, directory_pattern

_LETTERS = "ab/%_.\\\ud7ff\U0010ffff"


def is_like(path: str, pattern: str | None) -> bool:
    """SQL's LIKE."""
    if pattern is None:
        return True
    out = ""
    letters = iter(pattern)
    for letter in letters:
        out += ".*" if letter == "%" else re.escape(next(letters) if letter == "\\" else letter)
    return re.fullmatch(out, path, re.DOTALL) is not None


def is_within(path: str, directory: str) -> bool:
    bounds = directory_bounds(directory)
    first, beyond = bounds["first"], bounds["beyond"]
    in_range = first is None or first.encode() <= path.encode()
    before = beyond is None or path.encode() < beyond.encode()
    return in_range and before and is_like(path, bounds["piece"])


@given(st.text("*" + _LETTERS, min_size=1, max_size=6), st.text(_LETTERS, max_size=8))
def test_no_path_of_a_directory_lies_outside_its_bounds(directory: str, path: str) -> None:
    is_below = re.search(directory_pattern(directory), path, re.DOTALL) is not None
    assert directory_matcher(directory)(path) == is_below
    if is_below:
        assert is_within(path, directory)
    assert is_within(directory.replace("*", "x").strip("/"), directory)


@given(st.text("*{,}" + _LETTERS, min_size=1, max_size=9), st.text(_LETTERS, max_size=8))
def test_no_path_of_several_directories_lies_outside_their_bounds(
    directory: str, path: str
) -> None:
    if directory_matcher(directory)(path):
        assert is_within(path, directory)


@pytest.mark.parametrize(
    ("directory", "path", "is_below"),
    [
        ("{src,docs/api}", "src/a.py", True),
        ("{src,docs/api}", "docs/api", True),
        ("{src,docs/api}", "docs/b.md", False),
        ("packages/{a,b*}/lib", "packages/bc/lib/x", True),
        ("packages/{a,b*}/lib", "packages/ac/lib/x", False),
        ("{{name}}/src", "{{name}}/src/a.py", True),
    ],
)
def test_braces_hold_several_directories(directory: str, path: str, is_below: bool) -> None:
    assert directory_matcher(directory)(path) is is_below


@pytest.mark.parametrize(
    ("directory", "path"),
    [("src/app", "src/ab"), ("src/app", "srb"), ("**/parsers", "src/other.py"), ("a_b", "axb")],
)
def test_bounds_leave_most_other_paths_out(directory: str, path: str) -> None:
    assert not is_within(path, directory)


def test_no_directory_has_no_bounds() -> None:
    assert set(directory_bounds(None).values()) == {None}


@pytest.mark.parametrize(
    ("repeated", "once"),
    [("*" * 499, "**"), ("src/" + "*" * 401, "src/**"), ("**/" * 150 + "a", "**/a")],
)
def test_repeated_wildcards_count_once(repeated: str, once: str) -> None:
    assert directory_pattern(repeated) == directory_pattern(once)
