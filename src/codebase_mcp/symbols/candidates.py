"""The definitions that a use of a name may mean, and how sure each is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from codebase_mcp.model import FIELD_KINDS, ReferenceKind
from codebase_mcp.symbols.definition import CALLABLE_KINDS, TYPE_KINDS, Candidate, Definition, Use
from codebase_mcp.symbols.imports import directory_of, parts_of, words_of_module, words_of_path
from codebase_mcp.symbols.languages import Language, Modules, Reach, language_of
from codebase_mcp.text.tokens import fold
from codebase_mcp.values import grouped

Key = TypeVar("Key", bound=Hashable)

_VALUES = frozenset({ReferenceKind.CALL, ReferenceKind.NEW, ReferenceKind.USE})
_NO_VALUES = frozenset({"interface", "type"})
_NO_TYPES = frozenset({"constant", "variable"})
# JavaScript, Go, Java and their like: no variable is a type.
_TYPES_APART = frozenset({Modules.RELATIVE, Modules.DIRECTORY, Modules.QUALIFIED})
_MEMBER_KINDS = FIELD_KINDS | {"method", "constant", "property"}

# A use that is less sure than this is counted, but not shown.
LEAST = 0.02
# How sure each rule is; from SURE on a use counts as resolved, below LIKELY as only possible.
SURE = 0.8
LIKELY = 0.5
SCOPE = 0.95
IMPORTED = 0.95
HANDED_ON = 0.9
BASE = 0.85
NEIGHBOUR = 0.9
NAMED_TYPE = 0.8
PACKAGE = 0.6
TYPE_IN_FILE = 0.6
LIKE_ITS_TYPE = 0.6
# A member that only its name speaks for.
BY_NAME = 0.5

# Up to this number all are compared.
_FEW = 8


class Candidates(tuple[Definition, ...]):
    """The definitions that uses of a name of the same kind may mean, grouped in several ways.

    A common name has thousands of uses and hundreds of definitions, so each group is made once, and
    no use looks at all definitions.
    """

    @cached_property
    def members(self) -> Candidates:
        """Those in a class."""
        return Candidates(definition for definition in self if is_member(definition))

    @cached_property
    def fields(self) -> Candidates:
        """Those that hold a value in a class."""
        return Candidates(definition for definition in self if definition.kind in FIELD_KINDS)

    @cached_property
    def top(self) -> Candidates:
        """Those at the top of a file."""
        return Candidates(
            definition
            for definition in self
            if not definition.container and definition.kind not in FIELD_KINDS
        )

    @cached_property
    def bare(self) -> Candidates:
        """Those that are used without a receiver: no members of a class."""
        top = Candidates(
            definition
            for definition in self
            if definition.is_type or not (definition.container or definition.kind in FIELD_KINDS)
        )
        return top or Candidates(
            definition for definition in self if definition.kind not in _MEMBER_KINDS
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Their names: several where an import renames a definition."""
        return frozenset(definition.name for definition in self)

    @cached_property
    def in_file(self) -> Mapping[str, Candidates]:
        """Those of each file."""
        return _grouped(self, lambda definition: definition.file.path)

    @cached_property
    def in_directory(self) -> Mapping[str, Candidates]:
        """Those of the files of each directory."""
        return _grouped(self, lambda definition: directory_of(definition.file))

    @cached_property
    def held(self) -> Mapping[str, Candidates]:
        """Those in each class, or in whatever else holds them."""
        return _grouped(self, lambda definition: definition.holder)

    @cached_property
    def containers(self) -> frozenset[str]:
        """The qualified names of the definitions that hold them."""
        return frozenset(definition.container for definition in self)

    @cached_property
    def members_by_folded_holder(self) -> Mapping[str, Candidates]:
        """Members by the name of their class in lower case."""
        return _grouped(self.members, lambda member: fold(member.holder))

    @cached_property
    def top_by_module(self) -> Mapping[tuple[str, ...], Candidates]:
        """Those at the top, by the last part of their module's name."""
        return _grouped(
            self.top,
            lambda definition: parts_of(
                definition.file.path, language_of(definition.file.language)
            )[-1:],
        )

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

    def by_name_alone(self, confidence: float, why: str = "") -> list[Candidate]:
        """All of them, where only the name speaks for them; nothing if they are many."""
        share = round(confidence / max(self.places, 1), 2)
        if share < LEAST:
            return []
        count = "only definition" if self.places == 1 else f"one of {self.places} definitions"
        reason = f"{count} of this name" + (f", {why}" if why else "")
        return [Candidate(definition, share, reason) for definition in self]

    @cached_property
    def places(self) -> int:
        """The number of different definitions."""
        return different(self)

    @cached_property
    def _by_word(self) -> Mapping[str, list[int]]:
        """The places in the sequence of those whose path has a word."""
        return grouped(
            (word, number)
            for number, definition in enumerate(self)
            for word in words_of_path(definition.file.path)
        )

    @cached_property
    def _near(self) -> dict[tuple[str, str], Sequence[Definition]]:
        return {}


