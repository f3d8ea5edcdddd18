"""The file format of exported records: one JSON object per line, of one of these kinds.

The first line is the header. The order of the records is free, also if a record refers to another
(a work item to its parent, an entity to its type, an execution to its agent).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.records.anchoring import MAX_ANCHORS, AnchorState
from codebase_mcp.records.anchors import RecordKind
from codebase_mcp.records.vocabulary import (
    ObservationType,
    TaskStatus,
    WorkItemStatus,
    WorkItemType,
)
from codebase_mcp.secrets.values import mask_values
from codebase_mcp.values import require_storable

FORMAT = "codebase-mcp-records"
VERSION = 1

# The longest line that can hold a valid record, with room for escapes.
MAX_LINE_CHARS = 4 << 20

SessionName = Annotated[str, Field(min_length=1, max_length=200)]
Title = Annotated[str, Field(min_length=1, max_length=200)]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=20)]
Commit = Annotated[str, Field(pattern="^[a-f0-9]{40}$")]


class Line(BaseModel):
    """The base of all kinds: without unknown fields and type coercion."""

    model_config = ConfigDict(extra="forbid")

    def is_of(self, other: Line) -> bool:
        """Whether both are the same record with the same content."""
        return self == other


class HeaderLine(Line):
    kind: Literal["header"]
    format: Literal["codebase-mcp-records"]
    version: Literal[1]
    project_id: str | None = None
    exported_at: datetime | None = None


class SessionLine(Line):
    kind: Literal["session"]
    id: SessionName
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    directory: str | None = None
    start_branch: str | None = None
    start_commit: str | None = None
    end_branch: str | None = None
    end_commit: str | None = None


class AgentLine(Line):
    kind: Literal["agent"]
    id: UUID
    name: Annotated[str, Field(min_length=1, max_length=100)]
    created_at: AwareDatetime
    session_id: SessionName | None = None
    session_start: AwareDatetime | None = None
    last_active_at: AwareDatetime


class ExecutionLine(Line):
    kind: Literal["agent_execution"]
    id: UUID
    agent_id: UUID
    session_id: SessionName | None = None
    at: AwareDatetime
    tool_name: Annotated[str, Field(max_length=200)] | None = None
    success: bool | None = None
    duration_ms: Annotated[float, Field(ge=0)] | None = None
    summary: Annotated[str, Field(max_length=5_000)] | None = None
    error: Annotated[str, Field(max_length=5_000)] | None = None


class LinkPart(Line):
    kind: Literal["branch", "commit"]
    value: Annotated[str, Field(min_length=1, max_length=200)]
    linked_at: AwareDatetime


class EventPart(Line):
    at: AwareDatetime
    field: Literal["status", "branch", "commit", "text"]
    old: str | None = None
    new: str | None = None
    session_id: SessionName | None = None


class TaskLine(Line):
    kind: Literal["task"]
    id: UUID
    title: Title
    description: Annotated[str, Field(max_length=2_000)] | None = None
    notes: Annotated[str, Field(max_length=5_000)] | None = None
    status: TaskStatus
    planning_references: Annotated[
        list[Annotated[str, Field(max_length=500)]], Field(max_length=10)
    ] = []
    created_at: AwareDatetime
    updated_at: AwareDatetime
    links: list[LinkPart] = []
    events: list[EventPart] = []


class ObservationLine(Line):
    kind: Literal["observation"]
    id: UUID
    content: Annotated[str, Field(min_length=1, max_length=20_000)]
    type: ObservationType
    tags: Tags = []
    session_id: SessionName | None = None
    created_at: AwareDatetime
    stored_at: AwareDatetime
    times_stored: Annotated[int, Field(ge=1)] = 1


class VersionPart(Line):
    version: Annotated[int, Field(ge=1)]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    created_at: AwareDatetime


class EntityTypeLine(Line):
    kind: Literal["entity_type"]
    id: UUID
    name: Annotated[str, Field(min_length=1, max_length=100)]
    description: Annotated[str, Field(max_length=2_000)] | None = None
    version: Annotated[int, Field(ge=1)]
    created_at: AwareDatetime
    updated_at: AwareDatetime
    versions: Annotated[list[VersionPart], Field(min_length=1)]


class EntityLine(Line):
    kind: Literal["entity"]
    id: UUID
    type_id: UUID
    name: Annotated[str, Field(min_length=1, max_length=200)]
    data: dict[str, Any]
    tags: Tags = []
    version: Annotated[int, Field(ge=1)]
    schema_version: Annotated[int, Field(ge=1)]
    created_at: AwareDatetime
    updated_at: AwareDatetime
    deleted_at: AwareDatetime | None = None


class WorkItemLine(Line):
    kind: Literal["work_item"]
    id: UUID
    item_type: WorkItemType
    title: Title
    description: Annotated[str, Field(max_length=2_000)] | None = None
    status: WorkItemStatus
    parent_id: UUID | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    completed_at: AwareDatetime | None = None


class AnchorLine(Line):
    """An anchor; ``repository`` is its root directory, ``hash`` is hexadecimal."""

    kind: Literal["anchor"]
    id: UUID
    record_kind: RecordKind
    record_id: UUID
    ordinal: Annotated[int, Field(ge=0, lt=MAX_ANCHORS)]
    repository: str | None = None
    file: str | None = None
    symbol: str | None = None
    commit: Commit | None = None
    start_line: int | None = None
    end_line: int | None = None
    hash: Annotated[str, Field(pattern="^([a-f0-9]{2})*$")] | None = None
    state: AnchorState = "current"
    reason: str | None = None
    moved_from: str | None = None
    created_at: AwareDatetime

    def is_of(self, other: Line) -> bool:
        """Ignores the location, as index runs update it when the code moves."""
        same = {"id", "record_kind", "record_id", "ordinal", "commit", "created_at"}
        return isinstance(other, AnchorLine) and self.model_dump(include=same) == other.model_dump(
            include=same
        )


# In the order of storing: a record after those that it refers to.
LINES: Mapping[str, type[Line]] = {
    "session": SessionLine,
    "agent": AgentLine,
    "agent_execution": ExecutionLine,
    "task": TaskLine,
    "observation": ObservationLine,
    "entity_type": EntityTypeLine,
    "entity": EntityLine,
    "work_item": WorkItemLine,
    "anchor": AnchorLine,
}
ALL_LINES: Mapping[str, type[Line]] = {"header": HeaderLine, **LINES}


def read_line(text: str) -> Line:
    """Parse a line.

    Raises:
        InvalidInput: the line is invalid; names the field and its rule.
    """
    if len(text) > MAX_LINE_CHARS:
        raise _bad("line", "longer than any record", f"at most {MAX_LINE_CHARS} characters")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad("line", f"not valid JSON ({error})", "one JSON object") from None
    if not isinstance(content, dict):
        raise _bad("line", "not an object", "one JSON object")
    model = ALL_LINES.get(str(content.get("kind")))
    if model is None:
        raise _bad("kind", f"unknown kind {content.get('kind')!r}", ", ".join(ALL_LINES))
    require_storable(str(content["kind"]), content)
    content, _ = mask_values(content)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "line"
        raise _bad(where, first["msg"], first["type"]) from None


def _bad(field: str, problem: str, rule: str) -> CodebaseError:
    return InvalidInput.of(field, None, f"{field}: {problem}", rule=rule)
