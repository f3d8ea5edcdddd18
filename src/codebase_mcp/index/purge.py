"""Erase a file or a repository at once, and count what is left of it in every table.

Removing a repository, or a file that is gone, leaves texts for an hour, so that going back costs
nothing. Here nothing waits: whoever purges has a reason. A text that another file shows too belongs
to that file, and stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.index import store
from codebase_mcp.index.part import Part

_SQL = load_queries("codebase_mcp.index", "purge.sql")

# Every table that holds anything of a repository. The statement of a name counts it.
TABLES = (
    "repository", "snapshot", "file", "blob", "chunk", "chunk_vector", "symbol", "term_frequency",
    "index_run", "commit_entry",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Marked:
    """What is to be erased: rows are found again by these ids when nothing names them any more.

    ``paths`` are those of the files, ``shared`` those of other files that show the same text.
    """

    repository_id: UUID
    part: Part | None
    paths: tuple[str, ...]
    blobs: tuple[int, ...]
    terms: tuple[int, ...]
    shared: tuple[str, ...]

    def parameters(self) -> dict[str, object]:
        """The same for the statements."""
        part = Part(frozenset(), frozenset()) if self.part is None else self.part
        return {
            "repository_id": self.repository_id,
            "is_whole": self.part is None,
            **part.parameters(),
            "blobs": list(self.blobs),
            "terms": list(self.terms),
        }


@dataclass(frozen=True, slots=True)
class Purged:
    """The proof: the rows of each table that were of what is erased, before and after.

    ``kept`` are paths of other files that hold the same text, so that it stays.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    paths: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not any(self.after.values())


async def mark(tx: Transaction, repository_id: UUID, part: Part | None) -> Marked:
    """What belongs to a repository, or to some paths of it, and to nothing else.

    Texts that wait for the sweep are among it: one of them may be an earlier version of the file.
    """
    await store.begin_change(tx)
    marked = Marked(repository_id, part, (), (), (), ())
    parameters = marked.parameters()
    paths = await tx.fetch_all(_SQL["paths"], **parameters)
    blobs = [row[0] for row in await tx.fetch_all(_SQL["blobs"], **parameters)]
    shared = await tx.fetch_all(_SQL["shared"], **parameters)
    terms = await tx.fetch_all(_SQL["terms"], blobs=blobs)
    return Marked(
        repository_id,
        part,
        tuple(row[0] for row in paths),
        tuple(blobs),
        tuple(row[0] for row in terms),
        tuple(row[0] for row in shared),
    )


async def count_rows(tx: Transaction, marked: Marked) -> dict[str, int]:
    """The rows of each table that are of what was marked."""
    parameters = marked.parameters()
    counts = await tx.fetch_many([(_SQL[f"count_{table}"], parameters) for table in TABLES])
    return {table: rows[0][0] for table, rows in zip(TABLES, counts, strict=True)}


async def erase(tx: Transaction, marked: Marked) -> None:
    """Delete what was marked, in the same transaction that marked it."""
    if marked.part is None:
        await store.remove_repository(tx, marked.repository_id)
        return
    parameters = marked.parameters()
    for statement in ("delete_files", "forget_failures", "forget_paths", "forget_errors"):
        await tx.execute(_SQL[statement], **parameters)
    await store.clear(tx)
