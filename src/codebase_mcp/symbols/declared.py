"""Which types are the receivers of some uses declared to have?

A receiver is a parameter or variable of the function around a use, or a field, property or method
without arguments. Only declarations of types that have a member of the name that is used are read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.transaction import Row
from codebase_mcp.model import ReferenceKind, Symbol
from codebase_mcp.symbols.candidates import different, is_member
from codebase_mcp.symbols.definition import (
    PROSE_KINDS,
    TYPE_KINDS,
    Definition,
    File,
    Surroundings,
    Use,
)
from codebase_mcp.symbols.imports import directory_of
from codebase_mcp.symbols.languages import SELF, SUPER, language_of
from codebase_mcp.symbols.storage import (
    SQL,
    aside,
    common_names,
    load_definitions,
    load_surroundings,
)
from codebase_mcp.text.references import declarations, unpack
from codebase_mcp.values import grouped

_UNNAMED = "?"
_READS = frozenset({ReferenceKind.CALL, ReferenceKind.USE})

# How sure it is that a receiver is what is declared: in the same function, in the own class, as
# the only member of its name, and where a call made it, as it may be assigned again.
_LOCAL = 0.9
_OWN = 0.85
_MADE = 0.75
_ONLY = 0.7
# How many names are followed: in "app.exact.find" that of "exact" by that of "app".
_MAX_STEPS = 2
# Types that do not say which members an object has, or that lend it those of another type.
_OPEN_TYPES = frozenset(
    "Annotated Any Arc Box ClassVar Final Object Optional Rc Self Union any object".split()
)
# Of a name with more uses no declarations are read: it would take longer than all else.
_MAX_USES = 500
# Where more definitions have the name of a receiver, it tells too little.
_MAX_SAME = 30


class DeclaredType(NamedTuple):
    """The name of a type in the file that declares a receiver to have it, and how sure that is."""

    file: File
    name: str
    confidence: float


class _Declaration(NamedTuple):
    """A line that declares something to have a type, and the definitions around it.

    With ``is_made`` it gets the result of a call of ``type`` instead, which may be a function.
    """

    type: str
    line: int
    around: tuple[Symbol, ...]
    is_attribute: bool
    is_made: bool

    def owner(self, name: str) -> str | None:
        """The qualified name of the class whose member is declared; None of a local name."""
        around = self.around
        if self.is_attribute:
            around = tuple(symbol for symbol in around if symbol.kind in TYPE_KINDS)
        elif around and around[-1].name == name.removesuffix("()"):  # a property or method
            return around[-1].qualified.rpartition(".")[0] or None
        if around and around[-1].kind in TYPE_KINDS:
            return around[-1].qualified
        return None


class _Place(NamedTuple):
    """A use's line, what is around it, and the classes that have a member of the name."""

    file: File
    line: int
    around: Sequence[Symbol]
    holders: set[str]


