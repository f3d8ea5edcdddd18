"""Facts beside the hits of a search: uses of the first hit, and notes on all hits."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.search.search import Answer
from codebase_mcp.symbols.definition import PROSE_KINDS
from codebase_mcp.symbols.references import Usage, usage_of

if TYPE_CHECKING:
    from codebase_mcp.records.notes import Note

# A first hit that scores less seldom answers the question.
LEAST_SCORE = 0.25


async def notes_of(database: Database, project: Project, answer: Answer) -> list[tuple[Note, ...]]:
    from codebase_mcp.records.notes import notes_on  # noqa: PLC0415 - seldom asked for

    async with database.bounded_read(project) as tx:
        return await notes_on(tx, answer.hits)


async def usage_of_first(database: Database, project: Project, answer: Answer) -> Usage | None:
    """The certain uses of the first hit; None without such uses, or if they cannot be read."""
    hit = next(iter(answer.hits), None)
    if hit is None or hit.symbol is None or hit.kind in PROSE_KINDS:
        return None
    view = hit.repository_id, hit.view
    snapshot = next((s.id for s in answer.snapshots if (s.repository_id, s.view) == view), None)
    if snapshot is None or hit.similarity_score < LEAST_SCORE:
        return None
    lines = hit.start_line, hit.end_line
    with suppress(CodebaseError):
        async with database.bounded_read(project) as tx:
            return await usage_of(tx, snapshot, hit.file_path, hit.symbol, lines)
    return None
