"""Compiles an untrusted JSON Schema for the validation of entities.

A schema is accepted if it describes an object in Draft 7 or Draft 2020-12, has no external
references, and is bounded: no schema refers to itself for the same value, and the number of
schemas for a value is limited, since references can double it at every step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.schemas.keywords import DRAFT_7, DRAFT_2020_12
from codebase_mcp.records.schemas.nodes import (
    Dialect,
    Node,
    Problem,
    Run,
    TooCostly,
    display_value,
    pointer,
)
from codebase_mcp.records.schemas.patterns import PatternError, compile_pattern

MAX_SCHEMA_BYTES = 64 * 1024
MAX_SCHEMA_DEPTH = 32

# How many schemas may apply to the same value, and how long a chain of references may be.
MAX_ON_ONE_VALUE = 10_000
MAX_CHAIN = 64

# About 0.3 s of compiling.
MAX_PATTERN_COST = 500_000

# About a second.
MAX_STEPS = 1_000_000

MAX_PROBLEMS = 20

_VOCABULARIES = (
    "core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content",
)  # fmt: skip

# Identifiers are written with either scheme, with and without the empty fragment.
_DIALECTS = {
    f"{scheme}://{dialect.uri.partition('://')[2].rstrip('#')}": dialect
    for dialect in (DRAFT_7, DRAFT_2020_12)
    for scheme in ("http", "https")
}

# The keywords with named subschemas, and all keywords with subschemas.
_NAMED = frozenset(
    (
        "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties",
        "properties",
    )
)  # fmt: skip
SUBSCHEMAS = _NAMED | frozenset(
    (
        "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if",
        "items", "not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems",
        "unevaluatedProperties",
    )
)  # fmt: skip
_WITHOUT_RULES = frozenset(("$defs", "definitions", "else", "then"))

# Python refuses to convert longer integers to text.
_MAX_BITS = 14_000


@dataclass(frozen=True, slots=True)
class Schema:
    """A compiled schema that entities are validated against."""

    root: Node

    def problems(self, value: Any) -> list[Problem]:
        """The first problems of a value, `MAX_PROBLEMS` at most; none if it is valid."""
        try:
            return list(islice(self.root.check(value, None, Run(MAX_STEPS)), MAX_PROBLEMS))
        except (TooCostly, RecursionError):
            limit = f"with this schema it takes more than {MAX_STEPS:,} steps"
            return [Problem(None, f"is too expensive to validate: {limit}")]


def accept_schema(document: Mapping[str, Any], field: str = "schema") -> Schema:
    """Compile a schema.

    Raises:
        InvalidInput: the schema is not accepted; names ``field`` and the ``path`` in the schema.
    """
    require_size(field, "Schema", document, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH)
    dialect = DRAFT_7
    if "$schema" in document:
        uri = document["$schema"]
        if not isinstance(uri, str) or uri.removesuffix("#") not in _DIALECTS:
            message = f"Schema has an unsupported $schema version: {display_value(uri)}"
            raise _refused(field, "/$schema", message, f"{DRAFT_7.uri} or {DRAFT_2020_12.uri}")
        dialect = _DIALECTS[uri.removesuffix("#")]
    if problems := _meta(dialect).problems(document):
        raise _refused(
            field,
            problems[0].path,
            f"Schema is not valid {dialect.name}: {problems[0]}{and_more(problems)}",
            f"JSON Schema {dialect.name}",
            problems=as_details(problems),
        )
    root = _Builder(dialect, document, field).finish()
    _require_end(root, field)
    if not _describes_object(root):
        message = 'Schema must describe an object: add "type": "object" at its root'
        raise _refused(field, "", message, "an object schema")
    return Schema(root)


@lru_cache(maxsize=128)
def stored_schema(text: str) -> Schema:
    """Compile a stored schema; cached, as the same schemas are used repeatedly."""
    return accept_schema(json.loads(text))


def require_size(
    field: str,
    label: str,
    value: Any,
    max_bytes: int,
    max_depth: int,
    *,
    max_items: int | None = None,
) -> None:
    """Check that a value is not too long as JSON, and not nested too deeply.

    ``max_items`` is how many items all its lists may have together.

    Raises:
        InvalidInput: it is; the message names the limit.
    """
    size = items = 0
    for part, depth in _walk(value):
        if depth > max_depth:
            message = f"{label} must not nest deeper than {max_depth} levels"
            raise InvalidInput.of(field, None, message, rule=f"at most {max_depth} levels")
        if isinstance(part, int) and part.bit_length() > _MAX_BITS:
            message = f"{label} has a number of more than {_MAX_BITS * 3 // 10:,} digits"
            raise InvalidInput.of(field, None, message, rule="shorter numbers")
        size += _bytes_of(part)
        items += len(part) if isinstance(part, list) else 0
    if size > max_bytes:
        message = f"{label} must be at most {max_bytes:,} bytes as JSON, got {size:,}"
        raise InvalidInput.of(field, None, message, rule=f"at most {max_bytes} bytes")
    if max_items is not None and items > max_items:
        message = f"{label} must have at most {max_items:,} list items, got {items:,}"
        raise InvalidInput.of(field, None, message, rule=f"at most {max_items} list items")


def _walk(value: Any) -> Iterator[tuple[Any, int]]:
    """Every part of a value with its depth: a list of texts has depth 1."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        part, above = waiting.pop()
        is_nesting = isinstance(part, dict | list)
        yield part, above + is_nesting
        if is_nesting:
            inner = [*part.keys(), *part.values()] if isinstance(part, dict) else part
            waiting += [(each, above + 1) for each in inner]


