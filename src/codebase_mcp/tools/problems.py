"""Where does a value break the schema that clients see, and which message describes it?

A caller may send megabytes that are wrong throughout: breaches are looked for one after the other,
and only the first ones of a parameter are reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.fitting import fits

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MAX_PROBLEMS = 10
_SHOWN_CHARS = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def problems_in(name: str, schema: Mapping[str, Any], value: Any) -> list[InvalidInput]:
    """What is wrong with the value of a parameter, place by place: the first ten of them.

    ``name`` is empty for the object of all parameters.
    """
    if fits(schema, value):
        return []
    from codebase_mcp.tools.validator import Validator  # noqa: PLC0415 - heavy, and for errors alone

    found: dict[str, InvalidInput] = {}
    for error in islice(Validator(schema).iter_errors(value), MAX_PROBLEMS):
        steps = [_cut(str(step)) for step in error.absolute_path]
        field = ".".join([name, *steps] if name else steps)
        label = field if steps else name.replace("_", " ").capitalize()
        found.setdefault(field, _problem(field, label, error))
    return list(found.values())


def type_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a schema says about the type of a value, and nothing else."""
    allowed = sorted(types_in(schema))
    return {"type": allowed} if allowed else {}


def types_in(schema: Mapping[str, Any]) -> set[str]:
    """The types that a schema allows; none where it allows all."""
    if "anyOf" in schema:
        return set().union(*map(types_in, schema["anyOf"]))
    allowed = schema.get("type", [])
    return {allowed} if isinstance(allowed, str) else set(allowed)


def text_of_value(value: Any) -> str:
    """A value as JSON, cut where it is long."""
    text = ""
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > _SHOWN_CHARS:
            break
    return _cut(text)


def error_value(value: Any) -> Any:
    """A value to put into an error: a long one is cut."""
    text = text_of_value(value)
    return value if len(text) < _SHOWN_CHARS else text


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def _problem(field: str, label: str, error: ValidationError) -> InvalidInput:
    """A sentence about one broken rule."""
    got, schema, rule = text_of_value(error.instance), error.schema, error.validator_value
    match error.validator:
        case "required":
            return InvalidInput.of(field, None, f"Field required: {field}", rule="required")
        case "additionalProperties":
            message = f"Unknown parameter: {field}{error.message}"
            rule = f"one of: {', '.join(schema.get('properties', ()))}"
        case "minimum" | "maximum":
            says, rule = _range(schema.get("minimum"), schema.get("maximum"), "between {} and {}")
            message = f"{label} must be {says}, got {got}"
        case "minLength" | "maxLength":
            says, rule = _range(schema.get("minLength", 0), schema.get("maxLength"), "{} to {}")
            message = f"{label} must have {says} characters, got {len(error.instance)}"
            rule += " characters"
        case "minItems" | "maxItems":
            says, rule = _range(schema.get("minItems", 0), schema.get("maxItems"), "{} to {}")
            message = f"{label} must have {says} items, got {len(error.instance)}"
            rule += " items"
        case "enum":
            message = f"{label} must be one of {', '.join(map(repr, rule))}, got {got}"
        case "type" | "anyOf":
            rule = " or ".join(sorted(types_in(schema)))
            message = f"{label} must be of type {rule}, got {got}"
        case "pattern":
            message = f"{label} must match {rule}, got {got}"
        case _:
            message = f"{label}: {error.message}"
    return InvalidInput.of(field, error_value(error.instance), message, rule=str(rule))


def _range(low: object, high: object, both: str) -> tuple[str, str]:
    """Limits in words and in short."""
    if low is None or high is None:
        only = f"at most {high}" if low is None else f"at least {low}"
        return only, only
    return both.format(low, high), f"{low}..{high}"
