"""Anchors of records: the code that a record is about, and whether it has changed.

Anchors are set here, by the places that a client names; `following` keeps them true afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import InvalidInput
from codebase_mcp.records.anchoring import MAX_ANCHORS, AnchorSpot, AnchorState, CodeReference
from codebase_mcp.records.places import Choice, Several, resolve

__all__ = [
    "MAX_ANCHORS",
    "Anchor",
    "AnchorState",
    "CodeReference",
    "RecordKind",
    "anchors_of",
    "set_anchors",
]

_SQL = load_queries("codebase_mcp.records", "anchors.sql")

RecordKind = Literal["task", "observation", "entity", "work_item"]

# How many candidates for an ambiguous name are listed.
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place that a record is about, as it is now. Lines are 1-based and inclusive.

    ``reason`` says why it needs review; ``moved_from`` is the file in which it was before.
    """

    repository_id: UUID | None
    file: str | None
    symbol: str | None
    commit: str | None
    start_line: int | None
    end_line: int | None
    state: AnchorState
    reason: str | None
    moved_from: str | None


async def set_anchors(
    tx: Transaction, kind: RecordKind, record_id: UUID, places: Sequence[CodeReference]
) -> None:
    """Set the anchors of a record to these places, as they are now.

    A place that is not in the index is kept as it was named, until a run brings it in.

    Raises:
        InvalidInput: a name could mean several places, or an absolute path is in no repository.
    """
    if not places:
        await tx.execute(_SQL["delete_anchors"], record_id=record_id)
        return
    _, _, rows = await tx.fetch_many(
        [
            (_SQL["share_anchors"], {}),
            (_SQL["lock_record"], {"record_id": record_id}),
            (_SQL["repositories"], {}),
        ]
    )
    roots: dict[UUID, str] = dict(rows)
    relative = [_relative(n, place, roots) for n, place in enumerate(places)]
    found = await resolve(tx, relative)
    spots = [
        _unique(n, place, spot, roots)
        for n, (place, spot) in enumerate(zip(places, found, strict=True))
    ]
    await tx.fetch_many(
        [
            (_SQL["delete_anchors"], {"record_id": record_id}),
            (_SQL["insert_anchors"], _columns(kind, record_id, places, spots)),
        ]
    )


async def anchors_of(
    tx: Transaction, record_ids: Sequence[UUID]
) -> defaultdict[UUID, tuple[Anchor, ...]]:
    """The anchors of some records, in the order in which they were given; () for one without."""
    found: defaultdict[UUID, tuple[Anchor, ...]] = defaultdict(tuple)
    if record_ids:
        for record_id, *row in await tx.fetch_all(_SQL["anchors_of"], ids=list(record_ids)):
            found[record_id] += (Anchor(*row),)
    return found


def _relative(position: int, place: CodeReference, roots: Mapping[UUID, str]) -> CodeReference:
    """An absolute path as one relative to the innermost indexed repository around it."""
    if place.file is None or not place.file.startswith("/"):
        return place
    around = [
        (len(root), repository_id)
        for repository_id, root in roots.items()
        if place.file.startswith(root.rstrip("/") + "/")
        and place.repository_id in (None, repository_id)
    ]
    if not around:
        raise InvalidInput.of(
            f"anchors.{position}.file",
            place.file,
            f"File is in no indexed repository: {place.file}",
            rule="relative to the repository's root",
            hint="Pass the path relative to the repository's root, or index the repository first.",
        )
    _, repository_id = max(around)
    path = place.file[len(roots[repository_id].rstrip("/")) + 1 :]
    return replace(place, file=path, repository_id=repository_id)


def _unique(
    position: int, place: CodeReference, found: AnchorSpot | Several, roots: Mapping[UUID, str]
) -> AnchorSpot:
    if isinstance(found, AnchorSpot):
        return found
    listed = found.choices[:_LISTED]
    more = ", and more" if len(found.choices) > _LISTED else ""
    if found.field == "repository_id":
        name = place.file or place.symbol
        message = f"{name} is in several repositories"
        rule = "repository_id of one of them"
        named = [f"{choice.repository_id} ({roots.get(choice.repository_id)})" for choice in listed]
    else:
        message = f"{place.symbol} is defined in several places"
        rule = "a name that means one definition"
        named = [f"{choice.symbol} in {choice.file}:{choice.line}" for choice in listed]
    hint = f"Name one of: {', '.join(named)}{more}."
    value = place.symbol if found.field == "symbol" else None
    error = InvalidInput.of(
        f"anchors.{position}.{found.field}", value, message, rule=rule, hint=hint
    )
    error.details["places"] = [_as_details(choice) for choice in listed]
    raise error


def _as_details(choice: Choice) -> dict[str, object]:
    details = {
        "repository_id": str(choice.repository_id),
        "file": choice.file,
        "symbol": choice.symbol,
        "start_line": choice.line,
    }
    return {name: value for name, value in details.items() if value is not None}


def _columns(
    kind: RecordKind, record_id: UUID, places: Sequence[CodeReference], spots: Sequence[AnchorSpot]
) -> dict[str, object]:
    return {
        "kind": kind,
        "record_id": record_id,
        "ids": [uuid4() for _ in spots],
        "commits": [place.commit for place in places],
        "repositories": [spot.repository_id for spot in spots],
        "files": [spot.file for spot in spots],
        "symbols": [spot.symbol for spot in spots],
        "starts": [spot.start_line for spot in spots],
        "ends": [spot.end_line for spot in spots],
        "hashes": [spot.hash for spot in spots],
        "blobs": [spot.blob_id for spot in spots],
        "missing": [spot.is_missing for spot in spots],
        "states": [spot.state for spot in spots],
        "reasons": [spot.reason for spot in spots],
    }
