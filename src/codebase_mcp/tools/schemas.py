"""The JSON Schemas of parameters and replies, without references: some clients do not follow them.

Parameters have three forms: the whole schema, what programs see of it, and what coding agents see.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


@cache
def input_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The whole JSON Schema of a tool's parameters."""
    schema = without_references(arguments.model_json_schema())
    schema.pop("description", None)
    return schema


@cache
def listed_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The schema in short, with what a client needs to fill in the parameters.

    Values that it omits are still accepted, such as null where that means no value.
    """
    # Where defaults are not published, null is another thing than leaving a parameter out.
    keep_null = "json_schema_extra" in arguments.model_config
    schema = input_schema(arguments)
    properties = {
        name: _short(part, keep_null=keep_null and name != "project_id")
        for name, part in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


@cache
def model_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """The schema for coding agents, whose models pay for it: without patterns, lengths, numbers as
    defaults, and what a name says by itself."""
    schema = listed_schema(arguments)
    properties = {
        name: _parameter_for_models(name, part) for name, part in schema["properties"].items()
    }
    return _for_models({**schema, "properties": properties})


def types_in(schema: Mapping[str, Any]) -> set[str]:
    """The types that a schema allows; none where it allows all."""
    if "anyOf" in schema:
        return set().union(*map(types_in, schema["anyOf"]))
    allowed = schema.get("type", [])
    return {allowed} if isinstance(allowed, str) else set(allowed)


def without_references(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with its definitions where they are used, and without titles made from names."""
    root = {key: part for key, part in schema.items() if key != "$defs"}
    whole: dict[str, Any] = _inline(root, schema.get("$defs", {}))
    return whole


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inline(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    return {
        key: _inline(part, definitions)
        for key, part in schema.items()
        if key != "title" or not isinstance(part, str)
    }


# A model pays for each of them and hardly ever breaks them; errors name them.
_NOT_FOR_MODELS = frozenset(
    "additionalProperties pattern minLength maxLength minItems maxItems minimum format".split()
)
# Parameters whose names say what they are.
PLAIN = frozenset(
    "limit max_chars explain with_history force_reindex context_lines whole_word multiline "
    "count_only files_only body operation kinds want".split()
)
# Nobody asks for more by chance.
_LARGE = 1_000
_NULL = {"type": "null"}


def _for_models(schema: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in schema.items() if key not in _NOT_FOR_MODELS}
    if not isinstance(short.get("default", ""), str):
        del short["default"]
    if short.get("maximum", 0) > _LARGE:
        del short["maximum"]
    if "properties" in short:
        short["properties"] = {n: _for_models(part) for n, part in short["properties"].items()}
    if "items" in short:
        short["items"] = _for_models(short["items"])
    if "anyOf" in short:
        short["anyOf"] = [_for_models(option) for option in short["anyOf"]]
    return short


def _parameter_for_models(name: str, part: dict[str, Any]) -> dict[str, Any]:
    """A parameter without a description that says no more than its name; an object in a line."""
    if name in PLAIN:
        return {key: value for key, value in part.items() if key != "description"}
    if "properties" in part:
        fields = ", ".join(f"{field}: []" for field in part["properties"])
        return {"type": "object", "description": f"{{{fields}}}"}
    return part


def _short(part: dict[str, Any], *, keep_null: bool = False) -> dict[str, Any]:
    short = dict(part)
    if short.get("default", 0) is None:
        del short["default"]
    options = [_short(option) for option in short.pop("anyOf", ()) if keep_null or option != _NULL]
    if len(options) == 1:
        short = options[0] | short
    elif options:
        short["anyOf"] = options
    if "items" in short:
        short["items"] = _bare(short["items"])
    if "properties" in short:
        short["properties"] = {name: _bare(inner) for name, inner in short["properties"].items()}
        short.pop("additionalProperties", None)
    return short


def _bare(part: dict[str, Any]) -> dict[str, Any]:
    """A part of a parameter, without its description, as the parameter's own describes it."""
    return {key: value for key, value in _short(part).items() if key != "description"}
