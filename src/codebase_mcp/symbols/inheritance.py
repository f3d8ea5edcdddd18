"""Which classes inherit from or implement a class, and which methods override a method?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

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
        and any(m.container == holder.qualified and m.blob_id == holder.blob_id for m in members)
    ]
    below, more = await _subclasses(tx, holding, snapshot_ids, depth)
    same = await load_definitions(tx, {member.name for member in members}, snapshot_ids)
    for subclass in below:
        own = subclass.definition
        if own is not None:
            implementations += [
                Implementation(
                    definition,
                    definition.path,
                    definition.start_line,
                    subclass.of,
                    subclass.level,
                    subclass.confidence,
                    f"{own.name} inherits: {subclass.reason}",
                )
                for definition in same
                if definition.container == own.qualified and definition.blob_id == own.blob_id
                and definition.snapshot_id == own.snapshot_id and definition.path == own.path
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
        for found_use in chain.from_iterable(inherits.of.values()):
            use = found_use.resolved.use
            assert found_use.definition is not None
            confidence = round(min(found_use.confidence, SCOPE) * sure[found_use.definition.key], 2)
            if confidence < LEAST:
                continue
            around = [s for s in found_use.resolved.around if s.kind in TYPE_KINDS]
            own = definition_of(use, around[-1]) if around else None
            if own is not None and own.key in seen:
                continue
            if own is not None:
                seen.add(own.key)
                sure[own.key] = confidence
                level.append(own)
            implementations.append(
                Implementation(
                    own,
                    use.path,
                    use.line,
                    found_use.definition.name,
                    step,
                    confidence,
                    found_use.reason,
                )
            )
        level = level[:_MAX_FOLLOWED]
    implementations.sort(
        key=lambda implementation: (
            implementation.level,
            -implementation.confidence,
            implementation.path,
            implementation.line,
        )
    )
    return implementations, unresolved
