"""Does a value surely fit a schema? For most calls that is all there is to ask.

It knows the keywords that our schemas use. Where it is not sure, the library decides and says what
is wrong: importing that costs a command of the shell more than its search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}


def fits(schema: Schema | bool, value: Any) -> bool:
    """True where the value is valid; False where it is not, or a keyword is not known here."""
    if isinstance(schema, bool):
        return schema
    return all(
        keyword in _RULES and _RULES[keyword](rule, value, schema)
        for keyword, rule in schema.items()
        if keyword not in _ANNOTATIONS
    )


# Keywords that constrain nothing.
_ANNOTATIONS = frozenset({"$schema", "title", "description", "default", "examples", "format"})


def _is_of_type(wanted: str | list[str], value: Any) -> bool:
    names = [wanted] if isinstance(wanted, str) else wanted
    is_boolean = isinstance(value, bool)
    return any(
        name in _TYPES and isinstance(value, _TYPES[name]) and (name == "boolean") >= is_boolean
        for name in names
    )


def _properties(rule: Schema, value: Any) -> bool:
    return not isinstance(value, dict) or all(
        fits(schema, value[name]) for name, schema in rule.items() if name in value
    )


def _others(rule: Any, value: Any, schema: Schema) -> bool:
    if isinstance(rule, bool) and not rule and isinstance(value, dict):
        return all(name in schema.get("properties", {}) for name in value)
    return isinstance(rule, bool)


_RULES: Mapping[str, Callable[[Any, Any, Schema], bool]] = {
    "type": lambda rule, value, _: _is_of_type(rule, value),
    "anyOf": lambda rule, value, _: any(fits(option, value) for option in rule),
    "enum": lambda rule, value, _: isinstance(value, str) and value in rule,
    "minimum": lambda rule, value, _: not isinstance(value, int | float) or value >= rule,
    "maximum": lambda rule, value, _: not isinstance(value, int | float) or value <= rule,
    "minLength": lambda rule, value, _: not isinstance(value, str) or len(value) >= rule,
    "maxLength": lambda rule, value, _: not isinstance(value, str) or len(value) <= rule,
    "pattern": lambda rule, value, _: not isinstance(value, str) or bool(re.search(rule, value)),
    "minItems": lambda rule, value, _: not isinstance(value, list) or len(value) >= rule,
    "maxItems": lambda rule, value, _: not isinstance(value, list) or len(value) <= rule,
    "items": lambda rule, value, _: (
        not isinstance(value, list) or all(fits(rule, item) for item in value)
    ),
    "required": lambda rule, value, _: not isinstance(value, dict) or value.keys() >= set(rule),
    "properties": lambda rule, value, _: _properties(rule, value),
    "additionalProperties": _others,
}
