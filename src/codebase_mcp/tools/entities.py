"""The toolset ``entities``: typed records with schemas of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field

from codebase_mcp.records.page import Paging
from codebase_mcp.tools import fields
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.reply import ReplyPart
from codebase_mcp.tools.rules import record_id, text
from codebase_mcp.tools.text import compact, joined, moment, page
from codebase_mcp.tools.toolset import READS, Caller, Hints, Toolset

TOOLSET = Toolset(
    "entities", "Records with a schema of the user's own: query_entities before create_entity."
)

MAX_TYPE_NAME_CHARS = 100
MAX_NAME_CHARS = 200

TypeName = Annotated[
    str, text(MAX_TYPE_NAME_CHARS), Field(description="Name of the type, in any case.")
]
EntityId = Annotated[UUID, record_id("Entity"), Field(description="Id of the entity (UUID).")]
Data = Annotated[dict[str, Any], Field(description="An object that fits the type's schema.")]


class RegisterEntityType(Arguments):
    type_name: TypeName
    schema_: Annotated[
        dict[str, Any],
        Field(
            alias="schema",
            description="JSON Schema of an object: Draft 7, or 2020-12 by $schema. format is not "
            "checked; patterns have no look-around.",
        ),
    ]
    description: Annotated[
        str | None, Field(max_length=2_000, description="What such entities are.")
    ] = None
    project_id: fields.ProjectId = None


class CreateEntity(Arguments):
    entity_type: TypeName
    name: Annotated[str, text(MAX_NAME_CHARS), Field(description="Unique in its type.")]
    data: Data
    tags: Annotated[fields.Tags, Field(description="Words to find it by.")] = None
    anchors: fields.Anchors = None
    project_id: fields.ProjectId = None


class QueryEntities(Arguments):
    entity_type: TypeName
    filter: Annotated[
        dict[str, Any] | None,
        Field(
            description='Only data that contains this: {"config": {"port": 80}}. At most 16 KiB '
            "and 100 list items."
        ),
    ] = None
    tags: Annotated[fields.Tags, Field(description="Only with all of these.")] = None
    include_deleted: Annotated[bool, Field(description="Deleted ones too.")] = False
    limit: Annotated[int, Field(ge=1, le=100, description="Entities at most.")] = 10
    offset: fields.Offset = 0
    cursor: fields.PageCursor = None
    project_id: fields.ProjectId = None


class UpdateEntity(Arguments):
    model_config = ConfigDict(json_schema_extra=fields.publish_no_defaults)

    entity_id: EntityId
    data: Annotated[dict[str, Any], Field(description="The new data, whole.")]
    version: Annotated[int, Field(ge=1, le=2**31 - 1, description="The version that you read.")]
    tags: Annotated[fields.Tags, Field(description="The new tags.")] = None
    anchors: fields.Anchors = None
    project_id: fields.ProjectId = None


class DeleteEntity(Arguments):
    entity_id: EntityId
    confirmed: Annotated[bool, Field(description="Must be true.")] = False
    project_id: fields.ProjectId = None


class UpdateEntityTypeSchema(Arguments):
    type_name: TypeName
    new_schema: Annotated[dict[str, Any], Field(description="The new JSON Schema, whole.")]
    validate_existing: Annotated[
        bool, Field(description="Refuse it if any entity does not fit.")
    ] = False
    allow_breaking: Annotated[bool, Field(description="Let it break what others rely on.")] = False
    project_id: fields.ProjectId = None


class EntityTypeReply(fields.RecordReply):
    model_config = ConfigDict(serialize_by_alias=True)

    type_id: UUID = Field(validation_alias="id")
    type_name: str = Field(validation_alias="name")
    schema_: dict[str, Any] = Field(
        default={}, validation_alias="document", serialization_alias="schema"
    )
    schema_version: int = Field(default=1, validation_alias="version")
    description: str | None = None
    created_at: datetime

    def text_lines(self) -> Iterator[str]:
        """The type's name: the rest is what the caller sent."""
        yield f"registered: {self.type_name}, schema version {self.schema_version}"


class EntityItem(ReplyPart):
    """An entity. ``schema_version`` is what its data was last held against."""

    id: UUID
    entity_type: str
    name: str
    data: dict[str, Any]
    tags: list[str]
    version: int = Field(description="Pass it to update_entity.")
    schema_version: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    anchors: list[fields.AnchorReply]

    def line(self) -> str:
        return joined(
            str(self.id),
            self.name,
            f"version {self.version}",
            f"tags: {', '.join(self.tags)}" if self.tags else None,
            f"deleted {moment(self.deleted_at)}" if self.deleted_at else None,
        )


class EntityReply(fields.RecordReply, EntityItem):
    def text_lines(self) -> Iterator[str]:
        """The entity as the caller has just made it: its data is known."""
        yield self.line()
        yield from fields.anchor_lines(self.anchors)


class EntitiesReply(fields.ProjectReply):
    entities: list[EntityItem] = Field(default=[], description="Newest change first.")
    total: int = Field(default=0, description="Matching entities in all, whatever the limit.")
    next_cursor: str | None = Field(default=None, description="For the next page; null: no more.")

    def text_lines(self) -> Iterator[str]:
        """Two lines an entity, the second its data."""
        yield page(len(self.entities), self.total, "entities", self.next_cursor)
        for entity in self.entities:
            yield entity.line()
            yield from fields.anchor_lines(entity.anchors)
            yield compact(entity.data)