@dataclass(frozen=True, slots=True)
class DeclaredTypes:
    """What was read of the declarations of some receivers.

    ``types`` are the classes that were looked for, and ``holders`` those that have a member of each
    name that is used. ``members`` are the definitions with the names of receivers, by snapshot and
    name, and ``reads`` what stands before these names, by text, line and name.
    """

    types: Collection[str] = ()
    holders: Mapping[str, set[str]] = field(default_factory=dict)
    members: Mapping[tuple[int, str], Sequence[Definition]] = field(default_factory=dict)
    reads: Mapping[tuple[int, int, str], set[str]] = field(default_factory=dict)
    declared: Mapping[tuple[int, str], Sequence[_Declaration]] = field(default_factory=dict)
    surroundings: Mapping[int, Surroundings] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """The names of the types."""
        return {each.type for declared in self.declared.values() for each in declared}

    def of(self, use: Use, around: Sequence[Symbol]) -> tuple[DeclaredType, ...]:
        """The types that the receiver of a use may have."""
        if not self.declared or use.kind not in _READS or not _is_object(use.receiver):
            return ()
        place = _Place(use.file, use.line, around, self.holders.get(use.name, set()))
        return tuple(self._types(place, use.receiver.lstrip("$"), _MAX_STEPS))

    def _types(self, place: _Place, name: str, steps: int) -> Sequence[DeclaredType]:
        """The types of a name, of which something may stand before it: ``app.exact``."""
        before = self.reads.get((place.file.blob_id, place.line, _bare(name)), set())
        if not before and (local := self._local(place, name)):
            return local
        has_implicit_self = language_of(place.file.language).has_implicit_self
        may_be_own = before & SELF or (not before and (has_implicit_self or steps < _MAX_STEPS))
        if may_be_own and (own := self._own(place, name)):
            return own
        if not before:
            return ()
        members = self.members.get((place.file.snapshot_id, _bare(name)), ())
        for each in before:
            if not _is_object(each):
                continue
            of_class = [member for member in members if member.holder == each]
            if of_class:
                return self._shared(of_class, name, _OWN)
            outer = self._types(place, each.lstrip("$"), steps - 1) if steps else ()
            types = [
                inner
                for type_ in outer
                for inner in self._shared(
                    [member for member in members if member.holder == type_.name],
                    name,
                    type_.confidence,
                )
            ]
            if types:
                return types
        return self._only(place, members, name)

    def _local(self, place: _Place, name: str) -> Sequence[DeclaredType]:
        """Of the innermost definition around a use that declares a local name, or a function."""
        scopes: dict[int, list[_Declaration]] = defaultdict(list)
        for each in self.declared.get((place.file.blob_id, name), ()):
            scope = each.around[:-1] if name.endswith("()") else each.around
            if not (each.is_made or each.type in self.types):
                continue
            if each.owner(name) is None and set(scope) <= set(place.around):
                scopes[len(scope)].append(each)
        return self._declared_in(place, scopes[max(scopes)], _LOCAL) if scopes else ()

    def _own(self, place: _Place, name: str) -> Sequence[DeclaredType]:
        """Of a member of the class around a use, which may be in several files of a directory."""
        classes = {outer for symbol in place.around for outer in _classes(symbol)}
        declared = self.declared.get((place.file.blob_id, name), ())
        inside = [each for each in declared if each.owner(name) in classes]
        if types := self._declared_in(place, inside, _OWN):
            return types
        directory = directory_of(place.file)
        parts = [
            member
            for member in self.members.get((place.file.snapshot_id, _bare(name)), ())
            if member.container in classes and directory_of(member.file) == directory
        ]
        return self._shared(parts, name, _OWN)

    def _declared_in(
        self, place: _Place, declared: Iterable[_Declaration], confidence: float
    ) -> Sequence[DeclaredType]:
        """The types that some declarations in the file of a use give to a name."""
        types: dict[str, float] = {}
        for each in declared:
            if not each.is_made:
                types[each.type] = confidence
            elif each.type in self.types:
                types.setdefault(each.type, _MADE)
            else:
                function = f"{each.type}()"
                for result in self._local(place, function) or self._own(place, function):
                    types.setdefault(result.name, min(result.confidence, _MADE))
        return [DeclaredType(place.file, name, sure / len(types)) for name, sure in types.items()]

    def _only(
        self, place: _Place, members: Iterable[Definition], name: str
    ) -> Sequence[DeclaredType]:
        """Of the members of a name that are not declared to be of a type without the member."""
        family = language_of(place.file.language).family
        may_be = [
            member
            for member in members
            if language_of(member.file.language).family == family
            and not (set(self._types_of(member, name)) or place.holders).isdisjoint(place.holders)
        ]
        return self._shared(may_be, name, _ONLY)

    def _shared(
        self, members: Sequence[Definition], name: str, confidence: float
    ) -> Sequence[DeclaredType]:
        """The types of some members, each as likely as the others."""
        total: dict[tuple[str, str], DeclaredType] = {}
        for member in members:
            for type_ in self._types_of(member, name):
                # Within a directory a name most likely means the same type.
                key = type_, directory_of(member.file)
                former = total.get(key, DeclaredType(member.file, type_, 0.0))
                more = former.confidence + confidence / different(members)
                total[key] = former._replace(confidence=min(more, confidence))
        return list(total.values())

    def _types_of(self, member: Definition, name: str) -> Iterable[str]:
        declared = self.declared.get((member.file.blob_id, name), ())
        return dict.fromkeys(
            each.type
            for each in declared
            if member.start_line <= each.line <= member.end_line
            and (not each.is_made or each.type in self.types)
        )


