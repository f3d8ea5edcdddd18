"""What does a published schema look like? In one piece: some clients follow no reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_one_piece(schema: dict[str, Any]) -> dict[str, Any]:
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
