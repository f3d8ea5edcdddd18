"""Entities: records of user-defined types.

Storing an entity takes a shared lock on its type, changing the schema an exclusive lock: so every
entity is validated against the schema that is current at that moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.errors import Conflict, InvalidInput, NotFound
from codebase_mcp.records.anchoring import Anchor, CodeReference
from codebase_mcp.records.anchors import anchors_from, set_anchors
from codebase_mcp.records.entity_types import (
    MAX_DATA_DEPTH,
    find_type,
    folded,
    require_data_size,
    require_fit,
    share_type_of,
)
from codebase_mcp.records.page import Cursor, Page, Paging
from codebase_mcp.records.schemas.documents import require_size

_SQL = load_queries("codebase_mcp.records", "entities.sql")

MAX_FILTER_BYTES = 16 * 1024
MAX_FILTER_ITEMS = 100
"""Of all lists together: PostgreSQL compares each with each item of the data, uninterruptibly."""


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity. ``schema_version`` is the version that its data was last validated with."""

    id: UUID
    entity_type: str
    name: str
    data: dict[str, Any]
    tags: tuple[str, ...]
    version: int
    schema_version: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    anchors: tuple[Anchor, ...] = ()

    @classmethod
    def from_row(cls, row: Row) -> Entity:
        """From a row whose last column are the anchors."""
        identity, entity_type, name, text, tags, *rest, anchors = row
        values = json.loads(text), tuple(tags), *rest, anchors_from(anchors)
        return cls(identity, entity_type, name, *values)


async def create_entity(
    tx: Transaction,
    entity_type: str,
    name: str,
    data: Mapping[str, Any],
    *,
    tags: Sequence[str] = (),
    anchors: Sequence[CodeReference] = (),
) -> Entity:
    """Store a new entity.

    Raises:
        NotFound: there is no such type.
        InvalidInput: the data does not match its schema, or an anchor cannot be resolved.
        Conflict: an entity of this type has the name.
    """
    require_data_size(data)
    kind = await find_type(tx, entity_type, "share_type")
    await require_fit(kind, data)
    params = {
        "id": uuid4(),
        "type_id": kind.id,
        "name": name,
        "data": json.dumps(data, ensure_ascii=False),
        "tags": list(tags),
        "schema_version": kind.version,
    }
    entity = await _written(tx, "create_entity", params, anchors or None)
    if entity is None:
        row = await tx.fetch_one(_SQL["entity_named"], type_id=kind.id, name=name)
        raise Conflict(
            f"Entity already exists: {name}",
            hint="Change it with update_entity, or choose another name.",
            details={
                "entity_type": kind.name,
                "name": name,
                "entity_id": str(row[0]) if row else None,
            },
        )
    return entity


async def query_entities(
    tx: Transaction,
    entity_type: str,
    paging: Paging,
    *,
    filter: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    include_deleted: bool = False,
) -> Page[Entity]:
    """A page of the entities of a type that contain the filter and have all the tags.

    The newest change comes first.

    Raises:
        NotFound: there is no such type.
        InvalidInput: the filter is too large.
    """
    limit = MAX_FILTER_BYTES
    require_size("filter", "Filter", filter, limit, MAX_DATA_DEPTH, max_items=MAX_FILTER_ITEMS)
    params = {
        **paging.parameters(),
        "folded": folded(entity_type),
        "include_deleted": include_deleted,
        "filter": json.dumps(filter, ensure_ascii=False) if filter else None,
        "tags": list(tags) if tags else None,
    }
    if filter or tags:
        _, counted = await tx.fetch_many(
            [(_SQL["plan_for_values"], {}), (_SQL["matching"], params)]
        )
        total, rows = counted[0][0], [row[1:] for row in counted if row[1] is not None]
    else:
        rows, [[total]] = await tx.fetch_many([(_SQL["newest"], params), (_SQL["count"], params)])
    if not total:
        await find_type(tx, entity_type)
    entities = [Entity.from_row(row) for row in rows]
    return paging.page(entities, total, lambda entity: Cursor(entity.updated_at, entity.id))


async def update_entity(
    tx: Transaction,
    entity_id: UUID,
    data: Mapping[str, Any],
    version: int,
    *,
    tags: Sequence[str] | None = None,
    anchors: Sequence[CodeReference] | None = None,
) -> Entity:
    """Replace an entity's data, and its tags and anchors if given.

    Raises:
        NotFound: the entity does not exist or is deleted.
        Conflict: it has another version.
        InvalidInput: the data does not match the schema, or an anchor cannot be resolved.
    """
    require_data_size(data)
    kind = await share_type_of(tx, entity_id)
    await _require_version(tx, entity_id, version)
    assert kind is not None
    await require_fit(kind, data)
    params = {
        "id": entity_id,
        "version": version,
        "data": json.dumps(data, ensure_ascii=False),
        "tags": None if tags is None else list(tags),
        "schema_version": kind.version,
    }
    entity = await _written(tx, "update_entity", params, anchors)
    if entity is None:  # another caller changed it first
        await _require_version(tx, entity_id, version)
    assert entity is not None
    return entity


async def delete_entity(tx: Transaction, entity_id: UUID, *, confirmed: bool) -> Entity:
    """Mark an entity as deleted; its name can be used again. Deleting it twice changes nothing.

    Raises:
        NotFound: there is no such entity.
        InvalidInput: the caller did not confirm it.
    """
    if confirmed:
        await tx.execute(_SQL["delete_entity"], id=entity_id)
    row = await tx.fetch_one(_SQL["entity"], id=entity_id)
    if row is None:
        raise _not_found(entity_id)
    entity = Entity.from_row(row)
    if not confirmed:
        raise InvalidInput.of(
            "confirmed",
            False,
            f"Deleting must be confirmed: the {entity.entity_type} {entity.name!r} "
            f"(version {entity.version}) would be deleted",
            rule="true",
            hint="Pass confirmed=true to delete it.",
        )
    return entity


async def _require_version(tx: Transaction, entity_id: UUID, expected: int) -> None:
    """Refuse a change of an entity that is missing or has changed since the caller read it."""
    row = await tx.fetch_one(_SQL["version_of"], id=entity_id)
    if row is None:
        raise _not_found(entity_id)
    [current] = row
    if current != expected:
        raise Conflict(
            f"The entity was changed meanwhile: version {expected} was expected, it is {current}",
            hint="Read it again with query_entities, make your change to what it holds now, and "
            "pass the version that you read.",
            details={
                "entity_id": str(entity_id),
                "expected_version": expected,
                "current_version": current,
            },
        )


async def _written(
    tx: Transaction,
    statement: Literal["create_entity", "update_entity"],
    params: Mapping[str, Any],
    anchors: Sequence[CodeReference] | None,
) -> Entity | None:
    """The entity that a statement writes, with its new anchors if given; None if it wrote none."""
    written, shown = await tx.fetch_many([(_SQL[statement], params), (_SQL["entity"], params)])
    if not written:
        return None
    entity = Entity.from_row(shown[0])
    if anchors is not None:
        entity = replace(entity, anchors=await set_anchors(tx, "entity", entity.id, anchors))
    return entity


def _not_found(entity_id: UUID) -> NotFound:
    return NotFound(
        "Entity not found",
        hint="Take the id from query_entities; a deleted entity cannot be changed, and an entity "
        "is known in its own project only.",
        details={"entity_id": str(entity_id)},
    )
