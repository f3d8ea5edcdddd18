"""The definitions that a use of a name may mean, and how sure each is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.definition import CALLABLE_KINDS, TYPE_KINDS, Candidate, Definition, Use
from codebase_mcp.symbols.imports import parts_of
from codebase_mcp.symbols.languages import Language, Modules, language_of
from codebase_mcp.text.tokens import fold

Key = TypeVar("Key", bound=Hashable)

_VALUES = frozenset({ReferenceKind.CALL, ReferenceKind.NEW, ReferenceKind.USE})
_NO_VALUES = frozenset({"interface", "type"})

# How sure a member is that only its name speaks for.
BY_NAME = 0.5


class Candidates(tuple[Definition, ...]):
    """The definitions that uses of a name in one way may mean, with what many uses ask of them.

    A common name has thousands of uses and hundreds of definitions, so whatever does not depend on
    the place of a use is worked out once.
    """

    @cached_property
    def members(self) -> list[Definition]:
        """Those in a class."""
        return [one for one in self if is_member(one)]

    @cached_property
    def top(self) -> list[Definition]:
        """Those at the top of a file."""
        return [one for one in self if not one.container]

    @cached_property
    def held(self) -> Mapping[str, list[Definition]]:
        """Those in each class, or in whatever else holds them."""
        return _grouped(self, lambda one: one.holder)

    @cached_property
    def members_by_folded_holder(self) -> Mapping[str, list[Definition]]:
        """Members by the name of their class in lower case."""
        return _grouped(self.members, lambda one: fold(one.holder))

    @cached_property
    def top_by_module(self) -> Mapping[tuple[str, ...], list[Definition]]:
        """Those at the top, by the last part of their module's name."""
        return _grouped(self.top, lambda one: parts_of(one.path, language_of(one.language))[-1:])

    @cached_property
    def by_name_alone(self) -> tuple[Candidate, ...]:
        """The members, of an object of which nothing is known."""
        return in_order(weak(self.members, BY_NAME, ""))


def _grouped(
    definitions: Iterable[Definition], key: Callable[[Definition], Key]
) -> Mapping[Key, list[Definition]]:
    found: defaultdict[Key, list[Definition]] = defaultdict(list)
    for one in definitions:
        found[key(one)].append(one)
    return found


def in_order(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The likeliest first, product before tests."""
    return tuple(
        sorted(found, key=lambda c: (-c.confidence, c.definition.is_test, c.definition.path))
    )


def is_member(one: Definition) -> bool:
    """Whether it is in a class and is not a class."""
    return bool(one.container) and not one.is_type


def different(found: Sequence[Definition]) -> int:
    """How many different definitions; overloads of one name in one file can be one.

    What a header of C declares is the same as what a source defines under its name, and so are a
    structure and a type of its name.
    """
    places = {(one.path, one.qualified) for one in found}
    if len(places) > 1 and language_of(found[0].language).modules is Modules.INCLUDE:
        whole = {(one.path, one.qualified) for one in found if not _is_declaration(one)}
        return len(whole) or 1
    return len(places)


def _is_declaration(one: Definition) -> bool:
    is_header = one.path.rpartition(".")[2].startswith("h")
    return one.kind == "type" or (is_header and one.kind in ("function", "method"))


def shared(found: Sequence[Definition], confidence: float, reason: str) -> list[Candidate]:
    """Definitions that a rule cannot tell apart."""
    places = different(found)
    if places > 1:
        reason = f"{reason}, one of {places} there"
    return [Candidate(one, round(confidence / max(places, 1), 2), reason) for one in found]


def weak(found: Sequence[Definition], confidence: float, why: str) -> list[Candidate]:
    """Definitions that only the name speaks for."""
    places = different(found)
    count = "only definition" if places == 1 else f"one of {places} definitions"
    reason = f"{count} of this name" + (f", {why}" if why else "")
    return [
        Candidate(one, max(round(confidence / max(places, 1), 2), 0.01), reason) for one in found
    ]


def can_be_used(use: Use, one: Definition, rules: Language) -> bool:
    """Whether the language lets a definition be used in this way."""
    if rules.has_types_apart and use.kind in _VALUES and one.kind in _NO_VALUES:
        return False
    if use.receiver:
        return True
    if rules.modules is Modules.CRATE and one.container and one.kind == "type":
        return False  # a type of a trait is behind Self
    return use.kind is not ReferenceKind.USE or one.kind not in rules.never_handed_on


def fitting(kind: ReferenceKind, candidates: Sequence[Definition]) -> Sequence[Definition]:
    """The candidates of a kind that can be used in this way, if there are any."""
    kinds = {
        ReferenceKind.CALL: CALLABLE_KINDS,
        ReferenceKind.NEW: TYPE_KINDS,
        ReferenceKind.INHERIT: TYPE_KINDS,
        ReferenceKind.TYPE: TYPE_KINDS,
    }.get(kind)
    if kinds is None:
        return candidates
    return [one for one in candidates if one.kind in kinds] or candidates
