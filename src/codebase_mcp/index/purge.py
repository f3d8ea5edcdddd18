"""Erase a file or a repository at once, and count what is left of it in every table.

Removing a repository, or a deleted file, normally keeps its texts for an hour, so that undoing the
change is cheap. A purge deletes them at once. A text that another file also has stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.index import store
from codebase_mcp.index.path_scope import PathScope

_SQL = load_queries("codebase_mcp.index", "purge.sql")

# Every table with data of a repository. The statement ``count_TABLE`` counts its rows.
TABLES = (
    "repository", "snapshot", "file", "blob", "chunk", "chunk_vector", "symbol", "blob_reference",
    "term_frequency", "index_run", "commit_entry", "commit_text",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Marked:
    """What is to be erased; with these ids the rows can be counted after the purge too.

    ``paths`` are those of the files, ``shared`` those of other files with the same text.
    """

    repository_id: UUID
    scope: PathScope | None
    paths: tuple[str, ...]
    blobs: tuple[int, ...]
    terms: tuple[int, ...]
    shared: tuple[str, ...]

    def parameters(self) -> dict[str, object]:
        """The parameters of SQL statements."""
        scope = PathScope(frozenset(), frozenset()) if self.scope is None else self.scope
        return {
            "repository_id": self.repository_id,
            "is_whole": self.scope is None,
            **scope.parameters(),
            "blobs": list(self.blobs),
            "terms": list(self.terms),
        }


@dataclass(frozen=True, slots=True)
class Purged:
    """The rows of what was purged in each table, before and after.

    ``kept`` are paths of other files with the same text, which stays because of them.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    paths: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not any(self.after.values())


async def mark(tx: Transaction, repository_id: UUID, scope: PathScope | None) -> Marked:
    """Determine what belongs only to a repository, or to some paths of it.

    That includes texts that wait for the sweep, as they may be earlier versions of the file.
    """
    await tx.lock(store.WRITE_LOCK)
    await tx.execute(_SQL["renew_versions"], repository_id=repository_id)
    marked = Marked(repository_id, scope, (), (), (), ())
    parameters = marked.parameters()
    paths = await tx.fetch_all(_SQL["paths"], **parameters)
    blobs = [row[0] for row in await tx.fetch_all(_SQL["blobs"], **parameters)]
    shared = await tx.fetch_all(_SQL["shared"], **parameters)
    terms = await tx.fetch_all(_SQL["terms"], blobs=blobs)
    return Marked(
        repository_id,
        scope,
        tuple(row[0] for row in paths),
        tuple(blobs),
        tuple(row[0] for row in terms),
        tuple(row[0] for row in shared),
    )


async def count_rows(tx: Transaction, marked: Marked) -> dict[str, int]:
    """The number of rows in each table of what was marked."""
    parameters = marked.parameters()
    counts = await tx.fetch_many([(_SQL[f"count_{table}"], parameters) for table in TABLES])
    return {table: rows[0][0] for table, rows in zip(TABLES, counts, strict=True)}


async def erase(tx: Transaction, marked: Marked) -> None:
    """Delete what was marked, in the same transaction that marked it."""
    if marked.scope is None:
        await store.remove_repository(tx, marked.repository_id)
        return
    parameters = marked.parameters()
    for statement in (
        *("delete_files", "delete_replaced", "forget_failures"),
        *("forget_commit_texts", "forget_paths", "forget_errors"),
    ):
        await tx.execute(_SQL[statement], **parameters)
    await store.clear(tx)
