"""The rules of keywords with subschemas: ``properties``, ``anyOf``, ``items``, and so on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from codebase_mcp.records.schemas.assertions import required_beside
from codebase_mcp.records.schemas.nodes import Maker, Node, Place, Problem, Rule, Run, display_value

# How many problems are collected for an alternative that does not match.
_PROBLEMS = 20
_LISTED = 20


def _reference(keyword: str) -> Maker:
    return lambda node, _: node.refs[keyword].check


def _all_of(node: Node, _: Any) -> Rule:
    nodes = node.many["allOf"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        for inner in nodes:
            yield from inner.check(value, place, run)

    return rule


def _any_of(node: Node, _: Any) -> Rule:
    nodes = node.many["anyOf"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        problems: list[list[Problem]] = []
        for inner in nodes:
            problems.append(list(islice(inner.check(value, place, run), _PROBLEMS)))
            if not problems[-1]:
                return
        yield from _nearest(place, problems)

    return rule


def _one_of(node: Node, _: Any) -> Rule:
    nodes = node.many["oneOf"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        problems = [list(islice(inner.check(value, place, run), _PROBLEMS)) for inner in nodes]
        fitting = problems.count([])
        if fitting > 1:
            yield Problem(place, f"must match exactly one alternative, matches {fitting}")
        elif not fitting:
            yield from _nearest(place, problems)

    return rule


def _nearest(place: Place, problems: Sequence[list[Problem]]) -> Iterable[Problem]:
    """The problems of the only alternative for the value's type, else one problem for all."""
    near = [some for some in problems if not any(p.of_type and p.place is place for p in some)]
    if len(near) == 1:
        return near[0]
    return [Problem(place, f"matches none of the {len(problems)} alternatives")]


def _not(node: Node, _: Any) -> Rule:
    inner = node.one["not"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if inner.fits(value, run):
            yield Problem(place, 'must not match the schema under "not"')

    return rule


def _if(node: Node, _: Any) -> Rule:
    condition, then, otherwise = node.one["if"], node.one.get("then"), node.one.get("else")

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        inner = then if condition.fits(value, run) else otherwise
        if inner is not None:
            yield from inner.check(value, place, run)

    return rule


def _items(node: Node, _: Any) -> Rule:
    """The schema of all items without a schema of their own in ``prefixItems``."""
    rest, first = node.one["items"], len(node.many.get("prefixItems", ()))

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, list):
            for index in range(first, len(value)):
                yield from rest.check(value[index], (place, index), run)

    return rule


def _first_items(keyword: str) -> Maker:
    """Schemas of their own for the first items."""

    def make(node: Node, _: Any) -> Rule:
        nodes = node.many[keyword]

        def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
            if isinstance(value, list):
                for index, (item, inner) in enumerate(zip(value, nodes, strict=False)):
                    yield from inner.check(item, (place, index), run)

        return rule

    return make


def _items_of_draft_7(node: Node, value: Any) -> Rule:
    return _first_items("items")(node, value) if "items" in node.many else _items(node, value)


def _additional_items(node: Node, _: Any) -> Rule:
    rest, firsts = node.one["additionalItems"], node.many.get("items")

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if firsts is not None and isinstance(value, list):
            for index in range(len(firsts), len(value)):
                yield from rest.check(value[index], (place, index), run)

    return rule


def _contains(node: Node, _: Any) -> Rule:
    inner, counts = node.one["contains"], not node.dialect.is_draft_7
    least = node.schema.get("minContains", 1) if counts else 1
    most = node.schema.get("maxContains") if counts else None

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if not isinstance(value, list):
            return
        count = sum(inner.fits(item, run) for item in value)
        if count < least:
            yield Problem(
                place, f"must have at least {display_value(least)} matching items, got {count}"
            )
        if most is not None and count > most:
            yield Problem(
                place, f"must have at most {display_value(most)} matching items, got {count}"
            )

    return rule


