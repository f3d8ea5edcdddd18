"""A compiled schema node, and the problems it finds in values.

Schemas and values are untrusted. Every rule counts its work in steps of about a microsecond, and a
check that exceeds its step limit is aborted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codebase_mcp.records.schemas.patterns import Pattern

# The path to a part of a value: a field or index below another place. None is the whole value.
Place = tuple["Place", "str | int"] | None

_SHOWN_CHARS = 60


class TooCostly(Exception):
    """The check has exceeded its step limit."""


@dataclass(slots=True)
class Run:
    """One check of one value, with the steps that it may still take."""

    steps: int

    def spend(self, steps: int) -> None:
        """Count steps before doing the work.

        Raises:
            TooCostly: the step limit is exceeded.
        """
        self.steps -= steps
        if self.steps < 0:
            raise TooCostly

    def finds(self, pattern: Pattern, text: str) -> bool:
        """Whether a pattern matches anywhere in a text."""
        self.spend(pattern.steps(text))
        return pattern.occurs_in(text)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the value at a place; ``of_type`` says that it has the wrong type."""

    place: Place
    message: str
    of_type: bool = False

    @property
    def path(self) -> str:
        """The place as a JSON pointer."""
        steps: list[str | int] = []
        place = self.place
        while place is not None:
            place, step = place
            steps.append(step if isinstance(step, int) else step[:_SHOWN_CHARS])
        return pointer("", *reversed(steps))

    def __str__(self) -> str:
        return f"{self.path or 'the value'} {self.message}"


Rule = Callable[[Any, Place, Run], Iterator[Problem]]
Maker = Callable[["Node", Any], Rule]
"""Makes the rule of a keyword from the schema that contains it and the keyword's value."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A version of JSON Schema: the rules of its keywords, and which contain subschemas.

    Keywords in ``one`` hold a schema, those in ``many`` a list of schemas, those in ``named`` an
    object of schemas.
    """

    name: str
    uri: str
    makers: Mapping[str, Maker]
    one: frozenset[str]
    many: frozenset[str]
    named: frozenset[str]
    is_draft_7: bool


@dataclass(eq=False, slots=True)
class Node:
    """A schema at its place in a document, with its subschemas by keyword.

    ``refs`` are the schemas that it refers to, ``patterns`` its regular expressions.
    """

    pointer: str
    schema: Any
    dialect: Dialect
    one: dict[str, Node] = field(default_factory=dict)
    many: dict[str, list[Node]] = field(default_factory=dict)
    named: dict[str, dict[str, Node]] = field(default_factory=dict)
    refs: dict[str, Node] = field(default_factory=dict)
    patterns: dict[str, Pattern] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)

    @property
    def is_only_reference(self) -> bool:
        """In Draft 7, keywords beside ``$ref`` are ignored."""
        return self.dialect.is_draft_7 and "$ref" in self.refs

    def make_rules(self) -> None:
        """Make the rules of the keywords, once all subschemas and references are resolved."""
        if self.schema is False:
            self.rules = [_never]
        elif self.schema is not True:
            makers = self.dialect.makers
            active = ["$ref"] if self.is_only_reference else self.schema.keys() & makers.keys()
            self.rules = [
                makers[keyword](self, value)
                for keyword, value in self.schema.items()
                if keyword in active
            ]

    def check(self, value: Any, place: Place, run: Run) -> Iterator[Problem]:
        """The problems of a value."""
        run.spend(1 + len(self.rules))
        for rule in self.rules:
            yield from rule(value, place, run)

    def fits(self, value: Any, run: Run) -> bool:
        """Whether a value has no problems."""
        return next(self.check(value, None, run), None) is None

    def about_same_value(self) -> Iterator[Node]:
        """The subschemas and references that apply to the same value as this schema."""
        yield from self.refs.values()
        if not self.is_only_reference:
            for keyword in _ABOUT_SAME_VALUE:
                if keyword in self.one:
                    yield self.one[keyword]
                yield from self.many.get(keyword, ())
                yield from self.named.get(keyword, {}).values()

    def parts(self) -> Iterator[Node]:
        """All direct subschemas."""
        yield from self.one.values()
        for nodes in self.many.values():
            yield from nodes
        for by_name in self.named.values():
            yield from by_name.values()


_ABOUT_SAME_VALUE = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies",
)  # fmt: skip


def _never(value: Any, place: Place, run: Run) -> Iterator[Problem]:
    yield Problem(place, "is not allowed")


def pointer(start: str, *steps: str | int) -> str:
    """A JSON pointer, extended by further steps."""
    return "/".join([start, *(str(s).replace("~", "~0").replace("/", "~1") for s in steps)])


def key_of(value: Any, spend: Callable[[int], None] = lambda _: None) -> str:
    """A text that is the same for two values exactly if they are equal as JSON, as 1 and 1.0."""
    if isinstance(value, str):
        spend(len(value) // 1_000)
        return repr(value)
    if isinstance(value, list):
        spend(len(value))
        return f"[{','.join([key_of(part, spend) for part in value])}]"
    if isinstance(value, dict):
        spend(2 * len(value))
        parts = sorted([f"{name!r}:{key_of(part, spend)}" for name, part in value.items()])
        return f"{{{','.join(parts)}}}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int):
        spend(value.bit_length() // 100)
    return str(value)


def display_value(value: Any) -> str:
    """A value for an error message, shortened."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, str):
        return json.dumps(
            value[:_SHOWN_CHARS] + "…" * (len(value) > _SHOWN_CHARS), ensure_ascii=False
        )
    if isinstance(value, int) and abs(value) > 10**_SHOWN_CHARS:
        return f"a number of more than {_SHOWN_CHARS} digits"
    return json.dumps(value)
