"""What surely fits is what the library finds nothing wrong with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.fitting import fits
from codebase_mcp.tools.validator import Validator

PARAMETERS = [
    pytest.param(schema, id=f"{tool.name}.{name}")
    for tool in all_tools()
    for name, schema in tool.input_schema()["properties"].items()
]
WORDS = st.sampled_from(["", "py", "planned", "search", "src/auth", "file", "a" * 40, "x" * 6_000])
LEAVES = st.none() | st.booleans() | st.integers(-2, 20_000) | st.floats() | WORDS
KEYS = st.sampled_from(["languages", "file_extensions", "file", "symbol", "any"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(value=VALUES)
def test_what_fits_is_valid_and_what_is_valid_fits(value: Any) -> None:
    for parameter in PARAMETERS:
        [schema] = parameter.values
        is_valid = Validator(schema).is_valid(value)
        # The library takes 3.0 for a whole number, here it is left to it to say so.
        assert fits(schema, value) <= is_valid
        assert fits(schema, value) or not is_valid or _holds_float(value)


def _holds_float(value: Any) -> bool:
    if isinstance(value, list | dict):
        return any(map(_holds_float, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float)


@pytest.mark.parametrize("schema", PARAMETERS)
def test_the_default_of_every_parameter_fits(schema: dict[str, Any]) -> None:
    if "default" in schema:
        assert fits(schema, schema["default"])


def test_a_keyword_that_is_not_known_here_is_left_to_the_library() -> None:
    assert not fits({"type": "string", "contentEncoding": "base64"}, "eA==")
