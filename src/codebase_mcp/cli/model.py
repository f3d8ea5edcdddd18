"""Show which embedding models a project has, and backfill the secondary model's vectors."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.table import Column, Table

from codebase_mcp.access.health import model_notices
from codebase_mcp.app.app import App
from codebase_mcp.app.background.backfill import Backfill
from codebase_mcp.cli.output import print_json, tell
from codebase_mcp.cli.shell import identity_here, progress_bar
from codebase_mcp.cli.terminal import console
from codebase_mcp.database.connection import ProjectTryLocks
from codebase_mcp.database.naming import Project, backfill_lock
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index import secondary_model
from codebase_mcp.index.inventory import RepositoryFacts
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.secondary_model import SecondaryModelState
from codebase_mcp.settings.loading import Settings

# The interval at which the progress of another process is read.
_POLL_S = 1.0


async def model(options: argparse.Namespace, settings: Settings) -> int:
    """The primary and secondary models, that of each repository, and the state of the backfill."""
    async with await App.open(settings) as app:
        project, repositories, _ = await _chosen(app, options, settings)
        state = await secondary_state(app, project)
        content = {
            "first_tier": app.models.primary_embedder.name,
            "second_tier": None if state is None else asdict(state),
            "repositories": [_as_json(r, app.models) for r in repositories],
        }
        notices = model_notices(repositories, app.models)
    if options.json:
        return print_json(content)
    console.print(f"primary model:   {content['first_tier']}")
    console.print(f"secondary model: {in_words(state)}")
    if repositories:
        table = Table(Column("repository", overflow="fold"), "indexed with", box=None)
        for repository in repositories:
            table.add_row(repository.root, repository.profile.model)
        console.print(table)
    for notice in notices:
        console.print(notice, style="yellow")
    return 0


async def grow(options: argparse.Namespace, settings: Settings) -> int:
    """Backfill the secondary model's vectors, or wait until another process has done it."""
    async with await App.open(settings) as app:
        if not app.models.has_secondary:
            raise InvalidInput(
                "No secondary embedding model is configured",
                hint="Set OLLAMA_BASE_URL, CODEBASE_MCP_EMBEDDING_PROVIDER or"
                " CODEBASE_MCP_EMBEDDING_MODEL; docs/embedding.md says how.",
            )
        project, _, named = await _chosen(app, options, settings)
        with progress_bar(hidden=options.json) as report:
            async with app.database.try_locks() as locks:
                state = await _grown(app, project, named, locks, report)
    if options.json:
        print_json(asdict(state))
    else:
        console.print(in_words(state))
    return 0 if state.state == "complete" else 1


async def drop(options: argparse.Namespace, settings: Settings) -> int:
    """Delete the vectors of secondary models of a project."""
    async with await App.open(settings) as app:
        project, _, _ = await _chosen(app, options, settings)
        async with app.database.transaction(project) as tx:
            is_dropped = await secondary_model.drop(tx)
    if not is_dropped:
        raise NotFound(
            "The project has no vectors of a secondary model",
            hint="codebase-mcp model shows which models it has.",
        )
    text = "Deleted the secondary model's vectors. Searches use the primary model."
    return tell(options, {"status": "dropped"}, text)


def in_words(state: SecondaryModelState | None) -> str:
    if state is None:
        return "none"
    words = f"{state.model}, {state.chunks_done:,} of {state.chunks_total:,} chunks, {state.state}"
    if state.replaces:
        words += f"; {state.replaces} answers until then"
    return f"{words}: {state.error}" if state.error else words


async def _grown(
    app: App, project: Project, named: Sequence[UUID] | None, locks: ProjectTryLocks, report: Any
) -> SecondaryModelState:
    name = app.models.embedder.name
    while not await locks.acquire(project, backfill_lock()):
        state = await secondary_state(app, project, named)
        if state is not None and state.state == "complete":
            return state
        if state is not None:
            report(
                RunProgress(state.chunks_done, state.chunks_total, f"{name}, by another process")
            )
        await asyncio.sleep(_POLL_S)
    state = await secondary_state(app, project, named)
    done, total = (state.chunks_done, state.chunks_total) if state is not None else (0, 0)
    report(RunProgress(done, total, name))

    def tell(added: int) -> None:
        nonlocal done
        done += added
        report(RunProgress(done, max(done, total), name))

    await Backfill(app.database, app.models).run(project, named, progress=tell)
    await locks.release(project, backfill_lock())
    state = await secondary_state(app, project, named)
    assert state is not None
    return state


async def secondary_state(
    app: App, project: Project, named: Sequence[UUID] | None = None
) -> SecondaryModelState | None:
    """The state of the backfill of a project, or of some of its repositories."""
    configured = app.models.embedder.name if app.models.has_secondary else None
    async with app.database.transaction(project, readonly=True) as tx:
        return await secondary_model.load_state(tx, configured, named)


async def _chosen(
    app: App, options: argparse.Namespace, settings: Settings
) -> tuple[Project, Sequence[RepositoryFacts], Sequence[UUID] | None]:
    """The project, its repositories, and the ids of the repositories that the options name."""
    project, _ = await app.resolver.resolve(options.project, identity_here(settings))
    [facts] = await app.projects([project])
    named = getattr(options, "repositories", None) or []
    by_name = {str(r.id): r for r in facts.repositories} | {r.root: r for r in facts.repositories}
    chosen = []
    for name in named:
        repository = by_name.get(name) or by_name.get(str(Path(name).expanduser().resolve()))
        if repository is None:
            raise NotFound(
                f"Repository not found: {name}",
                hint="Indexed repositories: "
                + (", ".join(r.root for r in facts.repositories) or "none"),
            )
        chosen.append(repository.id)
    return project, facts.repositories, chosen or None


def _as_json(repository: RepositoryFacts, models: Models) -> dict[str, Any]:
    return {
        "repository_id": repository.id,
        "root": repository.root,
        "model": repository.profile.model,
        "dimension": repository.profile.dimension,
        "is_first_tier": models.is_primary(repository.profile),
    }
