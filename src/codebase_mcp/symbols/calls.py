"""Who calls this, and what does it call? As a tree, down to three levels.

A definition is expanded once; where it comes again, the tree ends there. Only what is fairly sure
is followed further, and only the first definitions of a level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import Reference
from codebase_mcp.symbols.aside import aside
from codebase_mcp.symbols.definition import CALLABLE_KINDS, CALLS, Definition, DefinitionKey
from codebase_mcp.symbols.lookup import definition_of, file_of, resolve_uses
from codebase_mcp.symbols.references import FoundUse, uses_of
from codebase_mcp.symbols.storage import common_names, references_of

# What is followed to the next level: how sure, and how many definitions.
FOLLOWED = 0.4
# A call that is less sure is no part of the tree.
LEAST = 0.25
_MAX_FOLLOWED = 20
# A name that is called more often, or that more definitions have, is not followed further up:
# nearly all calls are of others.
_MAX_USES = 100
_MAX_SAME = 30


@dataclass(slots=True)
class Call:
    """A node of the tree: a caller, or what is called, and the lines of the calls.

    ``definition`` is None for calls outside of any definition. ``is_again`` says that the
    definition is expanded elsewhere in the tree.
    """

    definition: Definition | None
    path: str
    lines: list[int]
    confidence: float
    reason: str
    is_again: bool = False
    calls: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CallTree:
    """The calls of some definitions.

    ``unresolved`` counts on the first level: what else may call them, or the names that they call
    and that are not defined here.
    """

    definitions: tuple[Definition, ...]
    calls: Mapping[DefinitionKey, list[Call]]
    unresolved: int = 0
    not_followed: int = 0


async def callers_of(
    tx: Transaction, targets: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> CallTree:
    """Who calls some definitions, and who calls those."""
    tree: dict[DefinitionKey, list[Call]] = {one.key: [] for one in targets}
    parents = tree
    seen = set(tree)
    level = list(targets)
    unresolved = not_followed = 0
    for step in range(depth):
        most_uses = _MAX_USES if step else None
        found = await uses_of(tx, level, snapshot_ids, CALLS, least=LEAST, most_uses=most_uses)
        if step == 0:
            unresolved = found.unresolved
        nodes = []
        callers = await aside(sum(map(len, found.of.values())), _callers_of_each, found.of)
        for key, calls in callers.items():
            parents[key] += calls
            nodes += parents[key]
        level, not_followed = _next_level(nodes, seen, not_followed, is_last=step == depth - 1)
        common = await common_names(tx, {one.name for one in level}, _MAX_SAME)
        not_followed += sum(one.name in common for one in level)
        level = [one for one in level if one.name not in common]
        parents = _expanded(nodes, level)
        if not level:
            break
    return CallTree(tuple(targets), tree, unresolved, not_followed)


def _expanded(
    nodes: Sequence[Call], level: Sequence[Definition]
) -> dict[DefinitionKey, list[Call]]:
    """Where the calls of the next level go."""
    keys = {one.key for one in level}
    return {
        one.definition.key: one.calls
        for one in nodes
        if one.definition is not None and one.definition.key in keys and not one.is_again
    }


def _next_level(
    nodes: Sequence[Call], seen: set[DefinitionKey], not_followed: int, *, is_last: bool
) -> tuple[list[Definition], int]:
    """The definitions to go on with, each once; marks those that come again."""
    level: list[Definition] = []
    for one in sorted(nodes, key=lambda one: -one.confidence):
        if one.definition is None or one.definition.kind not in CALLABLE_KINDS:
            continue
        if one.definition.key in seen:
            one.is_again = True
        elif one.confidence >= FOLLOWED and not is_last:
            if len(level) < _MAX_FOLLOWED:
                seen.add(one.definition.key)
                level.append(one.definition)
            else:
                not_followed += 1
    return level, not_followed


def _callers_of_each(
    found: Mapping[DefinitionKey, Sequence[FoundUse]],
) -> dict[DefinitionKey, list[Call]]:
    return {key: _callers(calls) for key, calls in found.items()}


def _callers(calls: Sequence[FoundUse]) -> list[Call]:
    """The definitions that some calls are in, code before tests, the surest first."""
    found: dict[tuple[object, ...], Call] = {}
    tests: set[int] = set()
    for one in calls:
        use = one.resolved.use
        around = [s for s in one.resolved.around if s.kind in CALLABLE_KINDS]
        within = around[-1] if around else None
        key = use.snapshot_id, use.path, within and (within.start_line, within.qualified)
        if key not in found:
            caller = definition_of(use, within) if within else None
            found[key] = Call(caller, use.path, [], one.confidence, one.reason)
            if one.is_test:
                tests.add(id(found[key]))
        call = found[key]
        if use.line not in call.lines:
            call.lines.append(use.line)
        if one.confidence > call.confidence:
            call.confidence, call.reason = one.confidence, one.reason
    for call in found.values():
        call.lines.sort()
    return sorted(
        found.values(),
        key=lambda one: (id(one) in tests, -one.confidence, one.path, one.lines),
    )


async def callees_of(
    tx: Transaction, targets: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> CallTree:
    """What some definitions call, and what that calls."""
    tree: dict[DefinitionKey, list[Call]] = {one.key: [] for one in targets}
    parents = tree
    seen = set(tree)
    level = list(targets)
    unresolved = not_followed = 0
    for step in range(depth):
        calls = await _calls_in(tx, level)
        resolved = await resolve_uses(
            tx, [(file_of(caller), one) for caller, one in calls], snapshot_ids
        )
        nodes: list[Call] = []
        missing = set()
        found: dict[DefinitionKey, dict[DefinitionKey, Call]] = {one.key: {} for one in level}
        for (caller, call), one in zip(calls, resolved, strict=True):
            if not one.candidates or one.candidates[0].confidence < LEAST:
                missing.add(call.name)
                continue
            _add_callee(found[caller.key], FoundUse(
                one, one.candidates[0].definition,
                one.candidates[0].confidence, one.candidates[0].reason,
            ))  # fmt: skip
        if step == 0:
            unresolved = len(missing)
        for key, callees in found.items():
            parents[key] += callees.values()
            nodes += callees.values()
        level, not_followed = _next_level(nodes, seen, not_followed, is_last=step == depth - 1)
        parents = _expanded(nodes, level)
        if not level:
            break
    return CallTree(tuple(targets), tree, unresolved, not_followed)


def _add_callee(callees: dict[DefinitionKey, Call], one: FoundUse) -> None:
    assert one.definition is not None
    key = one.definition.key
    if key not in callees:
        callees[key] = Call(one.definition, one.definition.path, [], one.confidence, one.reason)
    if one.line not in callees[key].lines:
        callees[key].lines.append(one.line)


async def _calls_in(
    tx: Transaction, definitions: Sequence[Definition]
) -> list[tuple[Definition, Reference]]:
    """The calls in the lines of some definitions, in their order."""
    references = await references_of(tx, {one.blob_id for one in definitions})
    return [
        (definition, one)
        for definition in definitions
        for one in references.get(definition.blob_id, ())
        if one.kind in CALLS and definition.start_line <= one.line <= definition.end_line
    ]
