"""Which commits answer this question?

Commits are ranked by words and meaning, as observations are. All commits that pass the filters are
compared: a history has at most some ten thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.literals import dense_literal, sparse_literal
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.embedder import Vectors
from codebase_mcp.search.query import Query, inverse_frequencies
from codebase_mcp.search.relevance import Match, rank
from codebase_mcp.source.commit_log import PathChange
from codebase_mcp.text.tokens import ALL_CHUNKS, word_stems, words_of

_SQL = load_queries("codebase_mcp.search", "history.sql")

# The numbers of commits that are ranked: the best by words, and the nearest in meaning.
_BY_WORDS = 80
_BY_MEANING = 120


@dataclass(frozen=True, slots=True)
class HistoryFilters:
    """Conditions for commits; None allows all.

    ``path`` is a file or a directory, ``author`` a part of a name or an address in any case;
    ``until`` itself is excluded. ``only`` are the ids of the repositories.
    """

    path: str | None = None
    author: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    only: frozenset[UUID] | None = None

    def parameters(self) -> dict[str, Any]:
        """The filters as parameters of the statements."""
        return asdict(self) | {"only": None if self.only is None else list(self.only)}


@dataclass(frozen=True, slots=True)
class HistoryQuestion:
    """A query as terms and as a vector; ``version`` is the version of stored words and vectors."""

    query: Query
    vector: Vectors
    version: str


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """A stored commit; ``score`` is between 0 and 1, None without a question.

    ``changes`` have the best first. Unknown values are None. ``branches`` are the indexed branches
    with the commit, if HEAD does not have it.
    """

    repository_id: UUID
    hash: str
    author_name: str
    author_email: str
    authored_at: datetime
    message: str
    changes: tuple[PathChange, ...]
    paths_total: int | None
    added: int | None
    removed: int | None
    is_merge: bool
    branches: tuple[str, ...] = ()
    score: float | None = None
    excerpt: str = ""

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]


async def search_history(
    tx: Transaction, question: HistoryQuestion | None, filters: HistoryFilters, limit: int
) -> list[FoundCommit]:
    """The commits that answer a question, best first; without a question the newest commits."""
    await tx.fetch_all(_SQL["prepare"])
    if question is None:
        rows = await tx.fetch_all(_SQL["newest"], **filters.parameters(), limit=limit)
        return await _load(tx, {(row[0], row[1]): None for row in rows}, filters, None)
    terms = [term.id for term in question.query.terms]
    counted = await tx.fetch_all(_SQL["frequencies"], terms=terms, all=ALL_CHUNKS)
    frequency = inverse_frequencies(terms, dict(counted))
    rows = await tx.fetch_all(
        _SQL["matches"],
        **filters.parameters(),
        query=sparse_literal(frequency),
        vector=dense_literal(question.vector),
        model=question.version,
        by_words=_BY_WORDS,
        by_meaning=_BY_MEANING,
    )
    matches = [Match((row[0], row[1]), row[2], row[3]) for row in rows]
    compared = rows[0][4] if rows else 0
    best = rank(question.query, frequency, matches, compared)[:limit]
    scores = {commit.id: round(commit.relevance, 4) for commit in best}
    return await _load(tx, scores, filters, question.query)


async def _load(
    tx: Transaction,
    scores: dict[tuple[UUID, bytes], float] | dict[tuple[UUID, bytes], None],
    filters: HistoryFilters,
    query: Query | None,
) -> list[FoundCommit]:
    """Some commits, in this order."""
    if not scores:
        return []
    repositories, hashes = zip(*scores, strict=True)
    rows = await tx.fetch_all(
        _SQL["commits"], repository_ids=list(repositories), hashes=list(hashes)
    )
    by_key = {(row[0], row[1]): row for row in rows}
    return [_commit(by_key[key], score, filters, query) for key, score in scores.items()]


def _commit(
    row: Sequence[Any], score: float | None, filters: HistoryFilters, query: Query | None
) -> FoundCommit:
    repository_id, commit, name, email, at, message, paths, added, removed, former = row[:10]
    paths_total, lines_added, lines_removed, is_merge, branches = row[10:]
    unknown = [None] * len(paths)  # read by an earlier version
    columns = (paths, added or unknown, removed or unknown, former or unknown)
    changes = [PathChange(*change) for change in zip(*columns, strict=True)]
    changes.sort(key=lambda change: not _is_within(change.path, filters.path))
    excerpt = best_line(message, query)
    return FoundCommit(
        repository_id, commit.hex(), name, email, at, message, tuple(changes), paths_total,
        lines_added, lines_removed, is_merge, tuple(branches), score, excerpt,
    )  # fmt: skip


def _is_within(path: str, parent: str | None) -> bool:
    return parent is not None and (path == parent or path.startswith(f"{parent}/"))


def best_line(message: str, query: Query | None) -> str:
    """The line below the subject with most words of the query; the first line if none has any."""
    _, _, body = message.partition("\n")
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    stems = {term.text for term in query.terms} if query is not None else set()
    return max(lines, key=lambda line: len(stems & _stems(line)), default="")


def _stems(line: str) -> set[str]:
    return {stem for word in words_of(line) for stem in word_stems(word)}


@dataclass(frozen=True, slots=True)
class LastChange:
    """The commit that last changed some lines; ``commit`` is None if they are uncommitted."""

    commit: str | None
    author: str = ""
    date: datetime | None = None
    subject: str = "uncommitted"


async def newest_changes(
    tx: Transaction, places: Sequence[tuple[UUID, str]]
) -> list[LastChange | None]:
    """The newest stored commit that touched each of some paths of repositories."""
    changes: list[LastChange | None] = [None] * len(places)
    if places:
        repositories, paths = zip(*places, strict=True)
        rows = await tx.fetch_all(
            _SQL["newest_of_path"], repository_ids=list(repositories), paths=list(paths)
        )
        for number, commit, author, at, message in rows:
            changes[number - 1] = LastChange(commit.hex(), author, at, message.partition("\n")[0])
    return changes
