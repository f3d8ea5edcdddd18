"""Compiles an untrusted JSON Schema for the validation of entities.

Accepted is what describes an object in Draft 7 or Draft 2020-12, refers to nothing outside itself,
and ends: no circle of schemas about one value, no fan of references that doubles at every step.
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
from codebase_mcp.records.schemas.dialects import DRAFT_7, DRAFT_2020_12, dialect_of, meta_schema
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

# Schemas that apply to one value at once, and how far one leads to the next.
MAX_ON_ONE_VALUE = 10_000
MAX_CHAIN = 64

MAX_PATTERN_COST = 50_000

# A second or so.
MAX_STEPS = 1_000_000

MAX_PROBLEMS = 20

# Python refuses to write longer numbers.
_MAX_BITS = 14_000


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that entities can be held against."""

    root: Node

    def problems(self, value: Any) -> list[Problem]:
        """What is wrong with a value: nothing, or the first twenty problems."""
        try:
            return list(islice(self.root.check(value, None, Run(MAX_STEPS)), MAX_PROBLEMS))
        except (TooCostly, RecursionError):
            steps = f"more than {MAX_STEPS:,} steps"
            return [Problem(None, f"cannot be checked: with this schema that takes {steps}")]


def accept_schema(document: Mapping[str, Any], field: str = "schema") -> Schema:
    """Make a schema ready.

    Raises:
        InvalidInput: naming ``field`` and, under ``path``, the place in the schema.
    """
    require_size(field, "Schema", document, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH)
    dialect = DRAFT_7
    if "$schema" in document:
        named = dialect_of(document["$schema"])
        if named is None:
            message = (
                f"Schema names a version that is not supported:"
                f" {display_value(document['$schema'])}"
            )
            raise _refused(field, "/$schema", message, f"{DRAFT_7.uri} or {DRAFT_2020_12.uri}")
        dialect = named
    if problems := _meta(dialect).problems(document):
        error = _refused(
            field,
            problems[0].path,
            f"Schema is not valid {dialect.name}: {problems[0]}{and_more(problems)}",
            f"JSON Schema {dialect.name}",
        )
        error.details["problems"] = as_details(problems)
        raise error
    root = _Builder(dialect, document, field).finish()
    _require_end(root, field)
    if not _describes_object(root):
        message = 'Schema must describe an object: its root needs "type": "object"'
        raise _refused(field, "", message, "an object schema")
    return Schema(root)


@lru_cache(maxsize=128)
def stored_schema(text: str) -> Schema:
    """A schema as it was stored, ready; the same texts come again and again."""
    return accept_schema(json.loads(text))


def require_size(field: str, label: str, value: Any, max_bytes: int, max_depth: int) -> None:
    """Refuse what is too long as JSON, or nests too deeply.

    Raises:
        InvalidInput: saying how large it may be.
    """
    size = 0
    for part, depth in _walk(value):
        if depth > max_depth:
            message = f"{label} must not nest deeper than {max_depth} levels"
            raise InvalidInput.of(field, None, message, rule=f"at most {max_depth} levels")
        if isinstance(part, int) and part.bit_length() > _MAX_BITS:
            message = f"{label} has a number of more than {_MAX_BITS * 3 // 10:,} digits"
            raise InvalidInput.of(field, None, message, rule="shorter numbers")
        size += _bytes_of(part)
    if size > max_bytes:
        message = f"{label} must be at most {max_bytes:,} bytes as JSON, got {size:,}"
        raise InvalidInput.of(field, None, message, rule=f"at most {max_bytes} bytes")


