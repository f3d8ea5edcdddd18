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
from codebase_mcp.search.memory_index import MemoryIndex, ScopeVersion
from codebase_mcp.search.query import Query, inverse_frequencies
from codebase_mcp.text.tokens import ALL_CHUNKS

_SQL = load_queries("codebase_mcp.search", "search.sql")

# Where no more texts than this pass the filters, statements list them one by one. Where more do,
# statements test each chunk they come to, the nearest first.
FEW_TEXTS = 1_000

# Where more stored texts than this are not searched, statements test each chunk they come to.
_MOST_HIDDEN = 500

# How many vectors the vector index compares: with 300 it finds 98.0 % of the 10 nearest of 42,710
# chunks, with 500 it finds 98.4 % and takes half as long again. Where filters exclude most of them
# it goes on, up to the second number.
_PREPARATION = {"searched": "300", "most": "50000", "most_hidden": _MOST_HIDDEN + 1}


@dataclass(frozen=True, slots=True)
class ScopedSnapshot:
    """A snapshot that a search looks at, with the state of its index.

    ``view`` is ``worktree`` or a commit; ``version`` changes when the files of the snapshot change.
    """

    profile: Profile
    version: UUID
    view: str
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
        return cls(Profile.from_row(row[11:]), *row[:11])


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query as a vector of one model."""

    profile: Profile
    vector: Vectors


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to search: the snapshots, the texts that pass the filters, how rare the terms are.

    ``snapshots`` are those that the filters allow, ``all_snapshots`` the ids of all that would be
    searched without filters; ``is_default`` says that nobody chose them. ``is_narrow`` says that
    not every stored text is searched: then ``texts`` are the blobs that pass, or None where too
    many pass. Else ``hidden`` are the few that are stored but not searched. Both are arrays in text
    form. ``frequencies`` says in how many chunks each term of the query, and each expansion term,
    occurs; ``expansion`` gives the weights of the expansion terms; ``sealed`` says up to which time
    each profile's vectors are in its vector index. ``secondary`` is the secondary model's profile,
    where the project has one and it is wanted. ``version`` says in which state the snapshots are;
    ``memory`` is a copy of this state, if there is one: then ``texts``, ``hidden`` and ``sealed``
    are not needed, and empty.
    """

    snapshots: tuple[ScopedSnapshot, ...]
    all_snapshots: tuple[int, ...]
    filters: FileFilters
    is_default: bool
    is_narrow: bool
    texts: str | None
    hidden: str
    frequencies: Mapping[int, int]
    expansion: Mapping[int, float]
    sealed: Mapping[int, int]
    secondary: Profile | None = None
    version: ScopeVersion = ()
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
            "all_snapshots": array_literal(self.all_snapshots),
            "hidden": self.hidden,
            "narrow": self.is_narrow,
            **self.filters.parameters(),
        }


async def load_scope(
    tx: Transaction,
    query: Query,
    expansion: Mapping[int, float],
    filters: FileFilters,
    snapshot_ids: Sequence[int] | None = None,
    *,
    with_secondary: bool = False,
    memory: MemoryIndex | None = None,
) -> Scope:
    """The snapshots to search, and the statistics that choosing and scoring need.

    ``snapshot_ids`` are searched instead of those that are searched by default. A copy in memory is
    used if it is of the same version as the database.
    """
    chosen = {"ids": None if snapshot_ids is None else array_literal(snapshot_ids)}
    if memory is not None:
        snapshots = _snapshots(await tx.fetch_all(_SQL["scope"], **chosen))
        if scope_version(snapshots) == memory.version:
            terms = counted_terms(query, expansion)
            return _scope_in_memory(
                snapshots, filters, memory, terms, expansion, is_default=snapshot_ids is None
            )
    is_default = snapshot_ids is None
    statements: list[tuple[Any, dict[str, Any]]] = [
        (_SQL["scope"], chosen),
        frequencies_statement(counted_terms(query, expansion), snapshot_ids),
    ]
    if filters.narrow or not is_default:
        # Its plan depends on the filters, so it runs before "prepare" forces generic plans.
        repository = {"repository_id": filters.repository_id}
        parameters = chosen | repository | filters.parameters() | {"most": FEW_TEXTS + 1}
        statements.append((_SQL["scope_texts"], parameters))
    if with_secondary:
        statements.append((_SQL["secondary_profile"], {}))
    statements.append((_SQL["prepare"], _PREPARATION))
    rows, found, *others, [prepared] = await tx.fetch_many(statements)
    secondary = [Profile.from_row(row) for row in others.pop()] if with_secondary else []
    texts = None
    if others and len(others[0]) <= FEW_TEXTS:
        texts = array_literal({blob_id for (blob_id,) in others[0]})
    snapshots = _snapshots(rows)
    hidden = prepared[-1]
    has_many_hidden = len(hidden) > _MOST_HIDDEN
    return Scope(
        _allowed(snapshots, filters),
        tuple(one.id for one in snapshots),
        filters,
        is_default,
        filters.narrow or not is_default or has_many_hidden,
        texts,
        array_literal(hidden) if is_default and not has_many_hidden else "{}",
        dict(found),
        expansion,
        sealed_times(prepared[-2]),
        secondary[0] if secondary else None,
        scope_version(snapshots),
    )


def _scope_in_memory(
    snapshots: tuple[ScopedSnapshot, ...],
    filters: FileFilters,
    memory: MemoryIndex,
    terms: Sequence[int],
    expansion: Mapping[int, float],
    *,
    is_default: bool,
) -> Scope:
    return Scope(
        _allowed(snapshots, filters),
        tuple(one.id for one in snapshots),
        filters,
        is_default,
        is_narrow=filters.narrow,
        texts=None,
        hidden="{}",
        frequencies=memory.frequencies(terms),
        expansion=expansion,
        sealed={},
        version=memory.version,
        memory=memory,
    )


def _snapshots(rows: Sequence[Row]) -> tuple[ScopedSnapshot, ...]:
    return tuple(map(ScopedSnapshot.from_row, rows))


def _allowed(
    snapshots: tuple[ScopedSnapshot, ...], filters: FileFilters
) -> tuple[ScopedSnapshot, ...]:
    only = filters.repository_id
    return tuple(one for one in snapshots if only is None or one.repository_id == only)


def scope_version(snapshots: Iterable[ScopedSnapshot]) -> ScopeVersion:
    """In which state some snapshots are."""
    return tuple((one.id, one.version) for one in snapshots)


def counted_terms(query: Query, expansion: Mapping[int, float]) -> list[int]:
    """The terms whose frequencies a search needs."""
    return [ALL_CHUNKS, *(term.id for term in query.terms), *expansion]


async def load_frequencies(tx: Transaction, terms: Iterable[int], scope: Scope) -> dict[int, int]:
    """In how many chunks that are searched each of these terms occurs; others are left out."""
    if scope.memory is not None:
        return scope.memory.frequencies(terms)
    ids = None if scope.is_default else scope.all_snapshots
    [found] = await tx.fetch_many([frequencies_statement(terms, ids)])
    return dict(found)


def frequencies_statement(
    terms: Iterable[int], snapshot_ids: Sequence[int] | None
) -> tuple[Any, dict[str, Any]]:
    """The statement that counts the chunks with each term, in some snapshots or by default."""
    wanted = {"terms": array_literal(terms)}
    if snapshot_ids is None:
        return _SQL["frequencies"], wanted
    return _SQL["view_frequencies"], wanted | {"ids": array_literal(snapshot_ids)}
