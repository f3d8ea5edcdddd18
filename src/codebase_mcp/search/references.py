"""Where is a name used, and what does a text use?

As the index stores it, without a judgement: which definition is meant is for the caller to decide.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.model import Reference, ReferenceKind, Symbol
from codebase_mcp.text.references import unpack

_SQL = load_queries("codebase_mcp.search", "references.sql")


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a name in a file of a snapshot; see `model.Reference`."""

    snapshot_id: int
    path: str
    blob_id: int
    language: str
    file_kind: str
    line: int
    kind: ReferenceKind
    receiver: str
    module: str
    alias: str


async def find_uses(tx: Transaction, name: str, snapshot_ids: Sequence[int]) -> list[Use]:
    """The uses of a name in the files of some snapshots, by snapshot, path and line."""
    found = await tx.fetch_all(_SQL["uses"], name=name, snapshots=list(snapshot_ids))
    return [
        Use(
            snapshot_id=snapshot_id,
            path=path,
            blob_id=blob_id,
            language=language,
            file_kind=file_kind,
            line=use.line,
            kind=use.kind,
            receiver=use.receiver,
            module=use.module,
            alias=use.alias,
        )
        for snapshot_id, path, blob_id, language, file_kind, uses in found
        for use in sorted(unpack(name, uses))
    ]


async def references_of(
    tx: Transaction, blob_ids: Collection[int]
) -> dict[int, tuple[Reference, ...]]:
    """What some texts use, by line; those that use nothing are left out."""
    found: dict[int, list[Reference]] = {}
    for blob_id, name, uses in await tx.fetch_all(_SQL["used_in"], blobs=list(blob_ids)):
        found.setdefault(blob_id, []).extend(unpack(name, uses))
    return {blob_id: tuple(sorted(uses)) for blob_id, uses in found.items()}


async def enclosing_definitions(
    tx: Transaction, places: Collection[tuple[int, int]]
) -> dict[tuple[int, int], Symbol]:
    """The innermost definition around each (text, line); those outside of any are left out."""
    found = await tx.fetch_all(
        _SQL["enclosing"],
        blobs=[blob_id for blob_id, _ in places],
        lines=[line for _, line in places],
    )
    return {(blob_id, line): Symbol(*symbol) for blob_id, line, *symbol in found}
