"""How replies and errors read as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from codebase_mcp.errors import Conflict, InvalidInput, NotFound
from codebase_mcp.tools.arguments import combined
from codebase_mcp.tools.text import error_text, lines_of, moment, page

AT = datetime(2026, 11, 22, 20, 9, 44, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"a": None, "b": "", "c": [], "d": {}, "e": 0, "f": False}, ["e: 0", "f: false"]),
        ({"at": AT, "share": 0.5, "tags": ["x", "y"]},
         ["at: 2026-11-22 20:09Z", "share: 0.5", "tags: x, y"]),
        ({"languages": {"python": 3, "go": 1}}, ["languages: python 3, go 1"]),
        ({"index": {"state": "ready", "models": {"m": 1}, "left": {}}},
         ["index:", "  state: ready", "  models: m 1"]),
        ({"people": [{"name": "A", "age": None}, {"name": "B", "data": {"k": [1]}}]},
         ["people:", "  name A", '  name B, data {"k":[1]}']),
        ({"notes": "one\ntwo"}, ["notes:\none\ntwo"]),
    ],
)  # fmt: skip
def test_fields_are_lines_without_what_is_null_or_empty(
    fields: dict[str, Any], lines: list[str]
) -> None:
    assert list(lines_of(fields)) == lines


def test_a_time_is_told_in_utc() -> None:
    assert moment(AT.astimezone(timezone(timedelta(hours=5)))) == "2026-11-22 20:09Z"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((0, 0, "tasks", None), "no tasks"),
        ((3, 3, "tasks", None), "3 tasks"),
        ((3, 12, "tasks", "abc"), '3 of 12 tasks; next page: cursor="abc"'),
    ],
)
def test_a_page_says_how_many_there_are_and_how_to_get_the_next_ones(
    arguments: Any, line: str
) -> None:
    assert page(*arguments) == line


def test_an_error_says_what_went_wrong_where_and_what_to_do() -> None:
    error = InvalidInput.of("limit", 100, "Limit is too high", rule="1..50", hint="Pass less.")
    assert error_text(error.as_dict()) == (
        "Error VALIDATION_ERROR: Limit is too high\nlimit = 100; rule: 1..50\nTry: Pass less."
    )


def test_several_problems_are_a_line_each() -> None:
    missing = InvalidInput.of("query", None, "Field required: query", rule="required")
    path = InvalidInput.of("path", "..", "No such path: ..", rule="a path", hint="Pass another.")
    assert error_text(combined([missing, path]).as_dict()) == (
        "Error VALIDATION_ERROR: Parameter validation failed\n"
        "query: Field required: query\n"
        "path: No such path: ... Pass another."
    )


def test_details_are_told_unless_the_message_or_the_hint_has_them() -> None:
    stale = Conflict("Version 1 was expected, it is 2", details={"current": 2, "id": "x-9"})
    assert error_text(stale.as_dict()) == (
        "Error CONFLICT: Version 1 was expected, it is 2\nid x-9"
    )
    unknown = NotFound("Unknown tool: a", hint="Did you mean b?", details={"nearest": "b"})
    assert error_text(unknown.as_dict()) == (
        "Error NOT_FOUND: Unknown tool: a\nTry: Did you mean b?"
    )
    missing = InvalidInput.of("query", None, "Field required: query", rule="required")
    assert error_text(missing.as_dict()) == "Error VALIDATION_ERROR: Field required: query"
