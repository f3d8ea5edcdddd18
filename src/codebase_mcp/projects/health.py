"""Does everything work that calls of this caller need?

This question gets an answer also when nothing works.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from codebase_mcp.database.connection import Database
from codebase_mcp.embedding.embedder import profile_mismatch
from codebase_mcp.errors import CodebaseError, InvalidInput, PermissionDenied, ProjectNotFound
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory
from codebase_mcp.projects.identity import Identity
from codebase_mcp.projects.resolution import ProjectSource, Resolver, in_words
from codebase_mcp.projects.stats import IndexSums, load_models, sums_of

Status = Literal["healthy", "degraded", "unhealthy"]


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """The server and how long it takes to answer; None where it does not."""

    version: str | None = None
    embedded: bool | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What works.

    ``source`` says how the call came to its project, ``index`` is of that project; None where the
    database cannot tell.
    """

    status: Status
    database: DatabaseHealth
    index: IndexSums | None
    problems: list[str]
    project_id: str | None = None
    source: ProjectSource | None = None


async def examine(
    database: Database,
    resolver: Resolver,
    project_id: str | None,
    identity: Identity,
    *,
    profile: str,
    model: str,
) -> Health:
    """Look at the database, at what the call means, and at the index of that project.

    ``profile`` and ``model`` are what this process would make an index with.

    Raises:
        InvalidInput: the id is none.
        ProjectNotFound: the call names a project that does not exist.
    """
    try:
        server = await _ask(database)
    except CodebaseError as error:
        return Health("unhealthy", DatabaseHealth(), None, [in_words(error)])
    problems = await _workflow_problems(resolver)
    try:
        project, source = await resolver.resolve(project_id, identity)
        await resolver.look_again(project, source)
    except (InvalidInput, ProjectNotFound, PermissionDenied) as error:
        if project_id is not None:
            raise
        problems.append(in_words(error))
        now = await resolver.current(identity)
        return Health("degraded", server, None, problems, now.project_id, now.source)
    async with database.transaction(project, readonly=True) as tx:
        repositories = await load_inventory(tx)
        problems += index_problems(repositories, await load_models(tx), profile, model)
    return Health(
        "degraded" if problems else "healthy",
        server,
        sums_of(repositories),
        problems,
        project.project_id,
        source,
    )


def index_problems(
    repositories: Iterable[RepositoryFacts],
    models: Iterable[tuple[str, str]],
    profile: str,
    model: str,
) -> list[str]:
    """What is wrong with an index, in words."""
    problems = [
        in_words(profile_mismatch(stored_model, model))
        for stored_profile, stored_model in models
        if stored_profile != profile
    ]
    for repository in repositories:
        what = f"of {repository.name} ({repository.root})"
        if repository.indexed_at is None or repository.files_pending:
            problems.append(
                f"{_files(repository.files_pending)} {what} not indexed yet: a run is going on, or"
                " call index_repository to go on"
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


async def _workflow_problems(resolver: Resolver) -> list[str]:
    if resolver.workflow is None:
        return []
    answer = await resolver.workflow.active_project()
    if answer.problem is None:
        return []
    return [f"workflow-mcp does not say which project is active: {answer.problem}"]


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
