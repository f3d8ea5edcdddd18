"""Who calls this, and what does it call? As a tree, down to three levels.

A definition is expanded once; where it appears again, the tree ends. Only calls that are fairly
sure are followed further, and only the first definitions of a level.
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

# The least confidence of a call that is followed to the next level, and the most definitions.
FOLLOWED = 0.4
# A call that is less sure is no part of the tree.
LEAST = 0.25
_MAX_FOLLOWED = 20
# A name that is called more often, or that more definitions have, is not followed further up:
# nearly all its calls mean another definition.
_MAX_USES = 100
_MAX_SAME = 30


@dataclass(slots=True)
class Call:
    """A node of the tree: a caller or callee, and the lines of the calls.

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
    """The callers of some definitions, and their callers, down to ``depth``."""
    tree: dict[DefinitionKey, list[Call]] = {target.key: [] for target in targets}
    parents = tree
    seen = set(tree)
    level = list(targets)
    unresolved = not_followed = 0
    for step in range(depth):
        most_uses = _MAX_USES if step else None
        uses = await uses_of(tx, level, snapshot_ids, CALLS, least=LEAST, most_uses=most_uses)
        if step == 0:
            unresolved = uses.unresolved
        nodes = []
        callers = await aside(sum(map(len, uses.of.values())), _callers_of_each, uses.of)
        for key, calls in callers.items():
            parents[key] += calls
            nodes += parents[key]
        level, not_followed = _next_level(nodes, seen, not_followed, is_last=step == depth - 1)
        common = await common_names(tx, {caller.name for caller in level}, _MAX_SAME)
        not_followed += sum(caller.name in common for caller in level)
        level = [definition for definition in level if definition.name not in common]
        parents = _expanded(nodes, level)
        if not level:
            break
    return CallTree(tuple(targets), tree, unresolved, not_followed)


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
    """The definitions that some calls are in, code before tests, the surest first."""
    by_caller: dict[tuple[object, ...], Call] = {}
    tests: set[int] = set()
    for node in calls:
        use = node.resolved.use
        around = [s for s in node.resolved.around if s.kind in CALLABLE_KINDS]
        within = around[-1] if around else None
        key = use.snapshot_id, use.path, within and (within.start_line, within.qualified)
        if key not in by_caller:
            caller = definition_of(use, within) if within else None
            by_caller[key] = Call(caller, use.path, [], node.confidence, node.reason)
            if node.is_test:
                tests.add(id(by_caller[key]))
        call = by_caller[key]
        if use.line not in call.lines:
            call.lines.append(use.line)
        if node.confidence > call.confidence:
            call.confidence, call.reason = node.confidence, node.reason
    for call in by_caller.values():
        call.lines.sort()
    return sorted(
        by_caller.values(),
        key=lambda call: (id(call) in tests, -call.confidence, call.path, call.lines),
    )


async def callees_of(
    tx: Transaction, targets: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> CallTree:
    """The definitions that some definitions call, and their callees, down to ``depth``."""
    tree: dict[DefinitionKey, list[Call]] = {target.key: [] for target in targets}
    parents = tree
    seen = set(tree)
    level = list(targets)
    unresolved = not_followed = 0
    for step in range(depth):
        calls = await _calls_in(tx, level)
        resolved = await resolve_uses(
            tx, [(file_of(caller), call) for caller, call in calls], snapshot_ids
        )
        nodes: list[Call] = []
        missing = set()
        callees_by_caller: dict[DefinitionKey, dict[DefinitionKey, Call]] = {
            definition.key: {} for definition in level
        }
        for (caller, call), resolved_use in zip(calls, resolved, strict=True):
            if not resolved_use.candidates or resolved_use.candidates[0].confidence < LEAST:
                missing.add(call.name)
                continue
            _add_callee(callees_by_caller[caller.key], FoundUse(
                resolved_use, resolved_use.candidates[0].definition,
                resolved_use.candidates[0].confidence, resolved_use.candidates[0].reason,
            ))  # fmt: skip
        if step == 0:
            unresolved = len(missing)
        for key, callees in callees_by_caller.items():
            parents[key] += callees.values()
            nodes += callees.values()
        level, not_followed = _next_level(nodes, seen, not_followed, is_last=step == depth - 1)
        parents = _expanded(nodes, level)
        if not level:
            break
    return CallTree(tuple(targets), tree, unresolved, not_followed)


def _add_callee(callees: dict[DefinitionKey, Call], found_use: FoundUse) -> None:
    assert found_use.definition is not None
    key = found_use.definition.key
    if key not in callees:
        callees[key] = Call(
            found_use.definition,
            found_use.definition.path,
            [],
            found_use.confidence,
            found_use.reason,
        )
    if found_use.line not in callees[key].lines:
        callees[key].lines.append(found_use.line)


async def _calls_in(
    tx: Transaction, definitions: Sequence[Definition]
) -> list[tuple[Definition, Reference]]:
    """The calls in the lines of some definitions, in their order."""
    references = await references_of(tx, {definition.blob_id for definition in definitions})
    return [
        (definition, reference)
        for definition in definitions
        for reference in references.get(definition.blob_id, ())
        if reference.kind in CALLS
        and definition.start_line <= reference.line <= definition.end_line
    ]
