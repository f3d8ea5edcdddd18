"""The supported versions of JSON Schema, and their meta-schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from codebase_mcp.records.schemas.applicators import (
    APPLICATORS_OF_2020_12,
    APPLICATORS_OF_DRAFT_7,
)
from codebase_mcp.records.schemas.assertions import ASSERTIONS
from codebase_mcp.records.schemas.nodes import Dialect

_ONE = frozenset(
    ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
)
_MANY = frozenset(("allOf", "anyOf", "oneOf"))
_NAMED = frozenset(("$defs", "definitions", "patternProperties", "properties"))

DRAFT_7 = Dialect(
    name="Draft 7",
    uri="http://json-schema.org/draft-07/schema#",
    makers={**ASSERTIONS, **APPLICATORS_OF_DRAFT_7},
    one=_ONE | {"additionalItems"},
    many=_MANY | {"items"},
    named=_NAMED | {"dependencies"},
    is_draft_7=True,
)
DRAFT_2020_12 = Dialect(
    name="Draft 2020-12",
    uri="https://json-schema.org/draft/2020-12/schema",
    makers={**ASSERTIONS, **APPLICATORS_OF_2020_12},
    one=_ONE | {"unevaluatedItems", "unevaluatedProperties"},
    many=_MANY | {"prefixItems"},
    named=_NAMED | {"dependentSchemas"},
    is_draft_7=False,
)

# Identifiers are written with either scheme, with and without the empty fragment.
_BY_URI = {
    f"{scheme}://{dialect.uri.partition('://')[2].rstrip('#')}": dialect
    for dialect in (DRAFT_7, DRAFT_2020_12)
    for scheme in ("http", "https")
}


_VOCABULARIES = (
    "core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content",
)  # fmt: skip


def dialect_of(uri: object) -> Dialect | None:
    """The version that ``$schema`` names, if it is supported."""
    return _BY_URI.get(uri.removesuffix("#")) if isinstance(uri, str) else None


@cache
def meta_schema(dialect: Dialect) -> Mapping[str, Any]:
    """The meta-schema, in one document."""
    return _of_draft_7() if dialect.is_draft_7 else _of_2020_12()


def _of_draft_7() -> dict[str, Any]:
    """The official one plus ``$defs``, which is often used in place of ``definitions``."""
    from jsonschema import Draft7Validator  # noqa: PLC0415 - not for the handshake

    official = Draft7Validator.META_SCHEMA
    properties = official["properties"]
    return {**official, "properties": {**properties, "$defs": properties["definitions"]}}


def _of_2020_12() -> dict[str, Any]:
    """The official vocabularies, whose names do not clash, merged into one."""
    from jsonschema_specifications import (  # type: ignore[import-untyped]  # noqa: PLC0415
        REGISTRY,
    )

    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for vocabulary in _VOCABULARIES:
        part: Any = REGISTRY.contents(f"https://json-schema.org/draft/2020-12/meta/{vocabulary}")
        properties |= part["properties"]
        definitions |= part.get("$defs", {})
    properties["definitions"] = properties["$defs"]
    return {
        "$schema": DRAFT_2020_12.uri,
        "$dynamicAnchor": "meta",
        "type": ["object", "boolean"],
        "properties": properties,
        "$defs": definitions,
    }
