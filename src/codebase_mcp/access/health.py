"""What does a project hold, and does everything work that its callers need?

The check also succeeds when nothing works.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from codebase_mcp.access.identity import Identity
from codebase_mcp.access.resolution import ProjectSource, Resolver, in_words
from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.queries import load_queries
from codebase_mcp.embedding.models import Models
from codebase_mcp.embedding.profile import Profile
from codebase_mcp.errors import (
    CodebaseError,
    EmbeddingUnavailable,
    InvalidInput,
    PermissionDenied,
    ProjectNotFound,
)
from codebase_mcp.index.identity import PROGRAM_VERSION
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory
from codebase_mcp.index.queue import NO_WORKER, IndexJob, JobQueue
from codebase_mcp.index.secondary_model import SecondaryModelState, load_state

_SQL = load_queries("codebase_mcp.access", "stats.sql")

Status = Literal["healthy", "degraded", "unhealthy"]


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
class DatabaseHealth:
    """The server and its latency; None if it does not answer."""

    version: str | None = None
    embedded: bool | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class EmbedderHealth:
    """The configured model; None for what a service does not report."""

    name: str
    provider: str
    fingerprint: str | None = None
    dimension: int | None = None


@dataclass(frozen=True, slots=True)
class JobsHealth:
    """The number of workers in all processes, and of this project's jobs.

    ``failed`` counts the repositories whose newest job failed.
    """

    workers: int
    waiting: int
    running: int
    failed: int


@dataclass(frozen=True, slots=True)
class Health:
    """The result of the check.

    ``source`` says how the project of the call was found; ``index`` and ``jobs`` are of that
    project, None if the database is unavailable. ``notices`` are not problems.
    """

    status: Status
    database: DatabaseHealth
    embedder: EmbedderHealth
    index: IndexSums | None
    problems: list[str]
    notices: list[str] = field(default_factory=list)
    project_id: str | None = None
    source: ProjectSource | None = None
    jobs: JobsHealth | None = None
    secondary_model: SecondaryModelState | None = None


async def load_stats(tx: Transaction) -> tuple[IndexSums, dict[str, Any]]:
    """The totals of a project, and its records: how many of each status or type."""
    sums = sums_of(await load_inventory(tx))
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for kind, label, count in await tx.fetch_all(_SQL["record_counts"]):
        counts[kind][label] = count
    return sums, {
        "tasks": counts["task"],
        "observations": counts["observation"],
        "sessions": counts["session"][""],
        "agents": counts["agent"][""],
        "entities": counts["entity"],
        "work_items": counts["work_item"],
    }


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


async def examine(
    database: Database,
    resolver: Resolver,
    project_id: str | None,
    identity: Identity,
    *,
    models: Models,
    queue: JobQueue,
) -> Health:
    """Check database and embedder, resolve the project, and check its index and jobs.

    Raises:
        InvalidInput: the id is invalid.
        ProjectNotFound: the call names a project that does not exist.
    """
    embedder, problems = await _try_embedder(models)
    try:
        server = await _ask(database)
    except CodebaseError as error:
        problems.insert(0, in_words(error))
        return Health("unhealthy", DatabaseHealth(), embedder, None, problems)
    if fault := await database.describe_standby():
        problems.append(f"Searches use the primary, as {fault}")
    problems += await _workflow_problems(resolver)
    try:
        project, source = await resolver.resolve(project_id, identity)
        await resolver.recheck(project, source)
    except (InvalidInput, ProjectNotFound, PermissionDenied) as error:
        if project_id is not None:
            raise
        problems.append(in_words(error))
        now = await resolver.current(identity)
        return Health("degraded", server, embedder, None, problems, [], now.project_id, now.source)
    async with database.transaction(project, readonly=True) as tx:
        repositories = await load_inventory(tx)
        secondary = await load_state(tx, models.embedder.name if models.has_secondary else None)
    problems += await _model_problems(repositories, models)
    problems += index_problems(repositories)
    jobs, workers = await queue.jobs(project.schema_name), await queue.workers()
    problems += job_problems(jobs, workers)
    return Health(
        "degraded" if problems else "healthy",
        server,
        embedder,
        sums_of(repositories),
        problems,
        model_notices(repositories, models),
        project.project_id,
        source,
        jobs_of(jobs, workers),
        secondary,
    )


def jobs_of(jobs: Sequence[IndexJob], workers: int) -> JobsHealth:
    """Count jobs; the newest come last."""
    pending = Counter(job.status for job in jobs if job.is_pending)
    failed = sum(job.status == "failed" for job in _newest(jobs))
    return JobsHealth(workers, pending["waiting"], pending["running"], failed)


def job_problems(jobs: Sequence[IndexJob], workers: int) -> list[str]:
    """The problems of some jobs, as text."""
    problems = [
        f"The last index job of {job.root} failed: {(job.error or {}).get('message')}"
        for job in _newest(jobs)
        if job.status == "failed"
    ]
    if not workers and any(job.is_pending for job in jobs):
        problems.append(NO_WORKER)
    return problems


def _newest(jobs: Sequence[IndexJob]) -> Iterable[IndexJob]:
    """The newest job of each repository."""
    return {job.repository_id: job for job in jobs}.values()


def model_notices(repositories: Iterable[RepositoryFacts], models: Models) -> list[str]:
    """Notices about the versions and models that indexes were made with, as text."""
    return [
        notice
        for repository in repositories
        if (notice := _model_notice(repository, models)) is not None
    ]


def _unmasked(profile: Profile) -> str:
    """A note on an index whose secrets were masked by earlier rules."""
    is_masked = profile.version.split(".")[-1:] == PROGRAM_VERSION.split(".")[-1:]
    return "" if is_masked else ". Until then it may show secrets that this version masks"


def _model_notice(repository: RepositoryFacts, models: Models) -> str | None:
    profile, named = repository.profile, f"{repository.name} ({repository.root})"
    if models.is_outdated(profile, PROGRAM_VERSION):
        return (
            f"{named} was indexed by an earlier version of this program: words and names can be"
            " searched, and the next search rebuilds the index in the background; index_repository"
            f" rebuilds it at once{_unmasked(profile)}"
        )
    if models.is_primary(profile):
        return None
    return (
        f"{named} is indexed with the model {profile.model}, which is still used for it; new"
        f" indexes are made with {models.primary_embedder.name}. index_repository with"
        " force_reindex=true rebuilds it with that one"
    )


def index_problems(repositories: Iterable[RepositoryFacts]) -> list[str]:
    """The problems of indexes, as text."""
    problems = []
    for repository in repositories:
        what = f"of {repository.name} ({repository.root})"
        if repository.indexed_at is None or repository.files_pending:
            problems.append(
                f"{_files(repository.files_pending)} {what} not indexed yet: a run is active, or"
                " call index_repository to continue"
            )
        if repository.files_failed:
            problems.append(
                f"{_files(repository.files_failed)} {what} could not be indexed: index_repository"
                " says which and why"
            )
    return problems


async def _ask(database: Database) -> DatabaseHealth:
    await database.check()  # connects, if need be
    started = time.perf_counter()
    facts = await database.check()
    latency_ms = (time.perf_counter() - started) * 1000
    return DatabaseHealth(facts.server_version, facts.embedded, round(latency_ms, 2))


async def _try_embedder(models: Models) -> tuple[EmbedderHealth, list[str]]:
    """Embed a text with the configured model, as a service may have become unavailable."""
    name, provider = models.embedder.name, models.recipe.provider
    try:
        facts = (await models.configured()).facts
        await models.embedder.embed_query("health")
    except EmbeddingUnavailable as error:
        return EmbedderHealth(name, provider), [in_words(error)]
    return EmbedderHealth(facts.name, provider, facts.fingerprint, facts.dimension), []


async def _model_problems(repositories: Iterable[RepositoryFacts], models: Models) -> list[str]:
    """Why an index cannot be searched with the model that made it, as text."""
    problems = []
    for profile in {r.profile.fingerprint: r.profile for r in repositories}.values():
        try:
            await models.of_index(profile)
        except EmbeddingUnavailable as error:
            if not models.is_outdated(profile, PROGRAM_VERSION):
                problems.append(in_words(error))
    return problems


async def _workflow_problems(resolver: Resolver) -> list[str]:
    if resolver.workflow is None:
        return []
    answer = await resolver.workflow.active_project()
    if answer.problem is None:
        return []
    return [f"workflow-mcp does not report the active project: {answer.problem}"]


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
