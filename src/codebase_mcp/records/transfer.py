"""Exports and imports the records of a project, as a file of one JSON object per line.

The first line is the header. The order of the records is free, also if a record refers to another
(a work item to its parent, an entity to its type, an execution to its agent).

Export streams the lines from a single state of the database. Import reads a file twice: first it
checks every line by itself, then it stores all in one transaction, kind by kind. It skips records
that exist with the same content, and anchors that have followed the code since. Any other line that
cannot be stored refuses the whole file.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, BinaryIO, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.models import Model
from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.records.anchoring import MAX_ANCHORS, AnchorState
from codebase_mcp.records.anchors import RecordKind
from codebase_mcp.records.entity_types import folded, schema_problems
from codebase_mcp.records.import_lines import insert_lines
from codebase_mcp.records.memory import store_prepared
from codebase_mcp.records.schemas.documents import accept_schema
from codebase_mcp.records.vocabulary import (
    ObservationType,
    TaskStatus,
    WorkItemStatus,
    WorkItemType,
)
from codebase_mcp.records.work_items import LEVELS
from codebase_mcp.secrets.masking import mask_values
from codebase_mcp.values import require_storable

_SQL = load_queries("codebase_mcp.records", "transfer.sql")

_BATCH = 500
_FIRST_ID = "00000000-0000-0000-0000-000000000000"

# How many problems are listed; a file with more is not fixed line by line.
MAX_PROBLEMS = 20

_REFUSED: Mapping[str, str] = {
    "session": "a different session with this id exists",
    "agent": "a different agent with this id or name exists",
    "agent_execution": "its agent is neither in the project nor in the file, or its id is used",
    "task": "a different task with this id exists",
    "observation": "a different observation with this id or content exists",
    "entity_type": "a different entity type with this id or name exists",
    "entity": "a different entity with this id or name exists",
    "work_item": "its parent does not exist or has no higher level, or its id is used",
    "anchor": "its record is neither in the project nor in the file, or its id or place is used",
}

# The longest line that can hold a valid record, with room for escapes.
MAX_LINE_CHARS = 4 << 20

ShortText = Annotated[str, Field(min_length=1, max_length=200)]
Tags = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=20)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Line(Part):
    """The base of all kinds."""

    kind: str

    @property
    def group(self) -> str:
        """The lines that are stored together: of a kind, and of a level of work items."""
        return self.kind

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
    id: ShortText
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
    session_id: ShortText | None = None
    session_start: AwareDatetime | None = None
    last_active_at: AwareDatetime


class ExecutionLine(Line):
    kind: Literal["agent_execution"]
    id: UUID
    agent_id: UUID
    session_id: ShortText | None = None
    at: AwareDatetime
    tool_name: Annotated[str, Field(max_length=200)] | None = None
    success: bool | None = None
    duration_ms: Annotated[float, Field(ge=0)] | None = None
    summary: Annotated[str, Field(max_length=5_000)] | None = None
    error: Annotated[str, Field(max_length=5_000)] | None = None


class LinkPart(Part):
    kind: Literal["branch", "commit"]
    value: ShortText
    linked_at: AwareDatetime


class EventPart(Part):
    at: AwareDatetime
    field: Literal["status", "branch", "commit", "text"]
    old: str | None = None
    new: str | None = None
    session_id: ShortText | None = None


class TaskLine(Line):
    kind: Literal["task"]
    id: UUID
    title: ShortText
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
    session_id: ShortText | None = None
    created_at: AwareDatetime
    stored_at: AwareDatetime
    times_stored: Annotated[int, Field(ge=1)] = 1


class VersionPart(Part):
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
    name: ShortText
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
    title: ShortText
    description: Annotated[str, Field(max_length=2_000)] | None = None
    status: WorkItemStatus
    parent_id: UUID | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    completed_at: AwareDatetime | None = None

    @property
    def group(self) -> str:
        return f"work_item {self.item_type}"


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
    commit: Annotated[str, Field(pattern="^[a-f0-9]{40}$")] | None = None
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
# A child after its parent.
_GROUPS = tuple(
    f"{kind} {level}" if level else kind
    for kind in LINES
    for level in (LEVELS if kind == "work_item" else ("",))
)
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
    try:
        return model.model_validate(mask_values(content)[0])
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "line"
        raise _bad(where, first["msg"], first["type"]) from None


def _bad(field: str, problem: str, rule: str) -> CodebaseError:
    return InvalidInput.of(field, None, f"{field}: {problem}", rule=rule)


@dataclass(frozen=True, slots=True)
class Imported:
    """How many records of each kind were stored, and how many existed already."""

    added: dict[str, int]
    unchanged: dict[str, int]


@dataclass(slots=True)
class LineScan:
    """The numbers (from 1) and byte offsets of the lines of each group, and their problems."""

    lines: defaultdict[str, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    problems: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((number, problem))

    def refuse(self) -> None:
        """Raise an error if there are problems."""
        if not self.problems:
            return
        first, problem = self.problems[0]
        fields = [
            {"field": f"line {n}", "constraint": why, "message": f"line {n}: {why}"}
            for n, why in sorted(self.problems)
        ]
        raise InvalidInput(
            f"Nothing was imported: line {first}: {problem}",
            hint="Correct these lines and import again. Stored records are skipped.",
            details={"fields": fields},
        )


async def export_lines(
    tx: Transaction, project_id: str | None, exported_at: datetime
) -> AsyncIterator[str]:
    """Every record as a line of JSON without a line end, the header first."""
    header = {
        "kind": "header",
        "format": "codebase-mcp-records",
        "version": 1,
        "project_id": project_id,
        "exported_at": exported_at.isoformat(),
    }
    yield json.dumps(header)
    for kind in LINES:
        after = _beginning(kind)
        while rows := await tx.fetch_all(_SQL[f"export_{kind}"], **after, ids=None, limit=_BATCH):
            for _, _, line in rows:
                yield line
            after = {"after": rows[-1][0], "after_id": rows[-1][1]}


def _beginning(kind: str) -> dict[str, object]:
    """The position before the first line of a kind; session ids are arbitrary texts, not UUIDs."""
    return {"after": "-infinity", "after_id": "" if kind == "session" else _FIRST_ID}


async def import_lines(
    tx: Transaction, file: BinaryIO, scan: LineScan, model: Model | None
) -> Imported:
    """Store every record of a scanned file; a model is needed if it has observations.

    Raises:
        InvalidInput: some lines cannot be stored; names them. The caller must then roll back.
    """
    added: Counter[str] = Counter()
    unchanged: Counter[str] = Counter()
    for group in _GROUPS:
        kind = group.partition(" ")[0]
        for batch in _batches(file, scan.lines[group]):
            stored, same = await _store(tx, group, batch, model, scan)
            added[kind] += stored
            unchanged[kind] += same
    scan.refuse()
    return Imported(dict(added), dict(unchanged))


def scan_lines(file: BinaryIO) -> LineScan:
    """Validate every line on its own, and record its position.

    Raises:
        InvalidInput: some lines are invalid; lists them.
    """
    scan = LineScan()
    offset, has_header = 0, False
    for number, raw in enumerate(file, 1):
        start, offset = offset, offset + len(raw)
        if not raw.strip():
            continue
        try:
            line = read_line(raw.decode())
        except (InvalidInput, UnicodeDecodeError) as error:
            scan.add(number, str(error))
            continue
        is_header = isinstance(line, HeaderLine)
        has_header |= is_header
        if is_header != (number == 1):
            scan.add(number, "the header must be the first line, and only the first line")
        if not is_header:
            scan.lines[line.group].append((number, start))
    if not has_header and not scan.problems:
        scan.add(1, "the file is empty")
    scan.refuse()
    return scan


def _batches(
    file: BinaryIO, positions: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[int, Line]]]:
    """Read lines again, in batches."""
    rest = iter(positions)
    while some := list(islice(rest, _BATCH)):
        batch = []
        for number, offset in some:
            file.seek(offset)
            batch.append((number, read_line(file.readline().decode())))
        yield batch


async def _store(
    tx: Transaction,
    group: str,
    batch: Sequence[tuple[int, Line]],
    model: Model | None,
    scan: LineScan,
) -> tuple[int, int]:
    """Store lines of one kind; returns how many were new and how many were identical."""
    kind, _, level = group.partition(" ")
    lines: dict[str, tuple[int, Line]] = {}
    for number, line in batch:
        first = lines.setdefault(_id(line), (number, line))
        if first[1] != line:
            scan.add(number, f"{kind} {_id(line)}: the id occurs twice in the file")
    for number, problem in await _bad_schemas(tx, batch):
        scan.add(number, problem)
    contents = [_content(line) for _, line in batch]
    if kind == "observation":
        assert model is not None
        stored = await store_prepared(tx, contents, model)
    else:
        above = list(LEVELS[: LEVELS.index(level)]) if level else []
        stored = await insert_lines(tx, kind, contents, above)
    rest = [identity for identity in lines if identity not in stored]
    rows = await tx.fetch_all(_SQL[f"export_{kind}"], **_beginning(kind), ids=rest, limit=len(rest))
    existing = {identity: read_line(line) for _, identity, line in rows}
    same = [id for id in rest if id in existing and existing[id].is_of(lines[id][1])]
    for identity in rest:
        if identity not in same:
            scan.add(lines[identity][0], f"{kind} {identity}: {_REFUSED[kind]}")
    return len(stored), len(same)


def _id(line: Line) -> str:
    return str(line.id)  # type: ignore[attr-defined]


def _content(line: Line) -> dict[str, Any]:
    """A line as its SQL statement expects it."""
    content = line.model_dump(mode="json", by_alias=True)
    if isinstance(line, EntityTypeLine):
        content["folded"] = folded(line.name)
        for version in content["versions"]:
            version["schema_text"] = json.dumps(version.pop("schema"))
    return content


async def _bad_schemas(tx: Transaction, batch: Sequence[tuple[int, Line]]) -> list[tuple[int, str]]:
    """The problems of entity types and their versions, or of the data of entities."""
    entities = [(number, line) for number, line in batch if isinstance(line, EntityLine)]
    types = list({entity.type_id for _, entity in entities})
    rows = await tx.fetch_all(_SQL["schemas_of"], types=types) if types else []
    schemas = {(type_id, version): json.loads(schema) for type_id, version, _, schema in rows}
    problems = []
    for number, entity in entities:
        schema = schemas.get((entity.type_id, entity.schema_version))
        if schema is None:
            problems.append((number, "its type, or that version of its schema, does not exist"))
        elif reasons := schema_problems(schema, entity.data):
            problems.append((number, f"data does not match its schema: {reasons[0]}"))
    for number, line in batch:
        if not isinstance(line, EntityTypeLine):
            continue
        numbers = [version.version for version in line.versions]
        if line.version != max(numbers) or len(set(numbers)) != len(numbers):
            problems.append((number, "versions must be unique, and version must be the last"))
        try:
            for version in line.versions:
                accept_schema(version.schema_)
        except InvalidInput as error:
            problems.append((number, error.message))
    return problems
