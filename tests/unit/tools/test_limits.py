"""What a parameter's type states once holds for its schema, its check and the message."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.rules import text


class Example(Arguments):
    title: Annotated[str, text(5), Field(description="In short.")]
    notes: Annotated[str | None, Field(max_length=9, description="More.")] = None
    code: Annotated[str | None, Field(pattern="^[a-z]+$", alias="class")] = None


SCHEMA: dict[str, Any] = Example.model_json_schema()


def test_the_limits_are_in_the_schema_of_what_is_not_null() -> None:
    title, notes, code = (SCHEMA["properties"][name] for name in ("title", "notes", "class"))
    assert (title["minLength"], title["maxLength"], title["description"]) == (1, 5, "In short.")
    assert notes["anyOf"] == [{"type": "string", "maxLength": 9}, {"type": "null"}]
    assert code["anyOf"][0]["pattern"] == "^[a-z]+$"


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"title": "abcdef"}, "title", "Title must have 1 to 5 characters, got 6"),
        ({"title": " "}, "title", "Title cannot be empty"),
        ({"title": "a", "notes": "x" * 10}, "notes", "Notes must have 0 to 9 characters, got 10"),
        ({"title": "a", "class": "A"}, "class", 'Class must match ^[a-z]+$, got "A"'),
    ],
)
def test_the_message_says_the_limits(arguments: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Example.checked(arguments)
    assert (caught.value.details["field"], caught.value.message) == (field, message)


def test_a_rule_returns_the_value_to_use_and_gets_no_null() -> None:
    checked = Example.checked({"title": " abc ", "notes": None})
    assert (checked.title, checked.notes) == ("abc", None)
