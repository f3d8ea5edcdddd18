"""The rules of the keywords, and the supported versions of JSON Schema.

ARCHITECTURE.md says why no library is used. A test compares the verdicts with those of jsonschema.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from codebase_mcp.records.schemas.nodes import (
    Dialect,
    Keyword,
    Location,
    Node,
    Problem,
    Rule,
    Run,
    display_value,
    key_of,
)

Problems = Iterator[Problem]
Array = list[Any]
Object = dict[str, Any]
Named = Mapping[str, Node]

# How many problems are collected for an alternative that does not match.
_PROBLEMS = 20

# How many allowed values, and how many existing fields, a message lists.
_VALUES_LISTED = 10
_FIELDS_LISTED = 20


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _type(_: Node, types: str | list[str], value: Any, at: Location, run: Run) -> Problems:
    names = [types] if isinstance(types, str) else types
    if not any(_TYPES[name](value) for name in names):
        message = f"must be of type {' or '.join(names)}, got {display_value(value)}"
        yield Problem(at, message, of_type=True)


@dataclass(frozen=True, slots=True)
class _Allowed:
    """The values that ``enum`` allows, by key, and the start of the message."""

    keys: frozenset[str]
    has_nested: bool
    message: str


def _allowed(values: Sequence[Any]) -> _Allowed:
    shown = ", ".join(map(display_value, values[:_VALUES_LISTED]))
    more = ", …" * (len(values) > _VALUES_LISTED)
    has_nested = any(isinstance(value, dict | list) for value in values)
    message = f"must be {'one of ' * (len(values) != 1)}{shown}{more}"
    return _Allowed(frozenset(map(key_of, values)), has_nested, message)


def _enum(_: Node, allowed: _Allowed, value: Any, at: Location, run: Run) -> Problems:
    may_match = allowed.has_nested or not isinstance(value, dict | list)
    if not may_match or key_of(value, run.spend) not in allowed.keys:
        yield Problem(at, f"{allowed.message}, got {display_value(value)}")


def _limit(fits: Callable[[Any, Any], bool], message: str, measure: Any = lambda v: v) -> Rule:
    """The rule of a keyword that limits a number, or the length of another value."""

    def rule(_: Node, bound: float, value: Any, at: Location, run: Run) -> Problems:
        if not fits(measured := measure(value), bound):
            yield Problem(at, message.format(display_value(bound), display_value(measured)))

    return rule


def _multiple_of(_: Node, divisor: float, value: Any, at: Location, run: Run) -> Problems:
    run.spend(10 + int(value).bit_length() // 100)
    number, exact = _as_written(value), _as_written(divisor)
    run.spend((exact.numerator.bit_length() + exact.denominator.bit_length()) // 100)
    # whether the quotient is whole, without the cost of reducing it
    if number.numerator * exact.denominator % (number.denominator * exact.numerator):
        message = f"must be a multiple of {display_value(divisor)}, got {display_value(value)}"
        yield Problem(at, message)


def _as_written(number: float) -> Fraction:
    """A number as its decimal digits say, so that 0.3 is exactly three times 0.1."""
    return Fraction(number if isinstance(number, int) else repr(number))


def _pattern(node: Node, source: str, value: str, at: Location, run: Run) -> Problems:
    if not run.finds(node.patterns[source], value):
        yield Problem(at, f"must match the pattern {source}, got {display_value(value)}")


def _unique_items(_: Node, must_be_unique: bool, value: Array, at: Location, run: Run) -> Problems:
    indexes: dict[str, int] = {}
    for index, item in enumerate(value if must_be_unique else ()):
        first = indexes.setdefault(key_of(item, run.spend), index)
        if first != index:
            yield Problem((at, index), f"must not be the same as item {first}")


def _required(_: Node, names: Sequence[str], value: Object, at: Location, run: Run) -> Problems:
    run.spend(len(names) // 10)
    for name in names:
        if name not in value:
            yield Problem((at, name), "is required")


def _dependent(
    node: Node,
    dependents: Mapping[str, Node | list[str]],
    value: Object,
    at: Location,
    run: Run,
) -> Problems:
    """Check an object again if it has a field: for more required fields, or against a schema."""
    run.spend(len(dependents) // 10)
    for name, dependent in dependents.items():
        if name not in value:
            continue
        if isinstance(dependent, Node):
            yield from dependent.check(value, at, run)
        else:
            for problem in _required(node, dependent, value, at, run):
                message = f"is required if {display_value(name)} is present"
                yield Problem(problem.location, message)


def _reference(_: Node, target: Node, value: Any, at: Location, run: Run) -> Problems:
    return target.check(value, at, run)


def _all_of(_: Node, schemas: list[Node], value: Any, at: Location, run: Run) -> Problems:
    for schema in schemas:
        yield from schema.check(value, at, run)


def _any_of(_: Node, schemas: list[Node], value: Any, at: Location, run: Run) -> Problems:
    problems: list[list[Problem]] = []
    for schema in schemas:
        problems.append(list(islice(schema.check(value, at, run), _PROBLEMS)))
        if not problems[-1]:
            return
    yield from _of_nearest(problems, at)


def _one_of(_: Node, schemas: list[Node], value: Any, at: Location, run: Run) -> Problems:
    problems = [list(islice(schema.check(value, at, run), _PROBLEMS)) for schema in schemas]
    matching = problems.count([])
    if matching > 1:
        yield Problem(at, f"must match exactly one alternative, matches {matching}")
    elif not matching:
        yield from _of_nearest(problems, at)


def _of_nearest(problems: Sequence[list[Problem]], at: Location) -> Problems:
    """The problems of the only alternative for the value's type, else a problem of the whole."""
    near = [some for some in problems if not any(p.of_type and p.location is at for p in some)]
    if len(near) == 1:
        yield from near[0]
    else:
        yield Problem(at, f"matches none of the {len(problems)} alternatives")


