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
    """For each hit the records about its lines or its file: those that need no review, newest."""
    notes: list[list[Note]] = [[] for _ in hits]
    if hits:
        rows = await tx.fetch_all(
            _SQL["notes_on"],
            limit=MAX_NOTES,
            repositories=[hit.repository_id for hit in hits],
            files=[hit.file_path for hit in hits],
            starts=[hit.start_line for hit in hits],
            ends=[hit.end_line for hit in hits],
        )
        for position, kind, identity, title, *rest in rows:
            notes[position].append(Note(kind, identity, short_title(title), *rest))
    return [tuple(of_hit) for of_hit in notes]


async def notes_in_file(
    tx: Transaction, repository_id: UUID, path: str, *, limit: int = 50
) -> list[Note]:
    """The records about a file or any of its lines."""
    rows = await tx.fetch_all(
        _SQL["notes_on"],
        limit=limit,
        repositories=[repository_id],
        files=[path],
        starts=[1],
        ends=[2**31 - 1],
    )
    return [Note(kind, id_, short_title(title), *rest) for _, kind, id_, title, *rest in rows]


def short_title(text: str) -> str:
    """The beginning of a text on one line, cut after a word."""
    line = " ".join(text.split())
    if len(line) <= _TITLE_CHARS:
        return line
    head, _, _ = line[: _TITLE_CHARS + 1].rpartition(" ")
    return (head or line[:_TITLE_CHARS]) + "…"
