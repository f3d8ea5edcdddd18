"""What does a published schema look like? It has no references: some clients do not follow them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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


def listed_form(schema: dict[str, Any], *, keep_null: bool = False) -> dict[str, Any]:
    """A schema of parameters with what a client needs to fill them in.

    What is left out is still accepted: null where it says the same as leaving the parameter out.
    """
    properties = {
        name: _short(part, keep_null=keep_null and name != "project_id")
        for name, part in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


# A model pays for each of them and hardly ever breaks them; errors name them.
_NOT_FOR_MODELS = ("pattern", "minLength", "maxLength", "minItems", "maxItems", "format")
_NULL = {"type": "null"}


def for_models(schema: dict[str, Any]) -> dict[str, Any]:
    """A listed schema without patterns and lengths, which are still checked."""
    short = {key: value for key, value in schema.items() if key not in _NOT_FOR_MODELS}
    if "properties" in short:
        short["properties"] = {n: for_models(part) for n, part in short["properties"].items()}
    if "items" in short:
        short["items"] = for_models(short["items"])
    if "anyOf" in short:
        short["anyOf"] = [for_models(option) for option in short["anyOf"]]
    return short


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
    """What is inside of a parameter, whose own description tells of it."""
    return {key: value for key, value in _short(part).items() if key != "description"}