def _not(_: Node, schema: Node, value: Any, at: Location, run: Run) -> Problems:
    if schema.fits(value, run):
        yield Problem(at, 'must not match the schema under "not"')


def _if(node: Node, condition: Node, value: Any, at: Location, run: Run) -> Problems:
    branch = node.single.get("then" if condition.fits(value, run) else "else")
    if branch is not None:
        yield from branch.check(value, at, run)


def _prefix_items(_: Node, schemas: list[Node], value: Array, at: Location, run: Run) -> Problems:
    for index, (item, schema) in enumerate(zip(value, schemas, strict=False)):
        yield from schema.check(item, (at, index), run)


def _items(node: Node, schema: Node | list[Node], value: Array, at: Location, run: Run) -> Problems:
    """In Draft 7, a list of schemas is what ``prefixItems`` is today."""
    if isinstance(schema, list):
        yield from _prefix_items(node, schema, value, at, run)
    else:
        first = len(node.lists.get("prefixItems", ()))
        yield from _items_from(first, schema, value, at, run)


def _additional_items(node: Node, schema: Node, value: Array, at: Location, run: Run) -> Problems:
    if "items" in node.lists:
        yield from _items_from(len(node.lists["items"]), schema, value, at, run)


def _items_from(first: int, schema: Node, value: Array, at: Location, run: Run) -> Problems:
    for index in range(first, len(value)):
        yield from schema.check(value[index], (at, index), run)


def _contains(node: Node, schema: Node, value: Array, at: Location, run: Run) -> Problems:
    limits = {} if node.dialect.is_draft_7 else node.schema
    least, most = limits.get("minContains", 1), limits.get("maxContains")
    count = sum(schema.fits(item, run) for item in value)
    if count < least:
        message = f"must have at least {display_value(least)} matching items, got {count}"
        yield Problem(at, message)
    if most is not None and count > most:
        yield Problem(at, f"must have at most {display_value(most)} matching items, got {count}")