def _properties(node: Node, _: Any) -> Rule:
    nodes = node.named["properties"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            run.spend(len(value) // 10)
            for name, part in value.items():
                if name in nodes:
                    yield from nodes[name].check(part, (place, name), run)

    return rule


def _pattern_properties(node: Node, _: Any) -> Rule:
    pairs = [(node.patterns[s], inner) for s, inner in node.named["patternProperties"].items()]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            run.spend(len(pairs) // 4)
            for pattern, inner in pairs:
                for name, part in value.items():
                    if run.finds(pattern, name):
                        yield from inner.check(part, (place, name), run)

    return rule


def _additional_properties(node: Node, _: Any) -> Rule:
    inner, known = node.one["additionalProperties"], node.named.get("properties", {})
    patterns = [node.patterns[source] for source in node.named.get("patternProperties", {})]
    listed = ", ".join(islice(known, _LISTED)) or "none"

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if not isinstance(value, dict):
            return
        run.spend(len(value) // 10)
        for name, part in value.items():
            if name in known or any(run.finds(pattern, name) for pattern in patterns):
                continue
            if inner.schema is False:
                yield Problem((place, name), f"is not a field of the schema (fields: {listed})")
            else:
                yield from inner.check(part, (place, name), run)

    return rule


def _property_names(node: Node, _: Any) -> Rule:
    inner = node.one["propertyNames"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            for name in value:
                for problem in inner.check(name, None, run):
                    yield Problem((place, name), f"has a name that {problem.message}")

    return rule


def _dependent_required(_: Node, wanted: Mapping[str, Any]) -> Rule:
    return required_beside(wanted)


def _dependent_schemas(node: Node, _: Any) -> Rule:
    nodes = node.named["dependentSchemas"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            run.spend(len(nodes) // 10)
            for name, inner in nodes.items():
                if name in value:
                    yield from inner.check(value, place, run)

    return rule


def _dependencies(node: Node, wanted: Mapping[str, Any]) -> Rule:
    """Draft 7's keyword for both: lists of required names, and schemas."""
    names, nodes = required_beside(wanted), node.named["dependencies"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            yield from names(value, place, run)
            run.spend(len(nodes) // 10)
            for name, inner in nodes.items():
                if name in value:
                    yield from inner.check(value, place, run)

    return rule


def _unevaluated_properties(node: Node, _: Any) -> Rule:
    inner = node.one["unevaluatedProperties"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            seen = _seen_fields(node, value, run)
            for name, part in value.items():
                if name not in seen:
                    yield from inner.check(part, (place, name), run)

    return rule


def _unevaluated_items(node: Node, _: Any) -> Rule:
    inner = node.one["unevaluatedItems"]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, list):
            seen = _seen_items(node, value, run)
            for index, item in enumerate(value):
                if index not in seen:
                    yield from inner.check(item, (place, index), run)

    return rule


def _seen_fields(node: Node, value: dict[str, Any], run: Run) -> set[str]:
    """The fields that other keywords evaluate, in this schema or in others for the same value."""
    run.spend(1 + len(value))
    if "additionalProperties" in node.one:
        return set(value)
    seen = value.keys() & node.named.get("properties", {}).keys()
    for source in node.named.get("patternProperties", {}):
        run.spend(1)
        seen |= {name for name in value if run.finds(node.patterns[source], name)}
    for applied in _applied(node, value, run):
        if "unevaluatedProperties" in applied.one:
            return set(value)
        seen |= _seen_fields(applied, value, run)
    return seen


def _seen_items(node: Node, value: list[Any], run: Run) -> set[int]:
    """The items that other keywords evaluate, in this schema or in others for the same value."""
    run.spend(1 + len(value))
    if "items" in node.one:
        return set(range(len(value)))
    seen = set(range(min(len(value), len(node.many.get("prefixItems", ())))))
    if "contains" in node.one:
        seen |= {i for i, item in enumerate(value) if node.one["contains"].fits(item, run)}
    for applied in _applied(node, value, run):
        if "unevaluatedItems" in applied.one:
            return set(range(len(value)))
        seen |= _seen_items(applied, value, run)
    return seen


def _applied(node: Node, value: Any, run: Run) -> Iterator[Node]:
    """The schemas that apply to the same value and that it matches."""
    yield from node.refs.values()
    yield from node.many.get("allOf", ())
    for keyword in ("anyOf", "oneOf"):
        yield from (inner for inner in node.many.get(keyword, ()) if inner.fits(value, run))
    if "if" in node.one:
        holds = node.one["if"].fits(value, run)
        if holds:
            yield node.one["if"]
        if (branch := node.one.get("then" if holds else "else")) is not None:
            yield branch
    for name, inner in node.named.get("dependentSchemas", {}).items():
        run.spend(1)
        if isinstance(value, dict) and name in value:
            yield inner


_SHARED: Mapping[str, Maker] = {
    "$ref": _reference("$ref"),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "contains": _contains,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
}

APPLICATORS_OF_DRAFT_7: Mapping[str, Maker] = {
    **_SHARED,
    "items": _items_of_draft_7,
    "additionalItems": _additional_items,
    "dependencies": _dependencies,
}

APPLICATORS_OF_2020_12: Mapping[str, Maker] = {
    **_SHARED,
    "$dynamicRef": _reference("$dynamicRef"),
    "prefixItems": _first_items("prefixItems"),
    "items": _items,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}
