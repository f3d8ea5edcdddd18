"""Where does a value break the schema that clients see, and what is to be said about it?

A caller may send megabytes that are wrong throughout: breaches are looked for one after the other,
and only the first of a parameter are told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from codebase_mcp.errors import InvalidInput

MAX_PROBLEMS = 10
MAX_UNKNOWN = 5
_SHOWN_CHARS = 80
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def problems_in(name: str, schema: Mapping[str, Any], value: Any) -> list[InvalidInput]:
    """What is wrong with the value of a parameter, place by place: the first ten of them.

    ``name`` is empty for the object of all parameters.
    """
    found: dict[str, InvalidInput] = {}
    for error in islice(_Validator(schema).iter_errors(value), MAX_PROBLEMS):
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


def shown(value: Any) -> Any:
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
    return InvalidInput.of(field, shown(error.instance), message, rule=str(rule))


def _range(low: object, high: object, both: str) -> tuple[str, str]:
    """Limits in words and in short."""
    if low is None or high is None:
        only = f"at most {high}" if low is None else f"at least {low}"
        return only, only
    return both.format(low, high), f"{low}..{high}"


Errors = Iterator[ValidationError]


def _any_of(validator: Any, options: list[Any], value: Any, _: Any) -> Errors:
    """Hold a value against the option for its type: then errors name the place inside it."""
    of_type = [
        (place, option)
        for place, option in enumerate(options)
        if validator.evolve(schema=type_of(option)).is_valid(value)
    ]
    if not of_type:
        yield ValidationError("no option is for this type")
    elif not any(validator.evolve(schema=option).is_valid(value) for _, option in of_type[1:]):
        place, option = of_type[0]
        yield from validator.descend(value, option, schema_path=place)


def _no_others(validator: Any, others: Any, value: Any, schema: Mapping[str, Any]) -> Errors:
    """Name the properties that are not known: the first ones each, then how many more."""
    if others is not False:
        yield from _BY_THE_BOOK["additionalProperties"](validator, others, value, schema)
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
        yield from _BY_THE_BOOK["items"](validator, items, value, schema)


def _required(validator: Any, names: list[str], value: Any, _: Any) -> Errors:
    """Name each property that is missing as the place where it would be."""
    if validator.is_type(value, "object"):
        for name in names:
            if name not in value:
                yield ValidationError("", path=[name], instance=None)


_BY_THE_BOOK = Draft202012Validator.VALIDATORS
_Validator = extend(
    Draft202012Validator,
    {
        "anyOf": _any_of,
        "additionalProperties": _no_others,
        "items": _items,
        "required": _required,
    },
)
