"""What must the value of a parameter be? Stated once, in the parameter's type.

Schema, check and message come from that statement. pydantic's own constraints do for plain lengths
and ranges; `Limits` is for what the contract words itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

Rule = Callable[[Any, str], Any]
"""Checks the value of the parameter of this name, and returns the value to use.

Raises:
    InvalidInput: the value is invalid.
"""


class Limits:
    """Metadata of a parameter's type: its rule, and the keywords that its schema gets.

    A rule takes the place of the schema's keywords when a value is checked. Without a rule the
    value is checked against them.
    """

    def __init__(self, rule: Rule | None = None, **keywords: Any) -> None:
        self.rule = rule
        self._keywords = keywords

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        for option in schema.get("anyOf", [schema]):
            if option.get("type") != "null":
                option.update(self._keywords)
        return schema


@cache
def rules_of(arguments: type[BaseModel]) -> Mapping[str, Rule]:
    """The rules of a tool's parameters, by the names that clients use."""
    return {
        field.alias or name: part.rule
        for name, field in arguments.model_fields.items()
        for part in field.metadata
        if isinstance(part, Limits) and part.rule is not None
    }