class DeletionReply(fields.ProjectReply):
    entity_id: UUID
    deleted: bool = True
    deleted_at: datetime

    def text_lines(self) -> Iterator[str]:
        yield f"deleted: {self.entity_id}"


class ChangeReply(ReplyPart):
    path: str = Field(description="JSON pointer into the schema.")
    change: str
    breaking: bool


class SchemaReply(fields.ProjectReply):
    model_config = ConfigDict(serialize_by_alias=True)

    type_name: str = ""
    schema_version: int = Field(default=1, description="As before where nothing changed.")
    previous_version: int = 1
    changes: list[ChangeReply] = Field(default=[])
    entities_checked: int | None = Field(
        default=None, description="With validate_existing: how many fit, which is all."
    )

    def text_lines(self) -> Iterator[str]:
        yield f"{self.type_name}: schema version {self.previous_version} → {self.schema_version}"
        for change in self.changes:
            yield f"{change.path}: {change.change}" + (" (breaking)" if change.breaking else "")
        if self.entities_checked is not None:
            yield f"{self.entities_checked} entities checked, all fit"


@TOOLSET.tool("Make a type of entities")
async def register_entity_type(caller: Caller, arguments: RegisterEntityType) -> EntityTypeReply:
    """Make a type of records of your own, for things to look up by their fields: services, vendors,
    API contracts.

    Next: create_entity. CONFLICT: the name is taken; update_entity_type_schema changes a schema.
    """
    from codebase_mcp.records.entity_types import register_entity_type as register  # noqa: PLC0415

    async with caller.enter(arguments.project_id) as project:
        kind = await register(
            project.tx, arguments.type_name, arguments.schema_, arguments.description
        )
    return EntityTypeReply.of(project, kind)


@TOOLSET.tool("Create an entity")
async def create_entity(caller: Caller, arguments: CreateEntity) -> EntityReply:
    """Store a record of a registered type. CONFLICT: the name is taken within its type; see
    query_entities.
    """
    from codebase_mcp.records.entities import create_entity as create  # noqa: PLC0415

    async with caller.enter(arguments.project_id) as project:
        entity = await create(
            project.tx,
            arguments.entity_type,
            arguments.name,
            arguments.data,
            tags=arguments.tags or (),
            anchors=fields.places_of(arguments.anchors),
        )
    return EntityReply.of(project, entity)


@TOOLSET.tool("Find entities", READS)
async def query_entities(caller: Caller, arguments: QueryEntities) -> EntitiesReply:
    """Find records of a type by their data and tags, newest change first. Use it before
    create_entity, and to read the version for update_entity.
    """
    from codebase_mcp.records.entities import query_entities as query  # noqa: PLC0415

    paging = Paging.asked(arguments.limit, arguments.offset, arguments.cursor)
    async with caller.enter(arguments.project_id, readonly=True) as project:
        page = await query(
            project.tx,
            arguments.entity_type,
            paging,
            filter=arguments.filter,
            tags=arguments.tags,
            include_deleted=arguments.include_deleted,
        )
    return EntitiesReply.of(project, page, entities=page.items)


@TOOLSET.tool("Change an entity", Hints(destroys=True))
async def update_entity(caller: Caller, arguments: UpdateEntity) -> EntityReply:
    """Replace a record's data whole; tags and anchors stay unless given.

    CONFLICT: it was changed since you read it; read it again and try with the new version.
    """
    from codebase_mcp.records.entities import update_entity as update  # noqa: PLC0415

    given = arguments.model_fields_set
    tags = (arguments.tags or ()) if "tags" in given else None
    places = fields.places_of(arguments.anchors) if "anchors" in given else None
    async with caller.enter(arguments.project_id) as project:
        entity = await update(
            project.tx,
            arguments.entity_id,
            arguments.data,
            arguments.version,
            tags=tags,
            anchors=places,
        )
    return EntityReply.of(project, entity)


@TOOLSET.tool("Delete an entity", Hints(destroys=True, repeats=True))
async def delete_entity(caller: Caller, arguments: DeleteEntity) -> DeletionReply:
    """Delete a record; refused unless confirmed is true.

    It is no longer found, and its name is free again; include_deleted still shows it.
    """
    from codebase_mcp.records.entities import delete_entity as delete  # noqa: PLC0415

    async with caller.enter(arguments.project_id) as project:
        entity = await delete(project.tx, arguments.entity_id, confirmed=arguments.confirmed)
    return DeletionReply.of(project, entity, entity_id=entity.id, deleted=True)


@TOOLSET.tool("Change the schema of a type", Hints(destroys=True, repeats=True))
async def update_entity_type_schema(
    caller: Caller, arguments: UpdateEntityTypeSchema
) -> SchemaReply:
    """Give a type a new schema; versions are kept.

    Refused unless allow_breaking: required fields added, fields removed, types changed,
    enumerations shrunk.
    """
    from codebase_mcp.records.entity_types import (  # noqa: PLC0415
        update_entity_type_schema as update,
    )

    async with caller.enter(arguments.project_id) as project:
        done = await update(
            project.tx,
            arguments.type_name,
            arguments.new_schema,
            validate_existing=arguments.validate_existing,
            allow_breaking=arguments.allow_breaking,
        )
    names = {"type_name": done.type.name, "schema_version": done.type.version}
    reply = SchemaReply.of(project, done, **names)
    if done.checked is not None:
        reply.entities_checked = done.checked
    return reply
