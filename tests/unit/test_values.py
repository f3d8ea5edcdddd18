"""Which values PostgreSQL and JSON can hold, and how the place of another one is named; groups."""

from __future__ import annotations

import math
from typing import Any

import pytest

from codebase_mcp.errors import InvalidInput
from codebase_mcp.values import grouped, require_storable


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("\0", "data"),
        ({"a": [1, {"b": "\ud800"}]}, "data.a.1.b"),
        ({"a": {"\0": 1}}, "data.a (a key)"),
        ({"k" * 200: math.inf}, "data." + "k" * 80),
    ],
)
def test_the_place_of_what_cannot_be_stored_is_named(value: Any, place: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_storable("data", value)
    assert caught.value.details["field"] == place
    assert caught.value.message.startswith(f"{place} must be ")


def test_the_parts_under_a_long_key_do_not_each_hold_it() -> None:
    """Half a million paths of a megabyte each would fill the memory of any machine."""
    require_storable("data", {"k" * 1_000_000: [1] * 500_000})


def test_values_are_grouped_in_their_order_and_an_unknown_key_has_none() -> None:
    groups = grouped([("a", 2), ("b", 1), ("a", 1)])
    assert list(groups.items()) == [("a", [2, 1]), ("b", [1])]
    assert groups["c"] == []