def _grouped(
    definitions: Iterable[Definition], key: Callable[[Definition], Key]
) -> Mapping[Key, Candidates]:
    groups = grouped((key(definition), definition) for definition in definitions)
    return {name: Candidates(group) for name, group in groups.items()}


def in_order(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The likeliest first, product before tests."""
    return tuple(
        sorted(
            candidates,
            key=lambda c: (-c.confidence, c.definition.file.is_test, c.definition.file.path),
        )
    )


def is_member(definition: Definition) -> bool:
    """Whether it is in a class and is not a class; a type without a name has fields too."""
    is_inside = bool(definition.container) or definition.kind in FIELD_KINDS
    return is_inside and not definition.is_type


def different(definitions: Sequence[Definition]) -> int:
    """The number of different definitions; overloads of a name in a file count once.

    A declaration in a C header and the definition of that name in a source count once too, and so
    do a structure and a type of its name.
    """
    places = {(definition.file.path, definition.qualified) for definition in definitions}
    if len(places) > 1 and language_of(definitions[0].file.language).modules is Modules.INCLUDE:
        whole = {
            (definition.file.path, definition.qualified)
            for definition in definitions
            if not _is_declaration(definition)
        }
        return len(whole) or 1
    return len(places)


def _is_declaration(definition: Definition) -> bool:
    is_header = definition.file.path.rpartition(".")[2].startswith("h")
    return definition.kind == "type" or (is_header and definition.kind in ("function", "method"))


def shared(definitions: Sequence[Definition], confidence: float, reason: str) -> list[Candidate]:
    """Definitions that a rule cannot tell apart."""
    places = different(definitions)
    if places > 1:
        reason = f"{reason}, one of {places} there"
    return [
        Candidate(definition, round(confidence / max(places, 1), 2), reason)
        for definition in definitions
    ]


def can_be_used(use: Use, definition: Definition, rules: Language) -> bool:
    """Whether the language lets a definition be used in this way."""
    if rules.has_types_apart and use.kind in _VALUES and definition.kind in _NO_VALUES:
        return False
    if use.kind is ReferenceKind.TYPE and definition.kind in _NO_TYPES:
        return rules.modules not in _TYPES_APART
    if definition.kind in FIELD_KINDS and not _can_be_field(use, definition, rules):
        return False
    if use.receiver:
        return True
    if rules.modules is Modules.CRATE and definition.container and definition.kind == "type":
        return False  # a type of a trait is behind Self
    return use.kind is not ReferenceKind.USE or definition.kind not in rules.never_handed_on


def _can_be_field(use: Use, definition: Definition, rules: Language) -> bool:
    """Whether a use may read or write a field: behind an object, or alone in a method."""
    if use.receiver:
        return (
            use.kind is ReferenceKind.USE
            or (use.kind is ReferenceKind.CALL and rules.calls_fields)
            or (use.kind is ReferenceKind.TYPE and definition.kind == "enumerator")
        )
    if use.kind is not ReferenceKind.USE:
        return False
    if definition.kind == "enumerator":
        return rules.reach is not Reach.FILE or rules.modules is Modules.CRATE
    return rules.has_implicit_self and definition.file.language != "c"


def fitting(kind: ReferenceKind, candidates: Sequence[Definition]) -> Sequence[Definition]:
    """The candidates of a kind that can be used in this way, if there are any.

    A field that cannot be called is no candidate of a call (see ``can_be_used``).
    """
    kinds = {
        ReferenceKind.CALL: CALLABLE_KINDS,
        ReferenceKind.NEW: TYPE_KINDS,
        ReferenceKind.INHERIT: TYPE_KINDS,
        ReferenceKind.TYPE: TYPE_KINDS,
    }.get(kind)
    if kinds is None:
        return candidates
    if not any(candidate.kind in kinds for candidate in candidates):
        return candidates
    return [candidate for candidate in candidates if candidate.kind in kinds | FIELD_KINDS]