def _walk(value: Any) -> Iterator[tuple[Any, int]]:
    """Every part of a value with how deep it lies: a list of texts has two levels."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        part, above = waiting.pop()
        is_nesting = isinstance(part, dict | list)
        yield part, above + is_nesting
        if is_nesting:
            inner = [*part.keys(), *part.values()] if isinstance(part, dict) else part
            waiting += [(each, above + 1) for each in inner]


def _bytes_of(part: Any) -> int:
    """The length of a part as JSON, what lies inside aside.

    Numbers count as PostgreSQL writes them: 1e300 is three hundred digits there.
    """
    if isinstance(part, dict | list):
        commas_and_colons = len(part) * (2 if isinstance(part, dict) else 1) - 1
        return 2 + max(0, commas_and_colons)
    if isinstance(part, float):
        return len(format(Decimal(repr(part)), "f"))
    return len(json.dumps(part, ensure_ascii=False).encode())


def as_details(problems: Sequence[Problem]) -> list[dict[str, str]]:
    """Problems as errors show them."""
    return [{"path": problem.path, "message": problem.message} for problem in problems]


def and_more(problems: Sequence[Problem]) -> str:
    """What to say after the first problem."""
    rest = len(problems) - 1
    return (
        f" (and {rest}{' or more' if len(problems) == MAX_PROBLEMS else ''} more)" if rest else ""
    )


@cache
def _meta(dialect: Dialect) -> Schema:
    return Schema(_Builder(dialect, meta_schema(dialect), "schema").finish())


def _refused(
    field: str, path: str, message: str, rule: str, hint: str | None = None
) -> InvalidInput:
    error = InvalidInput.of(field, None, message, rule=rule, hint=hint)
    error.details["path"] = path
    return error


class _Builder:
    """Makes nodes of a document whose shape is that of a schema."""

    def __init__(self, dialect: Dialect, document: Mapping[str, Any], field: str) -> None:
        self._dialect = dialect
        self._document = document
        self._field = field
        self._nodes: dict[str, Node] = {}
        self._anchors: dict[str, Node] = {}
        self._pattern_cost = 0
        self._id = urldefrag(document.get("$id", "")).url

    def finish(self) -> Node:
        """The root, with everything in place.

        Raises:
            InvalidInput: a reference cannot be resolved locally, or a pattern is invalid.
        """
        root = self._node(self._document, "")
        for node in self._nodes.values():
            for keyword in ("$ref", "$dynamicRef"):
                if keyword in self._dialect.makers and keyword in _keywords(node):
                    node.refs[keyword] = self._target(node, keyword)
        for node in self._nodes.values():
            node.make_rules()
        return root

    def _node(self, schema: Any, place: str) -> Node:
        node = self._nodes[place] = Node(place, schema, self._dialect)
        dialect = self._dialect
        for keyword, value in _keywords(node).items():
            at = pointer(place, keyword)
            if keyword in dialect.one and not isinstance(value, list):
                node.one[keyword] = self._node(value, at)
            elif keyword in dialect.many:
                node.many[keyword] = [
                    self._node(inner, pointer(at, index)) for index, inner in enumerate(value)
                ]
            elif keyword in dialect.named:
                node.named[keyword] = {
                    name: self._node(inner, pointer(at, name))
                    for name, inner in value.items()
                    if not isinstance(inner, list)
                }
        self._name(node)
        self._compile(node)
        return node

    def _name(self, node: Node) -> None:
        """Note the anchors; an identifier of its own would make a part a document of its own."""
        schema = _keywords(node)
        names = [schema[k] for k in ("$anchor", "$dynamicAnchor") if k in schema]
        if self._dialect.is_draft_7:
            own = schema.get("$id", "")
            names = [own[1:]] if own.startswith("#") and own != "#" else []
        if node.pointer and (("$id" in schema and not names) or "$schema" in schema):
            message = f"Schema has an $id or $schema inside, at {node.pointer}"
            hint = "Leave it out and refer to the part by its place: #/definitions/NAME."
            raise _refused(self._field, node.pointer, message, "only at the root", hint)
        for name in names:
            if self._anchors.setdefault(name, node) is not node:
                message = f"Schema has two parts of the name {display_value(name)}"
                raise _refused(self._field, node.pointer, message, "names that differ")

    def _compile(self, node: Node) -> None:
        schema = _keywords(node)
        sources = dict.fromkeys(schema.get("patternProperties", ()), "patternProperties")
        if "pattern" in schema:
            sources[schema["pattern"]] = "pattern"
        for source, keyword in sources.items():
            place = pointer(node.pointer, keyword)
            try:
                node.patterns[source] = compile_pattern(source)
            except PatternError as problem:
                message = f"Schema has a pattern that {problem}: {display_value(source)} at {place}"
                hint = "Patterns are ECMAScript's without look-around, back-references and flags."
                raise _refused(
                    self._field, place, message, "a pattern that ends in bounded time", hint
                ) from None
            self._pattern_cost += node.patterns[source].cost
            if self._pattern_cost > MAX_PATTERN_COST:
                message = "Schema has too many large patterns"
                raise _refused(self._field, place, message, "fewer repetitions in patterns")

    def _target(self, node: Node, keyword: str) -> Node:
        reference = node.schema[keyword]
        place = pointer(node.pointer, keyword)
        uri, fragment = urldefrag(reference)
        if uri and urljoin(self._id, uri) != self._id:
            message = (
                f"Schema refers to something outside itself: {display_value(reference)} at {place}"
            )
            hint = "Nothing is fetched. Copy it into definitions, and refer to #/definitions/NAME."
            raise _refused(self._field, place, message, "references within the schema", hint)
        name = unquote(fragment)
        known = self._nodes if name.startswith("/") or not name else self._anchors
        if name not in known:
            message = (
                f"Schema refers to a schema that it does not have: {display_value(reference)}"
                f" at {place}"
            )
            hint = "Put it into definitions or $defs, and refer to #/definitions/NAME."
            raise _refused(self._field, place, message, "the place of a schema", hint)
        return known[name]


def _keywords(node: Node) -> Mapping[str, Any]:
    return node.schema if isinstance(node.schema, Mapping) else {}


def _require_end(root: Node, field: str) -> None:
    """Refuse a document in which some schema, for one value, leads to itself or to too many."""
    known: dict[str, tuple[int, int]] = {}  # how many schemas, and how many in a row

    def extent(node: Node, chain: tuple[str, ...]) -> tuple[int, int]:
        if node.pointer in known:
            return known[node.pointer]
        if node.pointer in chain:
            message = f"Schema leads to itself without end: {node.pointer or 'its root'}"
            hint = "Let it refer to itself from properties or items."
            raise _refused(field, node.pointer, message, "an end for every value", hint)
        count, row = 1, 0
        if len(chain) <= MAX_CHAIN:
            inner = [extent(each, (*chain, node.pointer)) for each in node.about_same_value()]
            count += sum(each[0] for each in inner)
            row = 1 + max((each[1] for each in inner), default=0)
        if row > MAX_CHAIN or len(chain) > MAX_CHAIN:
            message = f"Schema leads from one to the next for one value, over {MAX_CHAIN} times"
            raise _refused(field, node.pointer, message, f"at most {MAX_CHAIN} in a row")
        if count > MAX_ON_ONE_VALUE:
            message = f"Schema applies more than {MAX_ON_ONE_VALUE:,} schemas to one value"
            raise _refused(field, node.pointer, message, f"at most {MAX_ON_ONE_VALUE}")
        known[node.pointer] = count, row
        return count, row

    waiting = [root]
    while waiting:
        node = waiting.pop()
        extent(node, ())
        waiting += node.parts()


def _describes_object(node: Node) -> bool:
    schema = _keywords(node)
    if not node.is_only_reference and "type" in schema:
        return schema["type"] in ("object", ["object"])
    if not node.is_only_reference and "properties" in schema:
        return True
    return any(map(_describes_object, [*node.refs.values(), *node.many.get("allOf", ())]))