def _bare(name: str) -> str:
    return name.removesuffix("()").strip(".$=")


def _classes(symbol: Symbol) -> Iterator[str]:
    """The qualified names of a definition and of what holds it."""
    qualified = symbol.qualified
    while qualified:
        yield qualified
        qualified = qualified.rpartition(".")[0]


def _is_object(receiver: str) -> bool:
    return bool(receiver) and receiver != _UNNAMED and receiver not in SELF | SUPER


async def declared_types(
    tx: Transaction,
    uses: Iterable[Use],
    definitions: Iterable[Definition],
    snapshot_ids: Sequence[int],
) -> DeclaredTypes:
    """The declared types of the receivers of some uses, where a class has a member of the name."""
    holders: defaultdict[str, set[str]] = defaultdict(set)
    for definition in definitions:
        if definition.holder and is_member(definition):
            holders[definition.name].add(definition.holder)
    reading = [
        use
        for use in uses
        if use.kind in _READS and use.name in holders and _is_object(use.receiver)
    ]
    counts = Counter(use.name for use in reading)
    reading = [use for use in reading if counts[use.name] <= _MAX_USES]
    if not reading:
        return DeclaredTypes()
    receivers = {_bare(use.receiver) for use in reading}
    members = await _members(tx, receivers, snapshot_ids)
    named = [member for same in members.values() for member in same]
    types = set().union(*(holders[use.name] for use in reading))
    types |= {member.holder for member in named}
    blobs = {use.file.blob_id for use in reading} | {member.file.blob_id for member in named}
    rows = await tx.fetch_all(
        SQL["declared"], blobs=array_literal(blobs), types=list(types), receivers=list(receivers)
    )
    reads, declared = await aside(len(rows), _read, rows, receivers)
    # Of what is declared to have another type, only this is asked.
    near = [each for each in declared if each[1] in types or each[3].endswith("=")]
    lines = {(blob_id, line) for blob_id, _, line, _ in near}
    names = {"*", *(type_ for _, type_, _, _ in near)}
    surroundings, around, _ = await load_surroundings(tx, lines, names, ())
    by_name: defaultdict[tuple[int, str], list[_Declaration]] = defaultdict(list)
    for blob_id, type_, line, name in declared:
        inside = around.get((blob_id, line), ())
        by_name[blob_id, name.lstrip(".").rstrip("=")].append(
            _Declaration(type_, line, inside, name.startswith("."), name.endswith("="))
        )
    return DeclaredTypes(types, holders, members, reads, by_name, surroundings)


async def _members(
    tx: Transaction, names: set[str], snapshot_ids: Sequence[int]
) -> Mapping[tuple[int, str], Sequence[Definition]]:
    """The definitions of some names that may be receivers, without those of common names."""
    common = await common_names(tx, names, _MAX_SAME)
    named = await load_definitions(tx, names - common, snapshot_ids, without=PROSE_KINDS)
    return grouped(
        ((definition.file.snapshot_id, definition.name), definition)
        for definition in named
        if definition.name in names and is_member(definition)
    )


def _read(
    rows: Iterable[Row], receivers: set[str]
) -> tuple[Mapping[tuple[int, int, str], set[str]], list[tuple[int, str, int, str]]]:
    """What stands before receivers, and what is declared: text, type, line and name."""
    rows = list(rows)
    reads: defaultdict[tuple[int, int, str], set[str]] = defaultdict(set)
    names = set(receivers)
    for blob_id, name, ways in rows:
        if name in receivers:
            for use in unpack(name, ways, _READS):
                if use.receiver:
                    reads[blob_id, use.line, name].add(use.receiver)
                    names.add(_bare(use.receiver))
    declared = [
        (blob_id, type_, line, name)
        for blob_id, type_, ways in rows
        if type_ not in _OPEN_TYPES
        for line, name in declarations(ways)
    ]
    names |= {type_ for _, type_, _, name in declared if name.endswith("=")}
    return reads, [each for each in declared if _bare(each[3]) in names]
