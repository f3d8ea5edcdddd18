"""Which steps lead from a definition to others, and which lead to it?

A step is a call, an override, which a call of the base's method may run, a name that is handed on
(a callback), an entry of a table, or a decorator, which hands its function to what it belongs to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.candidates import SURE
from codebase_mcp.symbols.definition import (
    CALLABLE_KINDS,
    CALLS,
    PROSE_KINDS,
    Definition,
    DefinitionKey,
    File,
    ResolvedUse,
    Use,
)
from codebase_mcp.symbols.hierarchy import LEAST
from codebase_mcp.symbols.lookup import resolve_loaded, resolve_uses
from codebase_mcp.symbols.storage import (
    common_names,
    load_definitions,
    load_lines,
    load_names,
    load_outlines,
    references_of,
)
from codebase_mcp.values import grouped

StepKind = Literal["call", "override", "callback", "table", "decorator"]

# Beyond the first step, names with more uses or definitions are left out: nearly all of
# their uses mean another definition, and the rows of all names together are limited.
_MAX_USES = 200
_MAX_SAME = 100
# Of a use that may mean more definitions, these are followed.
_MAX_MEANINGS = 5
# How sure it is that a definition that was handed to a method is called by another of its class.
_BY_MEMBER = 0.3

_WAYS = CALLS | {ReferenceKind.USE}
_VALUES = frozenset({"constant", "variable", "field"})
NODE_KINDS = CALLABLE_KINDS | _VALUES
_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "constructor", "initialize"})

# More than the depth of any definition.
DEEPEST = 100
# A decorated definition has its name within this number of lines.
_HEAD_LINES = 12
_DECORATOR = re.compile(r"\s*@\w")
_DECORATORS = {"rust": re.compile(r"\s*#\["), "csharp": re.compile(r"\s*\[\w")}
_PROPERTY = re.compile(r"property\b")
_GETTER = re.compile(r"\s*(?:(?:public|private|protected|static|override)\s+)*get\s+\w")


@dataclass(frozen=True, slots=True)
class Step:
    """A step from a definition to the next; ``line`` is in ``file``."""

    source: Definition
    target: Definition
    file: File
    line: int
    kind: StepKind
    confidence: float
    reason: str


def is_constructor(name: str, holder: str) -> bool:
    return bool(holder) and (name in _CONSTRUCTORS or name == holder)


class CodeLine(NamedTuple):
    """A line of a file, with its text."""

    file: File
    number: int
    text: str


_Registration = tuple[File, int, Definition, StepKind]
"""A line of a file that hands a definition on, or decorates it."""


@dataclass(slots=True)
class StepGraph:
    """The steps that were found so far; they are looked for when asked."""

    tx: Transaction
    snapshot_ids: Sequence[int]
    is_node: Callable[[Definition], bool]
    nodes: dict[DefinitionKey, Definition] = field(default_factory=dict)
    down: defaultdict[DefinitionKey, dict[DefinitionKey, Step]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    up: defaultdict[DefinitionKey, dict[DefinitionKey, Step]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    left_out: set[DefinitionKey] = field(default_factory=set)
    looked_down: set[DefinitionKey] = field(default_factory=set)
    looked_up: set[DefinitionKey] = field(default_factory=set)
    _lines: dict[int, Sequence[str]] = field(default_factory=dict)
    _registered: dict[DefinitionKey, tuple[File, int]] = field(default_factory=dict)

    async def look_down(self, level: Iterable[Definition]) -> None:
        """Find the steps from some definitions."""
        new = {d.key: d for d in level if d.key not in self.looked_down}
        self.looked_down |= new.keys()
        references = await references_of(self.tx, {d.file.blob_id for d in new.values()})
        uses = {
            Use(definition.file, *reference)
            for definition in new.values()
            for reference in references.get(definition.file.blob_id, ())
            if reference.kind in _WAYS
            and definition.start_line <= reference.line <= definition.end_line
        }
        common = await common_names(self.tx, {use.name for use in uses}, _MAX_SAME)
        uses = {use for use in uses if use.name not in common}
        resolved = await resolve_uses(self.tx, sorted(uses, key=_order), self.snapshot_ids)
        await self._load_heads(resolved)
        for match in resolved:
            holder = _holder(match)
            if holder is not None and holder.key in new and not self._decorates(match.use, holder):
                self._add(holder, match, None)

    async def look_up(self, level: Iterable[Definition], *, is_first: bool) -> None:
        """Find the steps to some definitions."""
        new = {d.key: d for d in level if d.key not in self.looked_up}
        self.looked_up |= new.keys()
        names = {definition.name for definition in new.values()}
        common = set() if is_first else await common_names(self.tx, names, _MAX_SAME)
        definitions, uses = await load_names(
            self.tx, names - common, self.snapshot_ids, without=PROSE_KINDS
        )
        if not is_first:
            counts = Counter(use.name for use in uses if use.kind in _WAYS)
            common |= {name for name, number in counts.items() if number > _MAX_USES}
            self.left_out |= {key for key, definition in new.items() if definition.name in common}
            uses = [use for use in uses if use.name not in common]
        resolved = await resolve_loaded(self.tx, definitions, uses, self.snapshot_ids, _WAYS)
        await self._load_heads(resolved)
        await self._load({definition.file.blob_id for definition in new.values()})
        for match in resolved:
            holder = _holder(match)
            if holder is not None and not self._decorates(match.use, holder):
                self._add(holder, match, new.keys())
        for file, line, definition, _ in self._handed_on(resolved, new):
            self._registered.setdefault(definition.key, (file, line))
        await self._add_overridden(new)
        await self._add_registrations([*self._handed_on(resolved, new), *self._decorated(new)])

    async def _add_overridden(self, level: Mapping[DefinitionKey, Definition]) -> None:
        """Find the methods that some methods override."""
        methods = [d for d in level.values() if d.kind == "method" and d.container]
        blobs = {method.file.blob_id for method in methods}
        outlines = await load_outlines(self.tx, blobs, deepest=DEEPEST)
        references = await references_of(self.tx, blobs)
        at_line: defaultdict[tuple[File, int], list[Definition]] = defaultdict(list)
        uses: set[Use] = set()
        for method in methods:
            file = method.file
            for holder in outlines.get(file.blob_id, ()):
                if holder.qualified != method.container:
                    continue
                for reference in references.get(file.blob_id, ()):
                    is_inside = holder.start_line <= reference.line <= holder.end_line
                    if is_inside and reference.kind is ReferenceKind.INHERIT:
                        uses.add(Use(file, *reference))
                        at_line[file, reference.line].append(method)
        resolved = await resolve_uses(self.tx, sorted(uses, key=_order), self.snapshot_ids)
        bases = [(match.use, meant) for match in resolved for meant in match.candidates]
        inherited = await load_outlines(
            self.tx, {meant.definition.file.blob_id for _, meant in bases}, deepest=DEEPEST
        )
        for use, meant in bases:
            base = meant.definition
            for symbol in inherited.get(base.file.blob_id, ()):
                for method in at_line[use.file, use.line]:
                    if symbol.qualified == f"{base.qualified}.{method.name}":
                        source = Definition.of(base.file, symbol)
                        reason = f"{method.holder} inherits: {meant.reason}"
                        self._store(
                            Step(
                                source, method, use.file, use.line, "override",
                                meant.confidence, reason,
                            )
                        )  # fmt: skip

    def _handed_on(
        self, uses: Iterable[ResolvedUse], level: Mapping[DefinitionKey, Definition]
    ) -> Iterator[_Registration]:
        """The lines that hand some definitions on."""
        for match in uses:
            best = match.candidates[0] if match.candidates else None
            if match.use.kind is not ReferenceKind.USE or best is None or best.confidence < SURE:
                continue
            definition = level.get(best.definition.key)
            if definition is None or match.use.file.is_test > definition.file.is_test:
                continue
            if definition.kind in CALLABLE_KINDS:
                yield match.use.file, match.use.line, definition, "callback"

    def _decorated(self, level: Mapping[DefinitionKey, Definition]) -> Iterator[_Registration]:
        """The lines that decorate some definitions; their texts are loaded."""
        for definition in level.values():
            for line in self._decorator_lines(definition):
                yield definition.file, line, definition, "decorator"

    async def _add_registrations(self, registrations: Sequence[_Registration]) -> None:
        """Add the steps from what is called on some lines, which gets a definition there.

        The other members of its class may call that definition too.
        """
        at_line = grouped((registration[:2], registration) for registration in registrations)
        references = await references_of(self.tx, {file.blob_id for file, _ in at_line})
        uses = {
            Use(file, *reference)
            for (file, line), registered in at_line.items()
            for reference in references.get(file.blob_id, ())
            if reference.line == line and reference.kind in _WAYS
            and (reference.kind in CALLS or registered[0][3] == "decorator")
        }  # fmt: skip
        resolved = await resolve_uses(self.tx, sorted(uses, key=_order), self.snapshot_ids)
        calls = [
            (match.use, meant.definition, meant.confidence)
            for match in resolved
            for meant in match.candidates[:_MAX_MEANINGS]
            if meant.confidence >= LEAST and meant.definition.kind in CALLABLE_KINDS
        ]
        calls += await self._of_objects(resolved)
        members = await self._members(callee for _, callee, _ in calls)
        for use, callee, confidence in calls:
            name = f"{use.receiver}.{use.name}" if use.receiver else use.name
            for file, line, definition, kind in at_line[use.file, use.line]:
                reason = f"@{name}" if kind == "decorator" else name
                self._store(Step(callee, definition, file, line, kind, confidence, reason))
                for member in members.get((callee.file, callee.container), ()):
                    step = Step(member, definition, file, line, kind, _BY_MEMBER, reason)
                    if member.key != callee.key:
                        self._store(step)

    async def _of_objects(self, uses: Iterable[ResolvedUse]) -> list[tuple[Use, Definition, float]]:
        """The methods of objects that are imported from where they are made: ``app = App()``."""
        open_uses = [match.use for match in uses if not match.candidates and match.use.receiver]
        objects = await resolve_uses(
            self.tx,
            [
                Use(use.file, use.line, use.receiver, ReferenceKind.USE, "", "", "")
                for use in open_uses
            ],
            self.snapshot_ids,
        )
        values = [
            (use, candidate.definition)
            for use, match in zip(open_uses, objects, strict=True)
            for candidate in match.candidates[:_MAX_MEANINGS]
            if candidate.confidence >= SURE and candidate.definition.kind in _VALUES
        ]
        await self._load({value.file.blob_id for _, value in values})
        methods = await load_definitions(
            self.tx, {use.name for use, _ in values}, self.snapshot_ids, without=PROSE_KINDS
        )
        return [
            (use, method, SURE)
            for use, value in values
            for method in methods
            if method.name == use.name
            and method.kind == "method"
            and re.search(rf"\b{re.escape(method.holder)}\(", self._text_of(value))
        ]

    def _text_of(self, definition: Definition) -> str:
        lines = self._lines.get(definition.file.blob_id, ())
        return "".join(lines[definition.start_line - 1 : definition.end_line])

    async def _members(
        self, callees: Iterable[Definition]
    ) -> Mapping[tuple[File, str], Sequence[Definition]]:
        """The methods of the classes of some methods."""
        classes = {(c.file, c.container) for c in callees if c.container and c.kind == "method"}
        outlines = await load_outlines(
            self.tx, {file.blob_id for file, _ in classes}, deepest=DEEPEST
        )
        return grouped(
            ((file, container), Definition.of(file, symbol))
            for file, container in classes
            for symbol in outlines.get(file.blob_id, ())
            if symbol.qualified == f"{container}.{symbol.name}" and symbol.kind == "method"
        )

    async def registration_of(self, definition: Definition) -> CodeLine | None:
        """The line that decorates a definition, or hands it on."""
        at = self._registered.get(definition.key)
        if decorators := self._decorator_lines(definition):
            at = definition.file, decorators[0]
        if at is None:
            return None
        file, line = at
        await self._load({file.blob_id})
        return CodeLine(file, line, self._lines[file.blob_id][line - 1].strip())

    def _add(
        self, holder: Definition, match: ResolvedUse, only: Collection[DefinitionKey] | None
    ) -> None:
        """Add the steps that a use stands for, to some definitions or to all."""
        use = match.use
        for meant in match.candidates[:_MAX_MEANINGS]:
            if meant.confidence < LEAST or (only is not None and meant.definition.key not in only):
                continue
            kind: StepKind = "call"
            if use.kind is ReferenceKind.USE and not self._is_property(meant.definition):
                is_value = not {holder.kind, meant.definition.kind}.isdisjoint(_VALUES)
                kind = "table" if is_value else "callback"
                if meant.confidence < SURE:  # a local variable or field has the name
                    continue
            step = Step(
                holder, meant.definition, use.file, use.line, kind, meant.confidence, meant.reason
            )
            self._store(step)

    def _store(self, step: Step) -> None:
        source, target = step.source, step.target
        if source.key == target.key or not (self.is_node(source) and self.is_node(target)):
            return
        self.nodes[source.key], self.nodes[target.key] = source, target
        former = self.down[source.key].get(target.key)
        if former is None or _preference(step) < _preference(former):
            self.down[source.key][target.key] = self.up[target.key][source.key] = step

    async def _load_heads(self, uses: Iterable[ResolvedUse]) -> None:
        """Load the texts of the definitions whose decorators may be among some uses."""
        blobs: set[int] = set()
        for match in uses:
            holder = _holder(match)
            if holder is not None and match.use.line < holder.start_line + _HEAD_LINES:
                blobs.add(holder.file.blob_id)
            if match.use.kind is ReferenceKind.USE:
                meant = (candidate.definition for candidate in match.candidates[:_MAX_MEANINGS])
                blobs |= {method.file.blob_id for method in meant if method.kind == "method"}
        await self._load(blobs)

    async def _load(self, blob_ids: Collection[int]) -> None:
        self._lines.update(await load_lines(self.tx, set(blob_ids) - self._lines.keys()))

    def _decorates(self, use: Use, holder: Definition) -> bool:
        return use.line in self._decorator_lines(holder)

    def _is_property(self, method: Definition) -> bool:
        """Whether to read it is to call it."""
        first, lines = method.start_line, self._lines.get(method.file.blob_id, ())
        return any(
            _PROPERTY.search(lines[number - 1]) for number in self._decorator_lines(method)
        ) or bool(lines and _GETTER.match(lines[first - 1]))

    def _decorator_lines(self, definition: Definition) -> range:
        """The lines of the decorators of a definition: before it, or its first ones."""
        lines = self._lines.get(definition.file.blob_id, ())
        first = definition.start_line
        if len(lines) < first:
            return range(0)
        mark = _DECORATORS.get(definition.file.language, _DECORATOR)
        if mark.match(lines[first - 1]):
            name = re.compile(rf"(?<![\w$]){re.escape(definition.name)}(?![\w$])")
            inside = range(first, min(first + _HEAD_LINES, definition.end_line + 1))
            for number in inside:
                if name.search(lines[number - 1]) and not mark.match(lines[number - 1]):
                    return range(first, number)
            return range(0)
        indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
        top = first
        for number in range(first - 1, max(first - _HEAD_LINES, 0), -1):
            line = lines[number - 1]
            has_indent = len(line) - len(line.lstrip()) == indent
            if has_indent and mark.match(line):
                top = number
            elif not line.strip() or (has_indent and line.lstrip()[0] not in ")]}"):
                break
        return range(top, first)


def _order(use: Use) -> tuple[object, ...]:
    return use.file, use.line, use.name


def _preference(step: Step) -> tuple[object, ...]:
    """Calls before other steps, the surest first."""
    return step.kind != "call", -step.confidence, step.line


def _holder(match: ResolvedUse) -> Definition | None:
    """The definition that a use belongs to: the innermost; of a constructor its class."""
    around = [symbol for symbol in match.around if symbol.kind in NODE_KINDS]
    if not around:
        return None
    if len(around) > 1 and is_constructor(around[-1].name, around[-2].name):
        around.pop()
    return Definition.of(match.use.file, around[-1])
