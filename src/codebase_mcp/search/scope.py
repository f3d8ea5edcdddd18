"""What is searched? The snapshots, the texts that pass the filters, how rare the terms are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import array_literal
from codebase_mcp.database.nearest import sealed_times
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.search.filters import FileFilters
from codebase_mcp.search.memory_index import MemoryIndex
from codebase_mcp.search.query import Query
from codebase_mcp.search.terms import inverse_frequencies
from codebase_mcp.text.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "search.sql")

# Where no more texts than this pass the filters, statements list them one by one. Where more do,
# statements test each chunk they come to, the nearest first.
FEW_TEXTS = 1_000

# How many vectors the vector index compares: with 300 it finds 98.0 % of the 10 nearest of 42,710
# chunks, with 500 it finds 98.4 % and takes half as long again. Where filters exclude most of them
# it goes on, up to the second number.
_INDEX_SEARCH = {"searched": "300", "most": "50000"}


@dataclass(frozen=True, slots=True)
class ScopedSnapshot:
    """A snapshot that a search looks at, with the state of its index."""

    profile: Profile
    id: int
    repository_id: UUID
    root: str
    name: str
    median_depth: float
    files_pending: int
    files_failed: int
    skipped: str
    indexed_at: datetime | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> ScopedSnapshot:
        """From the columns of the statement ``scope``."""
        return cls(Profile.from_row(row[10:]), *row[1:10])


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query as a vector of one model."""

    profile: Profile
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search: the snapshots, the texts that pass the filters, how rare the terms are.

    ``texts`` are the blobs that pass the filters, None where there are no filters or too many pass;
    ``hidden`` the blobs that are stored but not searched; both as arrays in text form.
    ``frequencies`` says in how many chunks of the project each term of the query, and each
    expansion term, occurs; ``expansion`` gives the weights of the expansion terms; ``sealed`` says
    up to which time each profile's vectors are in its vector index. ``secondary`` is the secondary
    model's profile, where the project has one and it is wanted. ``version`` is that of the index;
    ``memory`` a copy of this version, if there is one: then ``texts``, ``hidden`` and ``sealed``
    are not needed, and empty.
    """

    snapshots: tuple[ScopedSnapshot, ...]
    filters: FileFilters
    texts: str | None
    hidden: str
    frequencies: Mapping[int, int]
    expansion: Mapping[int, float]
    sealed: Mapping[int, int]
    secondary: Profile | None = None
    version: UUID | None = None
    memory: MemoryIndex | None = None

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles of the snapshots: one, unless the model was changed between index runs."""
        return tuple({s.profile.id: s.profile for s in self.snapshots}.values())

    def expansion_weights(self) -> dict[int, float]:
        """Each expansion term's weight times its inverse document frequency."""
        frequencies = inverse_frequencies(self.expansion, self.frequencies)
        return {term: self.expansion[term] * idf for term, idf in frequencies.items()}

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements."""
        return {
            "snapshots": array_literal(snapshot.id for snapshot in self.snapshots),
            "hidden": self.hidden,
            "narrow": self.filters.narrow,
            **self.filters.parameters(),
        }


async def load_scope(
    tx: Transaction,
    query: Query,
    expansion: Mapping[int, float],
    filters: FileFilters,
    *,
    with_secondary: bool = False,
    memory: MemoryIndex | None = None,
) -> Scope:
    """The snapshots to search, and the statistics that choosing and scoring need.

    A copy in memory is used if it is of the same version as the database.
    """
    repository = {"repository_id": filters.repository_id}
    if memory is not None:
        rows = await tx.fetch_all(_SQL["scope"], **repository)
        if _version(rows) == memory.version:
            frequencies = memory.frequencies(counted_terms(query, expansion))
            snapshots = _snapshots(rows)
            return Scope(
                snapshots,
                filters,
                None,
                "{}",
                frequencies,
                expansion,
                {},
                None,
                memory.version,
                memory,
            )
    terms = array_literal(counted_terms(query, expansion))
    statements: list[tuple[Any, dict[str, Any]]] = [
        (_SQL["scope"], repository),
        (_SQL["frequencies"], {"terms": terms}),
    ]
    if filters.narrow:
        # Its plan depends on the filters, so it runs before "prepare" forces generic plans.
        parameters = repository | filters.parameters() | {"most": FEW_TEXTS + 1}
        statements.append((_SQL["scope_texts"], parameters))
    if with_secondary:
        statements.append((_SQL["secondary_profile"], {}))
    statements.append((_SQL["prepare"], _INDEX_SEARCH))
    rows, found, *others, [prepared] = await tx.fetch_many(statements)
    secondary = [Profile.from_row(row) for row in others.pop()] if with_secondary else []
    texts = None
    if others and len(others[0]) <= FEW_TEXTS:
        texts = array_literal({blob_id for (blob_id,) in others[0]})
    return Scope(
        _snapshots(rows),
        filters,
        texts,
        array_literal(prepared[-1]),
        dict(found),
        expansion,
        sealed_times(prepared[-2]),
        secondary[0] if secondary else None,
        _version(rows),
    )


def _snapshots(rows: Sequence[Row]) -> tuple[ScopedSnapshot, ...]:
    return tuple(map(ScopedSnapshot.from_row, rows))


def _version(rows: Sequence[Row]) -> UUID | None:
    return rows[0][0] if rows else None


def counted_terms(query: Query, expansion: Mapping[int, float]) -> list[int]:
    """The terms whose frequencies a search needs."""
    return [ALL_CHUNKS, *(term.id for term in query.terms), *expansion]


async def load_frequencies(
    tx: Transaction, terms: Iterable[int], memory: MemoryIndex | None = None
) -> dict[int, int]:
    """In how many chunks of the project each of these terms occurs; others are left out."""
    if memory is not None:
        return memory.frequencies(terms)
    return dict(await tx.fetch_all(_SQL["frequencies"], terms=array_literal(terms)))
