"""The rules of keywords without subschemas: ``type``, ``enum``, limits, ``pattern``, and so on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from codebase_mcp.records.schemas.nodes import (
    Maker,
    Node,
    Place,
    Problem,
    Rule,
    Run,
    display_value,
    key_of,
)

_LISTED = 10


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": _is_text,
    "array": _is_list,
    "object": _is_object,
}


def _type(_: Node, wanted: str | list[str]) -> Rule:
    names = [wanted] if isinstance(wanted, str) else wanted
    tests = [_TYPES[name] for name in names]
    words = f"must be of type {' or '.join(names)}, got"

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if not any(test(value) for test in tests):
            yield Problem(place, f"{words} {display_value(value)}", of_type=True)

    return rule


def _enum(_: Node, values: Sequence[Any]) -> Rule:
    keys = frozenset(map(key_of, values))
    has_nested = any(isinstance(value, dict | list) for value in values)
    listed = ", ".join(map(display_value, values[:_LISTED])) + ", …" * (len(values) > _LISTED)
    words = f"must be {listed}" if len(values) == 1 else f"must be one of {listed}"

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        could_be = has_nested or not isinstance(value, dict | list)
        if not could_be or key_of(value, run.spend) not in keys:
            yield Problem(place, f"{words}, got {display_value(value)}")

    return rule


def _const(node: Node, value: Any) -> Rule:
    return _enum(node, [value])


def _limit(
    applies: Callable[[Any], bool],
    measure: Callable[[Any], Any],
    fits: Callable[[Any, Any], bool],
    words: str,
) -> Maker:
    """A keyword that limits a measure of a value, such as its length."""

    def make(_: Node, bound: float) -> Rule:
        def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
            if applies(value) and not fits(measured := measure(value), bound):
                yield Problem(place, words.format(display_value(bound), display_value(measured)))

        return rule

    return make


def _itself(value: Any) -> Any:
    return value


def _multiple_of(_: Node, divisor: float) -> Rule:
    exact = _as_written(divisor)
    bits = exact.numerator.bit_length() + exact.denominator.bit_length()

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if _is_number(value):
            run.spend(5 + (int(value).bit_length() + bits) // 100)
            number = _as_written(value)
            # whether the quotient is whole, without the cost of reducing it
            if number.numerator * exact.denominator % (number.denominator * exact.numerator):
                yield Problem(
                    place,
                    f"must be a multiple of {display_value(divisor)}, got {display_value(value)}",
                )

    return rule


def _as_written(number: float) -> Fraction:
    """A number as its decimal digits say, so that 0.3 is exactly three times 0.1."""
    return Fraction(number if isinstance(number, int) else repr(number))


def _pattern(node: Node, source: str) -> Rule:
    pattern = node.patterns[source]

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, str) and not run.finds(pattern, value):
            yield Problem(place, f"must match the pattern {source}, got {display_value(value)}")

    return rule


def _unique_items(_: Node, wanted: bool) -> Rule:
    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if not wanted or not isinstance(value, list):
            return
        places: dict[str, int] = {}
        for index, item in enumerate(value):
            first = places.setdefault(key_of(item, run.spend), index)
            if first != index:
                yield Problem((place, index), f"must not be the same as item {first}")

    return rule


def _required(_: Node, names: Sequence[str]) -> Rule:
    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if isinstance(value, dict):
            run.spend(len(names) // 10)
            for name in names:
                if name not in value:
                    yield Problem((place, name), "is required")

    return rule


def required_beside(wanted: Mapping[str, Any]) -> Rule:
    """Which fields are required if another one is present; schemas in ``wanted`` are ignored."""
    lists = {name: names for name, names in wanted.items() if isinstance(names, list)}

    def rule(value: Any, place: Place, run: Run) -> Iterator[Problem]:
        if not isinstance(value, dict):
            return
        run.spend(len(lists) // 10)
        for name, names in lists.items():
            if name in value:
                run.spend(len(names) // 10)
                for needed in names:
                    if needed not in value:
                        yield Problem(
                            (place, needed), f"is required if {display_value(name)} is present"
                        )

    return rule


ASSERTIONS: Mapping[str, Maker] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _limit(_is_number, _itself, operator.ge, "must be at least {}, got {}"),
    "maximum": _limit(_is_number, _itself, operator.le, "must be at most {}, got {}"),
    "exclusiveMinimum": _limit(_is_number, _itself, operator.gt, "must be greater than {}, got {}"),
    "exclusiveMaximum": _limit(_is_number, _itself, operator.lt, "must be less than {}, got {}"),
    "multipleOf": _multiple_of,
    "minLength": _limit(_is_text, len, operator.ge, "must have at least {} characters, got {}"),
    "maxLength": _limit(_is_text, len, operator.le, "must have at most {} characters, got {}"),
    "pattern": _pattern,
    "minItems": _limit(_is_list, len, operator.ge, "must have at least {} items, got {}"),
    "maxItems": _limit(_is_list, len, operator.le, "must have at most {} items, got {}"),
    "uniqueItems": _unique_items,
    "minProperties": _limit(_is_object, len, operator.ge, "must have at least {} fields, got {}"),
    "maxProperties": _limit(_is_object, len, operator.le, "must have at most {} fields, got {}"),
    "required": _required,
}
