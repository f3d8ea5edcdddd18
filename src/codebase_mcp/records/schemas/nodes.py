"""A compiled schema node, and the problems it finds in values.

Schemas and values are untrusted. Every rule counts its work in steps of about a microsecond, and a
check that exceeds its step limit is aborted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from codebase_mcp.records.schemas.patterns import Pattern

# The path to a part of a value: the location of its container, and a field or index in there.
# None is the whole value.
Location = tuple["Location", "str | int"] | None

_SHOWN_CHARS = 60


class TooCostly(Exception):
    """The check has exceeded its step limit."""


@dataclass(slots=True)
class Run:
    """A check of a value, with the number of steps left."""

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
        """Whether a pattern matches anywhere in a text; costs the time that it takes.

        Raises:
            TooCostly: it might take more than is left.
        """
        if pattern.steps(text) > self.steps:
            raise TooCostly
        started = time.perf_counter()
        found = pattern.occurs_in(text)
        self.spend(1 + round((time.perf_counter() - started) * 1e6))
        return found


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the value at a location; ``of_type`` marks a value of the wrong type."""

    location: Location
    message: str
    of_type: bool = False

    @property
    def path(self) -> str:
        """The location as a JSON pointer."""
        steps: list[str | int] = []
        location = self.location
        while location is not None:
            location, step = location
            steps.append(step if isinstance(step, int) else step[:_SHOWN_CHARS])
        return pointer("", *reversed(steps))

    def __str__(self) -> str:
        return f"{self.path or 'the value'} {self.message}"


Rule = Callable[["Node", Any, Any, Location, Run], Iterator[Problem]]
"""Checks a keyword: its schema, its argument, the value and its location, and the run.

The argument of a keyword with subschemas consists of nodes; other arguments are as in the schema.
"""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword's rule, and the only types of values that it applies to.

    ``prepare`` converts the argument once, before its first use.
    """

    rule: Rule
    types: tuple[type, ...] | None = None
    prepare: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """A version of JSON Schema."""

    name: str
    uri: str
    keywords: Mapping[str, Keyword]
    is_draft_7: bool


@dataclass(eq=False, slots=True)
class Node:
    """A schema in a document, with its subschemas by keyword.

    A keyword holds a ``single`` subschema, a list of them, or an object of ``named`` subschemas.
    ``refs`` are the schemas that it refers to, ``patterns`` its regular expressions by source.
    """

    pointer: str
    schema: Any
    dialect: Dialect
    single: dict[str, Node] = field(default_factory=dict)
    lists: dict[str, list[Node]] = field(default_factory=dict)
    named: dict[str, dict[str, Node]] = field(default_factory=dict)
    refs: dict[str, Node] = field(default_factory=dict)
    patterns: dict[str, Pattern] = field(default_factory=dict)
    _rules: dict[type, list[tuple[Rule, Any]]] = field(default_factory=dict)

    @property
    def keywords(self) -> Mapping[str, Any]:
        """The schema as an object; true and false have no keywords."""
        return self.schema if isinstance(self.schema, Mapping) else {}

    @property
    def is_only_reference(self) -> bool:
        """In Draft 7, keywords beside ``$ref`` are ignored."""
        return self.dialect.is_draft_7 and "$ref" in self.refs

    def check(self, value: Any, location: Location, run: Run) -> Iterator[Problem]:
        """The problems of a value."""
        rules = self._rules.get(type(value))
        if rules is None:
            rules = self._rules[type(value)] = self._rules_for(type(value))
        run.spend(1 + len(rules))
        if self.schema is False:
            yield Problem(location, "is not allowed")
        for rule, argument in rules:
            yield from rule(self, argument, value, location, run)

    def fits(self, value: Any, run: Run) -> bool:
        """Whether a value has no problems."""
        return next(self.check(value, None, run), None) is None

    def _rules_for(self, kind: type) -> list[tuple[Rule, Any]]:
        """The rules for values of a type, with their arguments, in the order of the schema."""
        rules = []
        for name in ["$ref"] if self.is_only_reference else self.keywords:
            keyword = self.dialect.keywords.get(name)
            if keyword and (keyword.types is None or kind in keyword.types):
                rules.append((keyword.rule, self._argument(name, keyword)))
        return rules

    def _argument(self, name: str, keyword: Keyword) -> Any:
        for compiled in (self.single, self.lists, self.refs):
            if name in compiled:
                return compiled[name]
        argument = self.schema[name]
        if name in self.named:  # Draft 7's "dependencies" also contains lists of names
            return argument | self.named[name]
        return keyword.prepare(argument) if keyword.prepare else argument

    def about_same_value(self) -> Iterator[Node]:
        """The subschemas and references that apply to the same value as this schema."""
        yield from self.refs.values()
        if not self.is_only_reference:
            for keyword in _ABOUT_SAME_VALUE:
                if keyword in self.single:
                    yield self.single[keyword]
                yield from self.lists.get(keyword, ())
                yield from self.named.get(keyword, {}).values()

    def parts(self) -> Iterator[Node]:
        """All direct subschemas."""
        yield from self.single.values()
        for nodes in self.lists.values():
            yield from nodes
        for by_name in self.named.values():
            yield from by_name.values()


_ABOUT_SAME_VALUE = (
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies",
)  # fmt: skip


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
