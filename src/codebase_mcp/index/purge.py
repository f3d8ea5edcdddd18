"""Erase a file or a repository at once, and count its remaining rows in every table.

The texts of a removed repository or file normally stay for an hour, so that undoing the change is
cheap. A purge deletes them at once, except texts that another file also has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.index import store
from codebase_mcp.index.plan import PathScope

_SQL = load_queries("codebase_mcp.index", "purge.sql")

# Every table with data of a repository. The statement ``count_TABLE`` counts its rows.
TABLES = (
    "repository", "snapshot", "file", "blob", "chunk", "chunk_vector", "symbol", "blob_reference",
    "term_frequency", "index_run", "commit_entry", "commit_text",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Marked:
    """The target of a purge; with these ids the rows can be counted after the purge too.

    ``paths`` are the files to erase, ``shared`` further files with the same text.
    """

    repository_id: UUID
    scope: PathScope | None
    paths: Sequence[str] = ()
    blobs: Sequence[int] = ()
    terms: Sequence[int] = ()
    shared: Sequence[str] = ()

    def parameters(self) -> dict[str, object]:
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
    """The rows of the purged data in each table, before and after.

    ``kept`` are further files with the same text, which stays because of them.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    paths: Sequence[str] = ()
    kept: Sequence[str] = ()

    @property
    def is_complete(self) -> bool:
        return not any(self.after.values())


async def mark(tx: Transaction, repository_id: UUID, scope: PathScope | None) -> Marked:
    """Find the rows that belong only to a repository, or to some paths of it.

    That includes texts that wait for the sweep, as they may be earlier versions of the file.
    """
    await tx.lock(store.WRITE_LOCK)
    await tx.execute(_SQL["renew_versions"], repository_id=repository_id)
    marked = Marked(repository_id, scope)
    parameters = marked.parameters()
    rows = await tx.fetch_many([(_SQL[name], parameters) for name in ("paths", "blobs", "shared")])
    paths, blobs, shared = (tuple(row[0] for row in of_statement) for of_statement in rows)
    terms = tuple(row[0] for row in await tx.fetch_all(_SQL["terms"], blobs=list(blobs)))
    return replace(marked, paths=paths, blobs=blobs, terms=terms, shared=shared)


async def count_rows(tx: Transaction, marked: Marked) -> dict[str, int]:
    parameters = marked.parameters()
    counts = await tx.fetch_many([(_SQL[f"count_{table}"], parameters) for table in TABLES])
    return {table: rows[0][0] for table, rows in zip(TABLES, counts, strict=True)}


async def erase(tx: Transaction, marked: Marked) -> None:
    """Delete the marked rows, in the transaction that marked them."""
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
