"""Records about the code in search results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.records.anchors import AnchorState, RecordKind
from codebase_mcp.search.hits import Hit

_SQL = load_queries("codebase_mcp.records", "notes.sql")

MAX_NOTES = 5
MAX_NOTES_IN_FILE = 50
_TITLE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Note:
    """A record about some lines, or about a whole file, whose ``symbol`` is None.

    Tasks and work items have a ``status``; observations, entities and work items a ``type``.
    """

    record_kind: RecordKind
    id: UUID
    title: str
    status: str | None
    type: str | None
    state: AnchorState
    reason: str | None
    symbol: str | None
    start_line: int | None
    end_line: int | None


async def notes_on(tx: Transaction, hits: Sequence[Hit]) -> list[tuple[Note, ...]]:
    """The newest records about the lines or the file of each hit; none that needs review."""
    spans = [(hit.repository_id, hit.file_path, hit.start_line, hit.end_line) for hit in hits]
    notes: list[list[Note]] = [[] for _ in hits]
    for position, note in await _notes(tx, spans, MAX_NOTES):
        notes[position].append(note)
    return [tuple(of_hit) for of_hit in notes]


async def notes_in_file(tx: Transaction, repository_id: UUID, path: str) -> list[Note]:
    """The records about a file or any of its lines."""
    span = (repository_id, path, 1, 2**31 - 1)
    return [note for _, note in await _notes(tx, [span], MAX_NOTES_IN_FILE)]


async def _notes(
    tx: Transaction, spans: Sequence[tuple[UUID, str, int, int]], limit: int
) -> list[tuple[int, Note]]:
    if not spans:
        return []
    repositories, files, starts, ends = map(list, zip(*spans, strict=True))
    rows = await tx.fetch_all(
        _SQL["notes_on"],
        limit=limit,
        repositories=repositories,
        files=files,
        starts=starts,
        ends=ends,
    )
    return [(n, Note(kind, id_, short_title(title), *rest)) for n, kind, id_, title, *rest in rows]


def short_title(text: str) -> str:
    """The beginning of a text as a single line, cut after a word."""
    line = " ".join(text.split())
    if len(line) <= _TITLE_CHARS:
        return line
    head, _, _ = line[: _TITLE_CHARS + 1].rpartition(" ")
    return (head or line[:_TITLE_CHARS]) + "…"
