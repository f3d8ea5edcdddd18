"""What is indexed in this project?"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.profile import Profile

_SQL = load_queries("codebase_mcp.index", "inventory.sql")


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A repository with the size and state of its index; ``size`` is in bytes of source.

    ``profile`` is what the index was made with; ``commits`` is the number of stored commits;
    ``encodings`` counts the files that are not in UTF-8.
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
    languages: dict[str, int]
    profile: Profile
    commits: int = 0
    encodings: dict[str, int] = field(default_factory=dict)


async def load_inventory(tx: Transaction) -> tuple[RepositoryFacts, ...]:
    """All repositories of the project, by root."""
    repositories, *counts = await tx.fetch_many(
        [(_SQL[name], {}) for name in ("repositories", "languages", "encoding_counts")]
    )
    languages, encodings = map(_by_repository, counts)
    return tuple(
        RepositoryFacts(
            id=row[0],
            root=row[1],
            name=row[2],
            files=row[3],
            chunks=row[4],
            size=row[5],
            files_pending=row[6],
            files_failed=row[7],
            files_skipped=json.loads(row[8]),
            indexed_at=row[9],
            languages=languages[row[0]],
            commits=row[10],
            encodings=encodings[row[0]],
            profile=Profile.from_row(row[11:]),
        )
        for row in repositories
    )


def _by_repository(rows: Iterable[Sequence[Any]]) -> dict[UUID, dict[str, Any]]:
    """Rows of a repository's id, a key and a value, as a mapping per repository."""
    found: dict[UUID, dict[str, Any]] = defaultdict(dict)
    for repository_id, key, value in rows:
        found[repository_id][key] = value
    return found


@dataclass(frozen=True, slots=True)
class RepositoryName:
    """Which repository: its id, where it is, and what it is called."""

    id: UUID
    root: str
    name: str


async def load_repositories(tx: Transaction) -> list[RepositoryName]:
    """The repositories of a project, by root."""
    return [RepositoryName(*row) for row in await tx.fetch_all(_SQL["names"])]


async def load_roots(tx: Transaction) -> list[tuple[Path, datetime]]:
    """Where the repositories of a project are, and when each was indexed."""
    rows = await tx.fetch_all(_SQL["roots"])
    return [(Path(root), indexed_at) for root, indexed_at in rows if indexed_at is not None]


@dataclass(frozen=True, slots=True)
class RepositoryDetails:
    """What else is known of a repository's index.

    ``failures`` are files with the reason why they could not be indexed, ``sizes`` bytes by
    language, the largest first; ``secrets`` is how many are masked in each file that has any, and
    ``uncounted`` the number of files of which that is not known; ``encodings`` are those of files
    that are not in UTF-8.
    """

    failures: tuple[tuple[str, str], ...]
    sizes: dict[str, int]
    secrets: dict[str, int]
    encodings: dict[str, str]
    uncounted: int = 0


async def load_details(tx: Transaction) -> dict[UUID, RepositoryDetails]:
    """The details of each repository of a project."""
    failures, uncounted, *files = await tx.fetch_many(
        [(_SQL[name], {}) for name in ("failures", "uncounted", "sizes", "secrets", "encodings")]
    )
    sizes, secrets, encodings = map(_by_repository, files)
    uncounted_of: dict[UUID, int] = dict(uncounted)
    return {
        repository_id: RepositoryDetails(
            tuple((path, reason) for path, reason in json.loads(found)),
            sizes[repository_id],
            secrets[repository_id],
            encodings[repository_id],
            uncounted_of.get(repository_id, 0),
        )
        for repository_id, found in failures
    }
