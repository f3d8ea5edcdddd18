"""What is indexed in this project?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.embedding.profile import Profile

_SQL = load_queries("codebase_mcp.index", "inventory.sql")

INVENTORY: Sequence[Statement] = [
    (_SQL[name], {}) for name in ("repositories", "languages", "encoding_counts")
]
ROOTS: Statement = (_SQL["roots"], {})


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A repository with the size and state of its index; ``size`` is in bytes of source.

    ``profile`` is the version and model that made the index; ``commits`` is the number of stored
    commits; ``encodings`` counts the files that are not in UTF-8.
    """

    id: UUID
    root: str
    name: str
    files: int
    chunks: int
    size: int
    files_pending: int
    files_failed: int
    files_skipped: dict[str, int]
    indexed_at: datetime | None
    commits: int
    profile: Profile
    languages: dict[str, int]
    encodings: dict[str, int]


@dataclass(frozen=True, slots=True)
class RepositoryName:
    """The id, directory and name of a repository."""

    id: UUID
    root: str
    name: str


@dataclass(frozen=True, slots=True)
class RepositoryDetails:
    """The files of a repository that need attention, and its size.

    ``failures`` are files that could not be indexed, with the reason; ``sizes`` are bytes by
    language, the largest first; ``secrets`` counts the masked secrets by file; ``encodings`` are
    those of files that are not in UTF-8. ``uncounted`` files were masked by a version that did not
    count secrets.
    """

    failures: tuple[tuple[str, str], ...]
    sizes: dict[str, int]
    secrets: dict[str, int]
    encodings: dict[str, str]
    uncounted: int = 0


async def load_inventory(tx: Transaction) -> tuple[RepositoryFacts, ...]:
    """All repositories of the project, by root."""
    return inventory_of(await tx.fetch_many(INVENTORY))


def inventory_of(rows: Sequence[Sequence[Row]]) -> tuple[RepositoryFacts, ...]:
    """The repositories of a project, from the rows of the statements ``INVENTORY``."""
    repositories, *counts = rows
    languages, encodings = map(_by_repository, counts)
    return tuple(
        RepositoryFacts(
            *[*row[:8], json.loads(row[8]), *row[9:11], Profile.from_row(row[11:])],
            *(counts_of[row[0]] for counts_of in (languages, encodings)),
        )
        for row in repositories
    )


async def load_details(
    tx: Transaction, repositories: Sequence[UUID]
) -> dict[UUID, RepositoryDetails]:
    """The details of these repositories."""
    names = ("failures", "uncounted", "sizes", "secrets", "encodings")
    failures, uncounted, *files = await tx.fetch_many(
        [(_SQL[name], {"ids": list(repositories)}) for name in names]
    )
    sizes, secrets, encodings = map(_by_repository, files)
    uncounted_files: dict[UUID, int] = dict(uncounted)
    return {
        repository_id: RepositoryDetails(
            tuple((path, reason) for path, reason in json.loads(failed)),
            sizes[repository_id],
            secrets[repository_id],
            encodings[repository_id],
            uncounted_files.get(repository_id, 0),
        )
        for repository_id, failed in failures
    }


def _by_repository(rows: Iterable[Sequence[Any]]) -> dict[UUID, dict[str, Any]]:
    """Rows of a repository's id, a key and a value, as a mapping per repository."""
    values: dict[UUID, dict[str, Any]] = defaultdict(dict)
    for repository_id, key, value in rows:
        values[repository_id][key] = value
    return values


async def load_repositories(tx: Transaction) -> list[RepositoryName]:
    """The repositories of a project, by root, also while their first run is active."""
    return [RepositoryName(*row) for row in await tx.fetch_all(_SQL["names"])]


def roots_of(rows: Iterable[Row]) -> list[tuple[Path, datetime]]:
    """A project's directories, and when each was indexed, from the rows of ``ROOTS``."""
    return [(Path(root), indexed_at) for root, indexed_at in rows if indexed_at is not None]


async def count_items(tx: Transaction, repositories: Sequence[UUID]) -> int:
    """The number of files, chunks and vectors of these repositories."""
    [[count]] = await tx.fetch_all(_SQL["count_items"], ids=list(repositories))
    return int(count)
