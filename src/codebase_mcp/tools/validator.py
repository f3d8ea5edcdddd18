"""Every place where a value breaks a schema: jsonschema, with errors that name the place inside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from codebase_mcp.tools.problems import type_of

MAX_UNKNOWN = 5

Errors = Iterator[ValidationError]


def _any_of(validator: Any, options: list[Any], value: Any, _: Any) -> Errors:
    """Hold a value against the option for its type: then errors name the place inside it."""
    of_type = [
        (place, option)
        for place, option in enumerate(options)
        if validator.evolve(schema=type_of(option)).is_valid(value)
    ]
    if not of_type:
        yield ValidationError("no option has this type")
    elif not any(validator.evolve(schema=option).is_valid(value) for _, option in of_type[1:]):
        place, option = of_type[0]
        yield from validator.descend(value, option, schema_path=place)


def _no_others(validator: Any, others: Any, value: Any, schema: Mapping[str, Any]) -> Errors:
    """Name the properties that are not known: the first ones each, then how many more."""
    if others is not False:
        yield from _STANDARD["additionalProperties"](validator, others, value, schema)
        return
    if not validator.is_type(value, "object"):
        return
    known = schema.get("properties", {})
    unknown = [name for name in value if name not in known]
    rest = len(unknown) - MAX_UNKNOWN
    for place, name in enumerate(unknown[:MAX_UNKNOWN], start=1):
        more = f" and {rest:,} more" if place == MAX_UNKNOWN and rest else ""
        yield ValidationError(more, path=[name], instance=value[name])


def _items(validator: Any, items: Any, value: Any, schema: Mapping[str, Any]) -> Errors:
    """Look into a list unless it is too long anyway."""
    if not validator.is_type(value, "array") or len(value) <= schema.get("maxItems", len(value)):
        yield from _STANDARD["items"](validator, items, value, schema)


def _required(validator: Any, names: list[str], value: Any, _: Any) -> Errors:
    """Name each property that is missing as the place where it would be."""
    if validator.is_type(value, "object"):
        for name in names:
            if name not in value:
                yield ValidationError("", path=[name], instance=None)


_STANDARD = Draft202012Validator.VALIDATORS
Validator = extend(
    Draft202012Validator,
    {
        "anyOf": _any_of,
        "additionalProperties": _no_others,
        "items": _items,
        "required": _required,
    },
)
