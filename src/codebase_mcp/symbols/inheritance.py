"""Which classes inherit from this one, or implement it, and which methods override this one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.model import ReferenceKind
from codebase_mcp.symbols.candidates import LEAST
from codebase_mcp.symbols.definition import TYPE_KINDS, Definition
from codebase_mcp.symbols.lookup import definition_of
from codebase_mcp.symbols.references import uses_of
from codebase_mcp.symbols.resolve import SCOPE
from codebase_mcp.symbols.storage import load_definitions

# Classes of a level whose own subclasses are looked for.
_MAX_FOLLOWED = 100


@dataclass(frozen=True, slots=True)
class Implementation:
    """A class that inherits, or a method that overrides; ``of`` is the name of the class above it.

    ``definition`` is None where no definition is around the place, as in Rust's ``impl``.
    """

    definition: Definition | None
    path: str
    line: int
    of: str
    level: int
    confidence: float
    reason: str


async def implementations_of(
    tx: Transaction, targets: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> tuple[list[Implementation], int]:
    """The classes below some classes, or the methods there that override some methods.

    And how many more may inherit from those classes.
    """
    types = [one for one in targets if one.kind in TYPE_KINDS]
    found, unresolved = await _subclasses(tx, types, snapshot_ids, depth)
    members = [one for one in targets if one.kind not in TYPE_KINDS and one.container]
    if not members:
        return found, unresolved
    holders = await load_definitions(tx, {one.holder for one in members}, snapshot_ids)
    holding = [
        one
        for one in holders
        if one.kind in TYPE_KINDS
        and any(m.container == one.qualified and m.blob_id == one.blob_id for m in members)
    ]
    below, more = await _subclasses(tx, holding, snapshot_ids, depth)
    same = await load_definitions(tx, {one.name for one in members}, snapshot_ids)
    for subclass in below:
        own = subclass.definition
        if own is not None:
            found += [
                Implementation(
                    *(one, one.path, one.start_line, subclass.of, subclass.level),
                    *(subclass.confidence, f"{own.name} inherits: {subclass.reason}"),
                )
                for one in same
                if one.container == own.qualified and one.blob_id == own.blob_id
                and one.snapshot_id == own.snapshot_id and one.path == own.path
                and any(one.name == member.name for member in members)
            ]  # fmt: skip
    return found, unresolved + more


async def _subclasses(
    tx: Transaction, types: Sequence[Definition], snapshot_ids: Sequence[int], depth: int
) -> tuple[list[Implementation], int]:
    found: list[Implementation] = []
    unresolved = 0
    level = list(types)
    seen = {one.key for one in types}
    sure = {one.key: 1.0 for one in types}
    for step in range(1, depth + 1):
        if not level:
            break
        inherits = await uses_of(tx, level, snapshot_ids, {ReferenceKind.INHERIT})
        if step == 1:
            unresolved = inherits.unresolved
        level = []
        for one in (one for uses in inherits.of.values() for one in uses):
            use = one.resolved.use
            assert one.definition is not None
            confidence = round(min(one.confidence, SCOPE) * sure[one.definition.key], 2)
            if confidence < LEAST:
                continue
            around = [s for s in one.resolved.around if s.kind in TYPE_KINDS]
            own = definition_of(use, around[-1]) if around else None
            if own is not None and own.key in seen:
                continue
            if own is not None:
                seen.add(own.key)
                sure[own.key] = confidence
                level.append(own)
            found.append(
                Implementation(
                    own, use.path, use.line, one.definition.name, step, confidence, one.reason
                )
            )
        level = level[:_MAX_FOLLOWED]
    found.sort(key=lambda one: (one.level, -one.confidence, one.path, one.line))
    return found, unresolved