def _bytes_of(part: Any) -> int:
    """The length of a part as JSON, without the parts inside it.

    Numbers count as PostgreSQL writes them: 1e300 has 301 digits there.
    """
    if isinstance(part, dict | list):
        commas_and_colons = len(part) * (2 if isinstance(part, dict) else 1) - 1
        return 2 + max(0, commas_and_colons)
    if isinstance(part, float):
        return len(format(Decimal(repr(part)), "f"))
    return len(json.dumps(part, ensure_ascii=False).encode())


def as_details(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Problems in the form of error details."""
    return [{"path": problem.path, "message": problem.message} for problem in problems]


def and_more(problems: Sequence[Problem]) -> str:
    """The number of further problems, for a message that shows the first."""
    rest = len(problems) - 1
    return (
        f" (and {rest}{' or more' if len(problems) == MAX_PROBLEMS else ''} more)" if rest else ""
    )


@cache
def _meta(dialect: Dialect) -> Schema:
    """The compiled meta-schema."""
    document = _meta_schema_of_draft_7() if dialect.is_draft_7 else _meta_schema_of_2020_12()
    return Schema(_Builder(dialect, document, "schema").finish())


def _meta_schema_of_draft_7() -> dict[str, Any]:
    """The official schema plus ``$defs``, which is often used in path of ``definitions``."""
    from jsonschema import Draft7Validator  # noqa: PLC0415 - not for the handshake

    official = Draft7Validator.META_SCHEMA
    properties = official["properties"]
    return {**official, "properties": {**properties, "$defs": properties["definitions"]}}


def _meta_schema_of_2020_12() -> dict[str, Any]:
    """The official vocabularies, whose names do not clash, merged into a document."""
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


def _refused(
    field: str, path: str, message: str, rule: str, hint: str | None = None, **details: object
) -> InvalidInput:
    return InvalidInput.of(field, None, message, rule=rule, hint=hint, path=path, **details)


class _Builder:
    """Builds the nodes of a document that is valid by its meta-schema."""

    def __init__(self, dialect: Dialect, document: Mapping[str, Any], field: str) -> None:
        self._dialect = dialect
        self._subschemas = SUBSCHEMAS & (dialect.keywords.keys() | _WITHOUT_RULES)
        self._document = document
        self._field = field
        self._nodes: dict[str, Node] = {}
        self._anchors: dict[str, Node] = {}
        self._pattern_cost = 0
        self._id = urldefrag(document.get("$id", "")).url

    def finish(self) -> Node:
        """The root node, with all references resolved.

        Raises:
            InvalidInput: a reference cannot be resolved locally, or a pattern is invalid.
        """
        root = self._node(self._document, "")
        for node in self._nodes.values():
            for keyword in ("$ref", "$dynamicRef"):
                if keyword in self._dialect.keywords and keyword in node.keywords:
                    node.refs[keyword] = self._target(node, keyword)
        return root

    def _node(self, schema: Any, path: str) -> Node:
        node = self._nodes[path] = Node(path, schema, self._dialect)
        for keyword, value in node.keywords.items():
            at = pointer(path, keyword)
            if keyword not in self._subschemas:
                continue
            if keyword in _NAMED:
                node.named[keyword] = {
                    name: self._node(inner, pointer(at, name))
                    for name, inner in value.items()
                    if not isinstance(inner, list)
                }
            elif isinstance(value, list):
                node.lists[keyword] = [
                    self._node(inner, pointer(at, index)) for index, inner in enumerate(value)
                ]
            else:
                node.single[keyword] = self._node(value, at)
        self._name(node)
        self._compile(node)
        return node

    def _name(self, node: Node) -> None:
        """Register the anchors; refuse an inner ``$id``, as it would start another document."""
        schema = node.keywords
        names = [schema[k] for k in ("$anchor", "$dynamicAnchor") if k in schema]
        if self._dialect.is_draft_7:
            own = schema.get("$id", "")
            names = [own[1:]] if own.startswith("#") and own != "#" else []
        if node.pointer and (("$id" in schema and not names) or "$schema" in schema):
            message = f"Schema has an $id or $schema below its root, at {node.pointer}"
            hint = "Remove it, and refer to the subschema by its path: #/definitions/NAME."
            raise _refused(self._field, node.pointer, message, "only at the root", hint)
        for name in names:
            if self._anchors.setdefault(name, node) is not node:
                message = f"Schema uses the anchor {display_value(name)} twice"
                raise _refused(self._field, node.pointer, message, "unique anchors")

    def _compile(self, node: Node) -> None:
        schema = node.keywords
        sources = dict.fromkeys(schema.get("patternProperties", ()), "patternProperties")
        if "pattern" in schema:
            sources[schema["pattern"]] = "pattern"
        for source, keyword in sources.items():
            path = pointer(node.pointer, keyword)
            try:
                node.patterns[source] = compile_pattern(source)
            except PatternError as problem:
                message = f"Schema has a pattern that {problem}: {display_value(source)} at {path}"
                hint = (
                    "Use ECMAScript patterns without lookarounds, backreferences and inline flags."
                )
                raise _refused(
                    self._field, path, message, "a pattern that matches in linear time", hint
                ) from None
            self._pattern_cost += node.patterns[source].cost
            if self._pattern_cost > MAX_PATTERN_COST:
                message = "Schema has too many large patterns"
                raise _refused(self._field, path, message, "fewer repetitions in patterns")

    def _target(self, node: Node, keyword: str) -> Node:
        reference = node.schema[keyword]
        path = pointer(node.pointer, keyword)
        uri, fragment = urldefrag(reference)
        if uri and urljoin(self._id, uri) != self._id:
            message = f"Schema has an external reference: {display_value(reference)} at {path}"
            hint = (
                "External schemas are not fetched. Copy it into definitions, and refer to"
                " #/definitions/NAME."
            )
            raise _refused(self._field, path, message, "references within the schema", hint)
        name = unquote(fragment)
        targets = self._nodes if name.startswith("/") or not name else self._anchors
        if name not in targets:
            message = (
                f"Schema has a reference that cannot be resolved: {display_value(reference)}"
                f" at {path}"
            )
            hint = "Put the schema into definitions or $defs, and refer to #/definitions/NAME."
            raise _refused(self._field, path, message, "a reference to a subschema", hint)
        return targets[name]


def _require_end(root: Node, field: str) -> None:
    """Refuse a schema that, for the same value, refers to itself or applies too many schemas."""
    extents: dict[str, tuple[int, int]] = {}  # how many schemas, and how many in a row

    def extent(node: Node, chain: tuple[str, ...]) -> tuple[int, int]:
        if node.pointer in extents:
            return extents[node.pointer]
        if node.pointer in chain:
            message = f"Schema refers to itself endlessly: {node.pointer or 'its root'}"
            hint = "A schema may refer to itself only from properties or items."
            raise _refused(field, node.pointer, message, "no endless recursion", hint)
        count, row = 1, 0
        if len(chain) <= MAX_CHAIN:
            inner = [extent(each, (*chain, node.pointer)) for each in node.about_same_value()]
            count += sum(each[0] for each in inner)
            row = 1 + max((each[1] for each in inner), default=0)
        if row > MAX_CHAIN or len(chain) > MAX_CHAIN:
            message = f"Schema chains more than {MAX_CHAIN} references for one value"
            raise _refused(field, node.pointer, message, f"at most {MAX_CHAIN} in a chain")
        if count > MAX_ON_ONE_VALUE:
            message = f"Schema applies more than {MAX_ON_ONE_VALUE:,} schemas to one value"
            raise _refused(field, node.pointer, message, f"at most {MAX_ON_ONE_VALUE}")
        extents[node.pointer] = count, row
        return count, row

    waiting = [root]
    while waiting:
        node = waiting.pop()
        extent(node, ())
        waiting += node.parts()


def _describes_object(node: Node) -> bool:
    schema = node.keywords
    if not node.is_only_reference and "type" in schema:
        return schema["type"] in ("object", ["object"])
    if not node.is_only_reference and "properties" in schema:
        return True
    return any(map(_describes_object, [*node.refs.values(), *node.lists.get("allOf", ())]))
