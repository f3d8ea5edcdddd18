"""What is searched? The snapshots, what the filters leave of them, how rare the terms are."""

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
from codebase_mcp.search.filters import Filters
from codebase_mcp.search.memory_index import MemoryIndex
from codebase_mcp.search.query import Query
from codebase_mcp.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "search.sql")

# So few texts are named one by one where filters leave no more. Of more, so many as pass are found
# by going through the nearest in order.
FEW_TEXTS = 1_000

# How many the vector index looks at closely: of 42,710 chunks 98.0 % of the 10 nearest are found,
# and 98.4 % with 500, which takes half as long again. Where filters let few of them pass, it goes
# on, but not without end.
_SEARCHED = {"searched": "300", "most": "50000"}


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
class Asked:
    """A question as a vector of one model."""

    profile: Profile
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search: the snapshots, what the filters leave of them, how rare the terms are.

    ``second`` is the stronger model's profile, where the project has one and it is wanted.
    ``texts`` are the blobs that pass the filters, None where there are no filters or too many pass;
    ``hidden`` the blobs that are stored but not searched; both as arrays in text form.
    ``frequencies`` says in how many chunks of the project each term of the query, or lent to it,
    occurs; ``lent`` what each lent one is worth; ``sealed`` up to which time each profile's
    vectors are in its index. ``version`` is that of the index; ``memory`` a copy of this version,
    where there is one: then ``texts``, ``hidden`` and ``sealed`` are not needed, and empty.
    """

    snapshots: tuple[ScopedSnapshot, ...]
    filters: Filters
    texts: str | None
    hidden: str
    frequencies: Mapping[int, int]
    lent: Mapping[int, float]
    sealed: Mapping[int, int]
    second: Profile | None = None
    version: UUID | None = None
    memory: MemoryIndex | None = None

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """With what the snapshots were made: one profile, unless models were changed meanwhile."""
        return tuple({s.profile.id: s.profile for s in self.snapshots}.values())

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
    lent: Mapping[int, float],
    filters: Filters,
    *,
    both_tiers: bool = False,
    memory: MemoryIndex | None = None,
) -> Scope:
    """The snapshots to search, and the statistics that choosing and scoring need.

    A copy in memory is used if it is of the same version as the database.
    """
    repository = {"repository_id": filters.repository_id}
    if memory is not None:
        rows = await tx.fetch_all(_SQL["scope"], **repository)
        if _version(rows) == memory.version:
            frequencies = memory.frequencies(counted_terms(query, lent))
            known = _snapshots(rows)
            return Scope(
                known, filters, None, "{}", frequencies, lent, {}, None, memory.version, memory
            )
    terms = array_literal(counted_terms(query, lent))
    statements: list[tuple[Any, dict[str, Any]]] = [
        (_SQL["scope"], repository),
        (_SQL["frequencies"], {"terms": terms}),
    ]
    if filters.narrow:
        # Its plan depends on the filters, so it comes before the others' are settled.
        parameters = repository | filters.parameters() | {"most": FEW_TEXTS + 1}
        statements.append((_SQL["scope_texts"], parameters))
    if both_tiers:
        statements.append((_SQL["second_tier"], {}))
    statements.append((_SQL["prepare"], _SEARCHED))
    rows, found, *left, [prepared] = await tx.fetch_many(statements)
    second = [Profile.from_row(row) for row in left.pop()] if both_tiers else []
    texts = None
    if left and len(left[0]) <= FEW_TEXTS:
        texts = array_literal({blob_id for (blob_id,) in left[0]})
    return Scope(
        _snapshots(rows),
        filters,
        texts,
        array_literal(prepared[-1]),
        dict(found),
        lent,
        sealed_times(prepared[-2]),
        second[0] if second else None,
        _version(rows),
    )


def _snapshots(rows: Sequence[Row]) -> tuple[ScopedSnapshot, ...]:
    return tuple(map(ScopedSnapshot.from_row, rows))


def _version(rows: Sequence[Row]) -> UUID | None:
    return rows[0][0] if rows else None


def counted_terms(query: Query, lent: Mapping[int, float]) -> list[int]:
    """The terms whose frequencies a search needs."""
    return [ALL_CHUNKS, *(term.id for term in query.terms), *lent]


async def load_frequencies(
    tx: Transaction, terms: Iterable[int], memory: MemoryIndex | None = None
) -> dict[int, int]:
    """In how many chunks of the project each of these terms occurs, if in any."""
    if memory is not None:
        return memory.frequencies(terms)
    return dict(await tx.fetch_all(_SQL["frequencies"], terms=array_literal(terms)))
