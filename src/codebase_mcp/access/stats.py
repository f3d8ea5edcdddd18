"""Statistics of a project."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from codebase_mcp.database.connection import Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory

_SQL = load_queries("codebase_mcp.access", "stats.sql")


@dataclass(frozen=True, slots=True)
class IndexSums:
    """Totals over all repositories of a project; ``size`` in bytes of source.

    ``models`` counts the repositories by the model of their index.
    """

    repositories: int
    files: int
    chunks: int
    size: int
    languages: dict[str, int]
    files_pending: int
    files_failed: int
    last_indexed_at: datetime | None
    models: dict[str, int]


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """The number of records of a project, by status (tasks, work items) or by type."""

    tasks: dict[str, int]
    observations: dict[str, int]
    sessions: int
    agents: int
    entities: dict[str, int]
    work_items: dict[str, int]


async def load_stats(tx: Transaction) -> tuple[IndexSums, RecordCounts]:
    """The statistics of a project."""
    sums = sums_of(await load_inventory(tx))
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for kind, label, count in await tx.fetch_all(_SQL["record_counts"]):
        counts[kind][label] = count
    return sums, RecordCounts(
        tasks=counts["task"],
        observations=counts["observation"],
        sessions=counts["session"][""],
        agents=counts["agent"][""],
        entities=counts["entity"],
        work_items=counts["work_item"],
    )


def sums_of(repositories: Sequence[RepositoryFacts]) -> IndexSums:
    """The totals over some repositories."""
    languages: Counter[str] = Counter()
    for repository in repositories:
        languages.update(repository.languages)
    times = [r.indexed_at for r in repositories if r.indexed_at is not None]
    return IndexSums(
        repositories=len(repositories),
        files=sum(r.files for r in repositories),
        chunks=sum(r.chunks for r in repositories),
        size=sum(r.size for r in repositories),
        languages=dict(languages.most_common()),
        files_pending=sum(r.files_pending for r in repositories),
        files_failed=sum(r.files_failed for r in repositories),
        last_indexed_at=max(times, default=None),
        models=dict(Counter(r.profile.model for r in repositories).most_common()),
    )
