"""Entity types and their schemas.

All versions of a schema are kept. An entity matches its ``schema_version``: the version that was
current when the entity was stored, or that it was validated against later.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.errors import Conflict, InvalidInput, NotFound
from codebase_mcp.records.page import Cursor, Paging
from codebase_mcp.records.schemas.compatibility import Change, changes_between
from codebase_mcp.records.schemas.documents import (
    Schema,
    accept_schema,
    and_more,
    as_details,
    require_size,
    stored_schema,
)

_SQL = load_queries("codebase_mcp.records", "entity_types.sql")

MAX_DATA_BYTES = 256 * 1024
MAX_DATA_DEPTH = 64

# How many type names, and how many invalid entities, an error lists.
_NAMES_SHOWN = 20
_MISFITS_SHOWN = 10
_BREAKING_SHOWN = 20

_CHECKED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class EntityType:
    """A kind of entity with its current schema; ``schema_text`` is as the client sent it."""

    id: UUID
    name: str
    description: str | None
    version: int
    schema_text: str
    created_at: datetime
    updated_at: datetime

    @property
    def document(self) -> dict[str, Any]:
        """The schema as JSON values."""
        document: dict[str, Any] = json.loads(self.schema_text)
        return document

    @property
    def schema(self) -> Schema:
        """The compiled schema, for validation."""
        return stored_schema(self.schema_text)


@dataclass(frozen=True, slots=True)
class SchemaUpdate:
    """The result of a schema update, and how many entities were validated, if any."""

    type: EntityType
    previous_version: int
    changes: list[Change]
    checked: int | None


def folded(type_name: str) -> str:
    """The key of a type: its name, ignoring case."""
    return type_name.casefold()


def schema_problems(schema: Mapping[str, Any], data: Any) -> list[str]:
    """Why imported data is not valid for an entity of this schema; empty if it is valid."""
    try:
        accepted = stored_schema(json.dumps(schema))
        require_data_size(data)
    except InvalidInput as error:
        return [error.message]
    return [str(problem) for problem in accepted.problems(data)]


async def register_entity_type(
    tx: Transaction, name: str, schema: Mapping[str, Any], description: str | None = None
) -> EntityType:
    """Create an entity type.

    Raises:
        InvalidInput: the schema is invalid.
        Conflict: there is a type of this name, ignoring case.
    """
    await asyncio.to_thread(accept_schema, schema)
    identity, text = uuid4(), json.dumps(schema, ensure_ascii=False)
    params = {
        "folded": folded(name),
        "id": identity,
        "name": name,
        "description": description,
        "schema": text,
    }
    rows, _ = await tx.fetch_many(
        [(_SQL["register_type"], params), (_SQL["first_version"], params)]
    )
    if not rows:
        existing = await tx.fetch_one(_SQL["type"], **params)
        taken = existing[1] if existing else name
        raise Conflict(
            f"Entity type already exists: {taken}",
            hint="Change its schema with update_entity_type_schema, or choose another name.",
            details={"type_name": taken},
        )
    return EntityType(identity, name, description, 1, text, rows[0][0], rows[0][0])


async def update_entity_type_schema(
    tx: Transaction,
    type_name: str,
    schema: Mapping[str, Any],
    *,
    validate_existing: bool = False,
    allow_breaking: bool = False,
) -> SchemaUpdate:
    """Change the schema of a type; the same schema makes no new version.

    Raises:
        NotFound: there is no such type.
        InvalidInput: the schema is invalid, is not backward compatible and must be, or does not
            match an existing entity and must match all.
    """
    new = await asyncio.to_thread(accept_schema, schema, "new_schema")
    kind = await find_type(tx, type_name, "lock_type")
    changes = await asyncio.to_thread(lambda: changes_between(kind.schema, new))
    if not allow_breaking:
        _require_compatible(kind, changes)
    checked = await _check_existing(tx, kind, new) if validate_existing else None
    updated = kind
    if changes:
        text, version = json.dumps(schema, ensure_ascii=False), kind.version + 1
        params = {"type_id": kind.id, "version": version, "schema": text}
        _, [[at]] = await tx.fetch_many(
            [(_SQL["add_version"], params), (_SQL["use_version"], params)]
        )
        updated = replace(kind, version=version, schema_text=text, updated_at=at)
    if validate_existing:
        await tx.execute(_SQL["checked"], type_id=kind.id, version=updated.version)
    return SchemaUpdate(updated, kind.version, changes, checked)


async def find_type(
    tx: Transaction, name: str, hold: Literal["share_type", "lock_type"] | None = None
) -> EntityType:
    """A type by its name; with ``hold`` it is locked until the transaction ends.

    Raises:
        NotFound: there is no such type; the error names existing types.
    """
    params = {"folded": folded(name)}
    holds: list[Statement] = [(_SQL[hold], params)] if hold else []
    *_, rows = await tx.fetch_many([*holds, (_SQL["type"], params)])
    if not rows:
        raise await _type_not_found(tx, name)
    return EntityType(*rows[0])


async def share_type_of(tx: Transaction, entity_id: UUID) -> EntityType | None:
    """The type of an entity, locked against changes until the transaction ends."""
    params = {"id": entity_id}
    _, rows = await tx.fetch_many([(_SQL["share_type_of"], params), (_SQL["type_of"], params)])
    return EntityType(*rows[0]) if rows else None


def require_data_size(data: Any) -> None:
    """Refuse data that is too long, or nested too deeply."""
    require_size("data", "Entity data", data, MAX_DATA_BYTES, MAX_DATA_DEPTH)


async def require_fit(kind: EntityType, data: Mapping[str, Any]) -> None:
    """Validate data against its schema, in a thread, as it may take a second.

    Raises:
        InvalidInput: the data does not match; lists the problems.
    """
    problems = await asyncio.to_thread(lambda: kind.schema.problems(data))
    if not problems:
        return
    raise InvalidInput.of(
        "data",
        None,
        f"Entity data does not match the schema of {kind.name} (version {kind.version}): "
        f"{problems[0]}{and_more(problems)}",
        rule=f"schema of {kind.name}, version {kind.version}",
        hint="Correct the data; if the schema is wrong, change it with update_entity_type_schema.",
        problems=as_details(problems),
        schema=kind.document,  # errors drop details that are too long
    )


async def _type_not_found(tx: Transaction, type_name: str) -> NotFound:
    rows = await tx.fetch_all(_SQL["type_names"], limit=_NAMES_SHOWN + 1)
    names = ", ".join(row[0] for row in rows[:_NAMES_SHOWN])
    more = ", and more" if len(rows) > _NAMES_SHOWN else ""
    return NotFound(
        "Entity type not found",
        hint=f"Types of this project: {names}{more}."
        if names
        else "This project has no types yet: register_entity_type makes one.",
        details={"entity_type": type_name},
    )


def _require_compatible(kind: EntityType, changes: Sequence[Change]) -> None:
    breaking = [change for change in changes if change.breaking]
    if not breaking:
        return
    first = breaking[0]
    rest = f" (and {len(breaking) - 1} more)" if len(breaking) > 1 else ""
    raise InvalidInput.of(
        "new_schema",
        None,
        f"New schema of {kind.name} is not backward compatible: {first.path or 'the root'}: "
        f"{first.change}{rest}",
        rule="data that matches the current schema matches the new one",
        hint="Make only compatible changes (optional fields, wider types and limits), or pass "
        "allow_breaking=true; add validate_existing=true to require that all entities match.",
        breaking_changes=[
            {"path": change.path, "change": change.change} for change in breaking[:_BREAKING_SHOWN]
        ],
    )


async def _check_existing(tx: Transaction, kind: EntityType, schema: Schema) -> int:
    """Validate all entities of a type against a schema; returns their number."""
    checked, misfits = 0, 0
    shown: list[dict[str, str]] = []
    after = Paging(_CHECKED_AT_ONCE)
    while rows := await tx.fetch_all(_SQL["live"], **after.parameters(), type_id=kind.id):
        invalid = await asyncio.to_thread(_misfits, schema, rows)
        checked += len(rows)
        misfits += len(invalid)
        shown += invalid[: _MISFITS_SHOWN - len(shown)]
        after = Paging(_CHECKED_AT_ONCE, cursor=Cursor(rows[-1][1], rows[-1][0]))
    if misfits:
        raise InvalidInput.of(
            "new_schema",
            None,
            f"{misfits} of {checked} entities of type {kind.name} do not match the new schema",
            rule="all entities that are not deleted match the new schema",
            hint="Correct these entities with update_entity, change the schema, or leave out "
            "validate_existing: the entities then keep their schema version.",
            entities_checked=checked,
            entities_not_fitting=misfits,
            entities=shown,
        )
    return checked


def _misfits(schema: Schema, rows: Sequence[Row]) -> list[dict[str, str]]:
    """The entities that do not match a schema, in the form of error details."""
    return [
        {"id": str(identity), "name": name, "problem": f"{problems[0]}{and_more(problems)}"}
        for identity, _, name, text in rows
        if (problems := schema.problems(json.loads(text)))
    ]
