"""Who calls this, what does it call, and which classes inherit from it? Down to three levels.

A definition is expanded once; where it appears again, the tree ends. Only calls that are fairly
sure are followed further, and only the first definitions of a level.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.candidates import LEAST as LEAST_SHOWN
from codebase_mcp.symbols.candidates import SCOPE
from codebase_mcp.symbols.definition import (
    CALLABLE_KINDS,
    CALLS,
    TYPE_KINDS,
    Definition,
    DefinitionKey,
    File,
    FoundUse,
    Use,
)
from codebase_mcp.symbols.lookup import resolve_uses
from codebase_mcp.symbols.references import uses_of
from codebase_mcp.symbols.storage import aside, common_names, load_definitions, references_of

# The least confidence of a call that is followed to the next level, and the most definitions.
FOLLOWED = 0.4
# A call that is less sure is no part of the tree.
LEAST = 0.25
_MAX_FOLLOWED = 20
# A name that is called more often, or that more definitions have, is not followed further up:
# nearly all its calls mean another definition.
_MAX_USES = 100
_MAX_SAME = 30
# Classes of a level whose own subclasses are looked for.
_MAX_CLASSES = 100


@dataclass(slots=True)
class Call:
    """A node of the tree: a caller or callee, and the lines of the calls.

    ``definition`` is None for calls outside of any definition. ``is_again`` says that the
    definition is expanded elsewhere in the tree.
    """

    definition: Definition | None
    file: File
    lines: list[int]
    confidence: float
    reason: str
    is_again: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.file.path


@dataclass(frozen=True, slots=True)
class CallTree:
    """The calls of some definitions.

    ``unresolved`` counts on the first level: what else may call them, or the names that they call
    and that are not defined here. ``elsewhere`` counts calls from or of files that are not asked
    about.
    """

    definitions: tuple[Definition, ...]
    calls: Mapping[DefinitionKey, list[Call]]
    unresolved: int = 0
    not_followed: int = 0
    elsewhere: int = 0


async def call_tree(
    tx: Transaction,
    targets: Sequence[Definition],
    snapshot_ids: Sequence[int],
    depth: int,
    *,
    is_up: bool,
    is_asked: Callable[[File], bool] = lambda _: True,
) -> CallTree:
    """The callers of some definitions if ``is_up``, else their callees; down to ``depth``.

    Only calls in files that are asked about are listed and followed.
    """
    tree: dict[DefinitionKey, list[Call]] = {target.key: [] for target in targets}
    parents = tree
    seen = set(tree)
    level = list(targets)
    unresolved = not_followed = elsewhere = 0
    for step in range(depth):
        if is_up:
            uses = await uses_of(
                tx, level, snapshot_ids, CALLS,
                least=LEAST, most_uses=_MAX_USES if step else None, is_asked=is_asked,
            )  # fmt: skip
            unresolved_here = uses.unresolved
            elsewhere += uses.elsewhere
            calls = await aside(sum(map(len, uses.of.values())), _callers_of_each, uses.of)
        else:
            calls, unresolved_here = await _callees(tx, level, snapshot_ids)
        if step == 0:
            unresolved = unresolved_here
        for key, calls_of_key in calls.items():
            asked = [call for call in calls_of_key if is_asked(call.file)]
            elsewhere += len(calls_of_key) - len(asked)
            calls[key] = asked
            parents[key] += asked
        nodes = list(chain.from_iterable(calls.values()))
        level, not_followed = _next_level(nodes, seen, not_followed, is_last=step == depth - 1)
        if is_up:
            common = await common_names(tx, {caller.name for caller in level}, _MAX_SAME)
            not_followed += sum(caller.name in common for caller in level)
            level = [definition for definition in level if definition.name not in common]
        parents = _expanded(nodes, level)
        if not level:
            break
    return CallTree(tuple(targets), tree, unresolved, not_followed, elsewhere)


def _expanded(
    nodes: Sequence[Call], level: Sequence[Definition]
) -> dict[DefinitionKey, list[Call]]:
    """Where the calls of the next level go."""
    keys = {definition.key for definition in level}
    return {
        node.definition.key: node.calls
        for node in nodes
        if node.definition is not None and node.definition.key in keys and not node.is_again
    }


def _next_level(
    nodes: Sequence[Call], seen: set[DefinitionKey], not_followed: int, *, is_last: bool
) -> tuple[list[Definition], int]:
    """The definitions to go on with, each once; marks those that come again."""
    level: list[Definition] = []
    for node in sorted(nodes, key=lambda node: -node.confidence):
        if node.definition is None or node.definition.kind not in CALLABLE_KINDS:
            continue
        if node.definition.key in seen:
            node.is_again = True
        elif node.confidence >= FOLLOWED and not is_last:
            if len(level) < _MAX_FOLLOWED:
                seen.add(node.definition.key)
                level.append(node.definition)
            else:
                not_followed += 1
    return level, not_followed


def _callers_of_each(
    uses: Mapping[DefinitionKey, Sequence[FoundUse]],
) -> dict[DefinitionKey, list[Call]]:
    return {key: _callers(calls) for key, calls in uses.items()}


def _callers(calls: Sequence[FoundUse]) -> list[Call]:
    """The definitions that some calls are in, the product first, there the surest."""
    by_caller: dict[tuple[File, tuple[int, str] | None], Call] = {}
    for match in calls:
        use = match.use
        around = [symbol for symbol in match.around if symbol.kind in CALLABLE_KINDS]
        within = around[-1] if around else None
        key = use.file, (within.start_line, within.qualified) if within else None
        if key not in by_caller:
            caller = Definition.of(use.file, within) if within else None
            by_caller[key] = Call(caller, use.file, [], match.confidence, match.reason)
        call = by_caller[key]
        if use.line not in call.lines:
            call.lines.append(use.line)
        if match.confidence > call.confidence:
            call.confidence, call.reason = match.confidence, match.reason
    for call in by_caller.values():
        call.lines.sort()
    ordered = sorted(
        (file.rank, -call.confidence, call.path, call.lines, number)
        for number, ((file, _), call) in enumerate(by_caller.items())
    )
    every = list(by_caller.values())
    return [every[number] for *_, number in ordered]


async def _callees(
    tx: Transaction, callers: Sequence[Definition], snapshot_ids: Sequence[int]
) -> tuple[dict[DefinitionKey, list[Call]], int]:
    """The definitions that some definitions call, and the number of names not found."""
    references = await references_of(tx, {caller.file.blob_id for caller in callers})
    calls = [
        (caller, Use(caller.file, *reference))
        for caller in callers
        for reference in references.get(caller.file.blob_id, ())
        if reference.kind in CALLS and caller.start_line <= reference.line <= caller.end_line
    ]
    resolved = await resolve_uses(tx, [use for _, use in calls], snapshot_ids)
    missing = set()
    callees: dict[DefinitionKey, dict[DefinitionKey, Call]] = {c.key: {} for c in callers}
    for (caller, use), meaning in zip(calls, resolved, strict=True):
        best = meaning.candidates[0] if meaning.candidates else None
        if best is None or best.confidence < LEAST:
            missing.add(use.name)
            continue
        callee = best.definition
        call = callees[caller.key].setdefault(
            callee.key, Call(callee, callee.file, [], best.confidence, best.reason)
        )
        if use.line not in call.lines:
            call.lines.append(use.line)
    return {key: list(calls_of_key.values()) for key, calls_of_key in callees.items()}, len(missing)


@dataclass(frozen=True, slots=True)
class Implementation:
    """A class that inherits, or a method that overrides; ``of`` is the name of the class above it.

    ``definition`` is None where no definition is around the place, as in Rust's ``impl``.
    """

    definition: Definition | None
    file: File
    line: int
    of: str
    level: int
    confidence: float
    reason: str

    @property
    def path(self) -> str:
        return self.file.path


async def implementations_of(
    tx: Transaction, targets: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> tuple[list[Implementation], int]:
    """The classes below some classes, or the methods there that override some methods.

    And how many more may inherit from those classes.
    """
    types = [target for target in targets if target.kind in TYPE_KINDS]
    implementations, unresolved = await _subclasses(tx, types, snapshot_ids, depth)
    members = [target for target in targets if target.kind not in TYPE_KINDS and target.container]
    if not members:
        return implementations, unresolved
    holders = await load_definitions(tx, {member.holder for member in members}, snapshot_ids)
    holding = [
        holder
        for holder in holders
        if holder.kind in TYPE_KINDS
        and any(
            m.container == holder.qualified and m.file.blob_id == holder.file.blob_id
            for m in members
        )
    ]
    below, more = await _subclasses(tx, holding, snapshot_ids, depth)
    same = await load_definitions(tx, {member.name for member in members}, snapshot_ids)
    for subclass in below:
        own = subclass.definition
        if own is not None:
            implementations += [
                Implementation(
                    definition,
                    definition.file,
                    definition.start_line,
                    subclass.of,
                    subclass.level,
                    subclass.confidence,
                    f"{own.name} inherits: {subclass.reason}",
                )
                for definition in same
                if definition.container == own.qualified and definition.file == own.file
                and any(definition.name == member.name for member in members)
            ]  # fmt: skip
    return implementations, unresolved + more


async def _subclasses(
    tx: Transaction, types: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> tuple[list[Implementation], int]:
    implementations: list[Implementation] = []
    unresolved = 0
    level = list(types)
    seen = {type_.key for type_ in types}
    sure = {type_.key: 1.0 for type_ in types}
    for step in range(1, depth + 1):
        if not level:
            break
        inherits = await uses_of(tx, level, snapshot_ids, {ReferenceKind.INHERIT})
        if step == 1:
            unresolved = inherits.unresolved
        level = []
        for match in chain.from_iterable(inherits.of.values()):
            use = match.use
            assert match.definition is not None
            confidence = round(min(match.confidence, SCOPE) * sure[match.definition.key], 2)
            if confidence < LEAST_SHOWN:
                continue
            around = [s for s in match.around if s.kind in TYPE_KINDS]
            own = Definition.of(use.file, around[-1]) if around else None
            if own is not None and own.key in seen:
                continue
            if own is not None:
                seen.add(own.key)
                sure[own.key] = confidence
                level.append(own)
            implementations.append(
                Implementation(
                    own,
                    use.file,
                    use.line,
                    match.definition.name,
                    step,
                    confidence,
                    match.reason,
                )
            )
        level = level[:_MAX_CLASSES]
    implementations.sort(
        key=lambda implementation: (
            implementation.level,
            -implementation.confidence,
            implementation.path,
            implementation.line,
        )
    )
    return implementations, unresolved
