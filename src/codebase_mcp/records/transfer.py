"""Exports and imports the records of a project.

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
from typing import Any, BinaryIO

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.models import Model
from codebase_mcp.errors import InvalidInput
from codebase_mcp.records import portable
from codebase_mcp.records.entity_types import folded, schema_problems
from codebase_mcp.records.memory import store_prepared
from codebase_mcp.records.schemas import accept_schema
from codebase_mcp.records.work_items import LEVELS

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
        "format": portable.FORMAT,
        "version": portable.VERSION,
        "project_id": project_id,
        "exported_at": exported_at.isoformat(),
    }
    yield json.dumps(header)
    for kind in portable.LINES:
        after = _beginning(kind)
        while rows := await tx.fetch_all(_SQL[f"export_{kind}"], **after, ids=None, limit=_BATCH):
            for _, _, line in rows:
                yield line
            after = {"after": rows[-1][0], "after_id": rows[-1][1]}


def _beginning(kind: str) -> dict[str, object]:
    """The position before the first line of a kind; session ids are arbitrary texts, not UUIDs."""
    return {"after": "-infinity", "after_id": "" if kind == "session" else _FIRST_ID}


async def import_lines(
    tx: Transaction, file: BinaryIO, contents: LineScan, model: Model | None
) -> Imported:
    """Store every record of a scanned file; a model is needed if it has observations.

    Raises:
        InvalidInput: some lines cannot be stored; names them. The caller must then roll back.
    """
    added: Counter[str] = Counter()
    unchanged: Counter[str] = Counter()
    for group in _GROUPS:
        kind = group.partition(" ")[0]
        for batch in _batches(file, contents.lines[group]):
            stored, same = await _store(tx, group, batch, model, contents)
            added[kind] += stored
            unchanged[kind] += same
    contents.refuse()
    return Imported(dict(added), dict(unchanged))


def scan_lines(file: BinaryIO) -> LineScan:
    """Validate every line on its own, and record its position.

    Raises:
        InvalidInput: some lines are invalid; lists them.
    """
    contents = LineScan()
    offset, has_header = 0, False
    for number, raw in enumerate(file, 1):
        start, offset = offset, offset + len(raw)
        if not raw.strip():
            continue
        try:
            line = portable.read_line(raw.decode())
        except (InvalidInput, UnicodeDecodeError) as error:
            contents.add(number, str(error))
            continue
        is_header = isinstance(line, portable.HeaderLine)
        has_header |= is_header
        if is_header != (number == 1):
            contents.add(number, "the header must be the first line, and only the first line")
        if not is_header:
            contents.lines[_group(line)].append((number, start))
    if not has_header and not contents.problems:
        contents.add(1, "the file is empty")
    contents.refuse()
    return contents


# In the order of storing: a record after those that it refers to, a child after its parent. The
# lines of a group are stored together.
_GROUPS = tuple(
    f"{kind} {level}" if level else kind
    for kind in portable.LINES
    for level in (LEVELS if kind == "work_item" else ("",))
)


def _group(line: portable.Line) -> str:
    if isinstance(line, portable.WorkItemLine):
        return f"work_item {line.item_type}"
    kind: str = line.kind  # type: ignore[attr-defined]
    return kind


def _batches(
    file: BinaryIO, positions: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[int, portable.Line]]]:
    """Read lines again, in batches."""
    rest = iter(positions)
    while some := list(islice(rest, _BATCH)):
        batch = []
        for number, offset in some:
            file.seek(offset)
            batch.append((number, portable.read_line(file.readline().decode())))
        yield batch


async def _store(
    tx: Transaction,
    group: str,
    batch: Sequence[tuple[int, portable.Line]],
    model: Model | None,
    contents: LineScan,
) -> tuple[int, int]:
    """Store lines of one kind; returns how many were new and how many were identical."""
    kind, _, level = group.partition(" ")
    lines: dict[str, tuple[int, portable.Line]] = {}
    for number, line in batch:
        first = lines.setdefault(_id(line), (number, line))
        if first[1] != line:
            contents.add(number, f"{kind} {_id(line)}: the id occurs twice in the file")
    for number, problem in (*_bad_types(batch), *await _misfits(tx, batch)):
        contents.add(number, problem)
    if kind == "observation":
        assert model is not None
        stored = await store_prepared(tx, [_content(line) for _, line in batch], model)
    else:
        more = {"above": list(LEVELS[: LEVELS.index(level)])} if level else {}
        rows = await tx.fetch_all(
            _SQL[f"import_{kind}"],
            lines=json.dumps([_content(line) for _, line in batch]),
            **more,
        )
        stored = {row[0] for row in rows}
    rest = [identity for identity in lines if identity not in stored]
    existing = await _existing(tx, kind, rest)
    same = 0
    for identity in rest:
        number, line = lines[identity]
        if identity in existing and existing[identity].is_of(line):
            same += 1
        else:
            contents.add(number, f"{kind} {identity}: {_REFUSED[kind]}")
    return len(stored), same


def _id(line: portable.Line) -> str:
    return str(line.id)  # type: ignore[attr-defined]


async def _existing(tx: Transaction, kind: str, ids: Sequence[str]) -> dict[str, portable.Line]:
    """The existing records with these ids, as lines."""
    if not ids:
        return {}
    rows = await tx.fetch_all(
        _SQL[f"export_{kind}"], **_beginning(kind), ids=list(ids), limit=len(ids)
    )
    return {identity: portable.read_line(line) for _, identity, line in rows}


def _content(line: portable.Line) -> dict[str, Any]:
    """A line as its SQL statement expects it."""
    content = line.model_dump(mode="json", by_alias=True)
    if isinstance(line, portable.EntityTypeLine):
        content["folded"] = folded(line.name)
        for version in content["versions"]:
            version["schema_text"] = json.dumps(version.pop("schema"))
    return content


def _bad_types(batch: Sequence[tuple[int, portable.Line]]) -> list[tuple[int, str]]:
    """Entity types with a schema that is not accepted, or without their current version."""
    problems = []
    for number, line in batch:
        if not isinstance(line, portable.EntityTypeLine):
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


async def _misfits(
    tx: Transaction, batch: Sequence[tuple[int, portable.Line]]
) -> list[tuple[int, str]]:
    """Entities whose type or schema version is missing, or whose data does not match it."""
    entities = [(number, line) for number, line in batch if isinstance(line, portable.EntityLine)]
    if not entities:
        return []
    types = list({line.type_id for _, line in entities})
    schemas = {
        (type_id, version): json.loads(schema)
        for type_id, version, _, schema in await tx.fetch_all(_SQL["schemas_of"], types=types)
    }
    problems = []
    for number, line in entities:
        schema = schemas.get((line.type_id, line.schema_version))
        if schema is None:
            problems.append((number, "its type, or that version of its schema, does not exist"))
        elif reasons := schema_problems(schema, line.data):
            problems.append((number, f"data does not match its schema: {reasons[0]}"))
    return problems