def _properties(_: Node, schemas: Named, value: Object, at: Location, run: Run) -> Problems:
    run.spend(len(value) // 10)
    for name, part in value.items():
        if name in schemas:
            yield from schemas[name].check(part, (at, name), run)


def _pattern_properties(
    node: Node, schemas: Named, value: Object, at: Location, run: Run
) -> Problems:
    run.spend(len(schemas) // 4)
    for source, schema in schemas.items():
        for name, part in value.items():
            if run.finds(node.patterns[source], name):
                yield from schema.check(part, (at, name), run)


def _additional_properties(
    node: Node, schema: Node, value: Object, at: Location, run: Run
) -> Problems:
    properties = node.named.get("properties", {})
    patterns = [node.patterns[source] for source in node.named.get("patternProperties", ())]
    run.spend(len(value) // 10)
    for name, part in value.items():
        if name in properties or any(run.finds(pattern, name) for pattern in patterns):
            continue
        if schema.schema is False:
            listed = ", ".join(islice(properties, _FIELDS_LISTED)) or "none"
            yield Problem((at, name), f"is not a field of the schema (fields: {listed})")
        else:
            yield from schema.check(part, (at, name), run)


def _property_names(_: Node, schema: Node, value: Object, at: Location, run: Run) -> Problems:
    for name in value:
        for problem in schema.check(name, None, run):
            yield Problem((at, name), f"has a name that {problem.message}")


def _unevaluated(node: Node, schema: Node, value: Any, at: Location, run: Run) -> Problems:
    evaluated = _evaluated(node, value, run)
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if key not in evaluated:
            yield from schema.check(part, (at, key), run)


def _evaluated(node: Node, value: Object | Array, run: Run) -> set[str | int]:
    """The fields or indexes of a value that keywords of this schema evaluate.

    The keywords of all schemas that apply to the same value count too.
    """
    run.spend(3 + len(value))
    is_object = isinstance(value, dict)
    keys = set[str | int](value if is_object else range(len(value)))
    if ("additionalProperties" if is_object else "items") in node.single:
        return keys
    if is_object:
        evaluated = keys & node.named.get("properties", {}).keys()
        for source in node.named.get("patternProperties", ()):
            run.spend(1)
            evaluated |= {name for name in value if run.finds(node.patterns[source], name)}
    else:
        evaluated = keys & set(range(len(node.lists.get("prefixItems", ()))))
        if "contains" in node.single:
            schema = node.single["contains"]
            evaluated |= {index for index, item in enumerate(value) if schema.fits(item, run)}
    for applied in _applied(node, value, run):
        if f"unevaluated{'Properties' if is_object else 'Items'}" in applied.single:
            return keys
        evaluated |= _evaluated(applied, value, run)
    return evaluated


def _applied(node: Node, value: Any, run: Run) -> Iterator[Node]:
    """The schemas that apply to the same value and that it matches."""
    yield from node.refs.values()
    yield from node.lists.get("allOf", ())
    for keyword in ("anyOf", "oneOf"):
        yield from (schema for schema in node.lists.get(keyword, ()) if schema.fits(value, run))
    if "if" in node.single:
        holds = node.single["if"].fits(value, run)
        if holds:
            yield node.single["if"]
        if (branch := node.single.get("then" if holds else "else")) is not None:
            yield branch
    for name, schema in node.named.get("dependentSchemas", {}).items():
        run.spend(1)
        if isinstance(value, dict) and name in value:
            yield schema


def _for(types: tuple[type, ...], **rules: Rule) -> dict[str, Keyword]:
    return {name: Keyword(rule, types) for name, rule in rules.items()}


_KEYWORDS: Mapping[str, Keyword] = {
    "type": Keyword(_type),
    "enum": Keyword(_enum, prepare=_allowed),
    "const": Keyword(_enum, prepare=lambda value: _allowed([value])),
    "$ref": Keyword(_reference),
    "$dynamicRef": Keyword(_reference),
    "allOf": Keyword(_all_of),
    "anyOf": Keyword(_any_of),
    "oneOf": Keyword(_one_of),
    "not": Keyword(_not),
    "if": Keyword(_if),
    **_for(
        (int, float),
        minimum=_limit(operator.ge, "must be at least {}, got {}"),
        maximum=_limit(operator.le, "must be at most {}, got {}"),
        exclusiveMinimum=_limit(operator.gt, "must be greater than {}, got {}"),
        exclusiveMaximum=_limit(operator.lt, "must be less than {}, got {}"),
        multipleOf=_multiple_of,
    ),
    **_for(
        (str,),
        minLength=_limit(operator.ge, "must have at least {} characters, got {}", len),
        maxLength=_limit(operator.le, "must have at most {} characters, got {}", len),
        pattern=_pattern,
    ),
    **_for(
        (list,),
        minItems=_limit(operator.ge, "must have at least {} items, got {}", len),
        maxItems=_limit(operator.le, "must have at most {} items, got {}", len),
        uniqueItems=_unique_items,
        prefixItems=_prefix_items,
        items=_items,
        additionalItems=_additional_items,
        contains=_contains,
        unevaluatedItems=_unevaluated,
    ),
    **_for(
        (dict,),
        minProperties=_limit(operator.ge, "must have at least {} fields, got {}", len),
        maxProperties=_limit(operator.le, "must have at most {} fields, got {}", len),
        required=_required,
        dependentRequired=_dependent,
        dependentSchemas=_dependent,
        dependencies=_dependent,
        properties=_properties,
        patternProperties=_pattern_properties,
        additionalProperties=_additional_properties,
        propertyNames=_property_names,
        unevaluatedProperties=_unevaluated,
    ),
}
_ONLY_DRAFT_7 = frozenset(("additionalItems", "dependencies"))
_ONLY_2020_12 = frozenset(
    (
        "$dynamicRef", "dependentRequired", "dependentSchemas", "prefixItems", "unevaluatedItems",
        "unevaluatedProperties",
    )
)  # fmt: skip

DRAFT_7 = Dialect(
    name="Draft 7",
    uri="http://json-schema.org/draft-07/schema#",
    keywords={name: _KEYWORDS[name] for name in _KEYWORDS if name not in _ONLY_2020_12},
    is_draft_7=True,
)
DRAFT_2020_12 = Dialect(
    name="Draft 2020-12",
    uri="https://json-schema.org/draft/2020-12/schema",
    keywords={name: _KEYWORDS[name] for name in _KEYWORDS if name not in _ONLY_DRAFT_7},
    is_draft_7=False,
)
