"""The definitions that a use of a name may mean, and how sure each is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.definition import CALLABLE_KINDS, TYPE_KINDS, Candidate, Definition, Use
from codebase_mcp.symbols.imports import directory_of, parts_of, words_of_module, words_of_path
from codebase_mcp.symbols.languages import Language, Modules, language_of
from codebase_mcp.text.tokens import fold

Key = TypeVar("Key", bound=Hashable)

_VALUES = frozenset({ReferenceKind.CALL, ReferenceKind.NEW, ReferenceKind.USE})
_NO_VALUES = frozenset({"interface", "type"})

# A use that is less sure than this is counted, but not shown.
LEAST = 0.02
# How sure a member is that only its name speaks for.
BY_NAME = 0.5

# So few are compared one by one.
_FEW = 8


class Candidates(tuple[Definition, ...]):
    """The definitions that uses of a name in one way may mean, with what many uses ask of them.

    A common name has thousands of uses and hundreds of definitions, so whatever does not depend on
    the place of a use is worked out once, and no use looks at all definitions.
    """

    @cached_property
    def members(self) -> Candidates:
        """Those in a class."""
        return Candidates(one for one in self if is_member(one))

    @cached_property
    def top(self) -> Candidates:
        """Those at the top of a file."""
        return Candidates(one for one in self if not one.container)

    @cached_property
    def bare(self) -> Candidates:
        """Those that are used without a receiver: no methods."""
        top = Candidates(one for one in self if not one.container or one.is_type)
        return top or Candidates(one for one in self if one.kind != "method")

    @cached_property
    def names(self) -> frozenset[str]:
        """Their names: several where an import renames one."""
        return frozenset(one.name for one in self)

    @cached_property
    def in_file(self) -> Mapping[str, Candidates]:
        """Those of each file."""
        return _grouped(self, lambda one: one.path)

    @cached_property
    def in_directory(self) -> Mapping[str, Candidates]:
        """Those of the files of each directory."""
        return _grouped(self, lambda one: directory_of(one.path, one.language))

    @cached_property
    def held(self) -> Mapping[str, Candidates]:
        """Those in each class, or in whatever else holds them."""
        return _grouped(self, lambda one: one.holder)

    @cached_property
    def containers(self) -> frozenset[str]:
        """The qualified names of what holds them."""
        return frozenset(one.container for one in self)

    @cached_property
    def members_by_folded_holder(self) -> Mapping[str, Candidates]:
        """Members by the name of their class in lower case."""
        return _grouped(self.members, lambda one: fold(one.holder))

    @cached_property
    def top_by_module(self) -> Mapping[tuple[str, ...], Candidates]:
        """Those at the top, by the last part of their module's name."""
        return _grouped(self.top, lambda one: parts_of(one.path, language_of(one.language))[-1:])

    def near(self, module: str, language: str, named: frozenset[str]) -> Sequence[Definition]:
        """Those whose path has a word of a module's name; all where that name has none.

        No import of the module means another file. The words of ``named`` directories need not be
        in a path.
        """
        if len(self) <= _FEW:
            return self
        key = module, language
        if key not in self._near:
            words = words_of_module(module, language_of(language)) - named
            numbers = {n for word in words for n in self._by_word.get(word, ())}
            self._near[key] = [self[n] for n in sorted(numbers)] if words else self
        return self._near[key]

    def shared(self, confidence: float, reason: str) -> tuple[Candidate, ...]:
        """All of them, in order, where a rule cannot tell them apart."""
        key = confidence, reason
        if key not in self._shared:
            self._shared[key] = in_order(shared(self, confidence, reason))
        return self._shared[key]

    def by_name_alone(self, confidence: float, why: str) -> tuple[Candidate, ...]:
        """All of them, in order, where only the name speaks for them; nothing if they are many."""
        key = confidence, why
        if key not in self._by_name_alone:
            share = round(confidence / max(self.places, 1), 2)
            count = "only definition" if self.places == 1 else f"one of {self.places} definitions"
            reason = f"{count} of this name" + (f", {why}" if why else "")
            found = [Candidate(one, share, reason) for one in self] if share >= LEAST else []
            self._by_name_alone[key] = in_order(found)
        return self._by_name_alone[key]

    @cached_property
    def places(self) -> int:
        """How many different ones they are."""
        return different(self)

    @cached_property
    def _by_word(self) -> Mapping[str, list[int]]:
        """The places in the sequence of those whose path has a word."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for number, one in enumerate(self):
            for word in words_of_path(one.path):
                found[word].append(number)
        return found

    @cached_property
    def _near(self) -> dict[tuple[str, str], Sequence[Definition]]:
        return {}

    @cached_property
    def _shared(self) -> dict[tuple[float, str], tuple[Candidate, ...]]:
        return {}

    @cached_property
    def _by_name_alone(self) -> dict[tuple[float, str], tuple[Candidate, ...]]:
        return {}


def _grouped(
    definitions: Iterable[Definition], key: Callable[[Definition], Key]
) -> Mapping[Key, Candidates]:
    found: defaultdict[Key, list[Definition]] = defaultdict(list)
    for one in definitions:
        found[key(one)].append(one)
    return {name: Candidates(group) for name, group in found.items()}


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
