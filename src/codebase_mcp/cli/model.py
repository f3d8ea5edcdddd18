"""See with which embedding model each repository is indexed, and switch it, there and back."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from codebase_mcp.app import App
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.cli.indexing import progress_bar
from codebase_mcp.database.projects import Project
from codebase_mcp.embedding.models import Models
from codebase_mcp.errors import NotFound
from codebase_mcp.index.inventory import RepositoryFacts
from codebase_mcp.projects.health import model_notices
from codebase_mcp.settings import Settings
from codebase_mcp.tools.rules import check_project_id


async def model(options: argparse.Namespace, settings: Settings) -> int:
    """The model that is configured, and that of each repository."""
    async with await App.open(settings) as app:
        _, repositories = await _chosen(app, options, settings)
    if options.json:
        content = {
            "configured": app.embedder.name,
            "repositories": [_as_json(r, app.models) for r in repositories],
        }
        print(json.dumps(content, ensure_ascii=False, indent=2))
        return 0
    console = Console(highlight=False)
    console.print(f"configured: {app.embedder.name}", markup=False)
    if repositories:
        whole_path = Column("repository", overflow="fold")
        table = Table(whole_path, "indexed with", "kept since the last switch", box=None)
        for repository in repositories:
            table.add_row(repository.root, repository.profile.model, repository.kept_model or "—")
        console.print(table)
    for notice in model_notices(repositories, app.models):
        console.print(notice, style="yellow", markup=False)
    return 0


async def switch(options: argparse.Namespace, settings: Settings) -> int:
    """Embed repositories with the configured model; the old index answers until all is there."""
    outcomes = []
    async with await App.open(settings) as app:
        project, repositories = await _chosen(app, options, settings)
        for repository in repositories:
            is_done = app.models.is_configured(repository.profile)
            status, errors = "unchanged", []
            if not is_done:
                with progress_bar(hidden=options.json) as report:
                    run = (
                        await app.index(
                            repository.root,
                            project.project_id,
                            force_reindex=True,
                            progress=report,
                            identity=identity_here(settings),
                        )
                    ).run
                status = "failed" if run.status == "failed" else "switched"
                errors = run.errors
            outcomes.append((repository, status, errors))
            if not options.json:
                _say(repository, status, app.embedder.name, errors)
    if options.json:
        _print_json(outcomes)
    return 1 if any(status == "failed" for _, status, _ in outcomes) else 0


async def undo(options: argparse.Namespace, settings: Settings) -> int:
    """Let the indexes of before the last switch answer again, at once."""
    return await _each(options, settings, "undone", App.undo_switch)


async def keep(options: argparse.Namespace, settings: Settings) -> int:
    """Drop the indexes of before the last switch."""
    return await _each(options, settings, "dropped", App.keep_switch)


async def _each(
    options: argparse.Namespace,
    settings: Settings,
    done: str,
    change: Callable[[App, Project, Any], Awaitable[bool]],
) -> int:
    async with await App.open(settings) as app:
        project, repositories = await _chosen(app, options, settings)
        changed = [r for r in repositories if await change(app, project, r.id)]
        _, after = await _chosen(app, options, settings)
    if not changed:
        raise NotFound(
            "No index of before a switch is kept",
            hint="codebase-mcp model shows with which model each repository is indexed.",
        )
    now = {repository.id: repository for repository in after}
    if options.json:
        _print_json([(now[repository.id], done, []) for repository in changed])
    else:
        for repository in changed:
            _say(now[repository.id], done, now[repository.id].profile.model, [])
    return 0


async def _chosen(
    app: App, options: argparse.Namespace, settings: Settings
) -> tuple[Project, Sequence[RepositoryFacts]]:
    """The repositories that are meant, by directory or id; all of the project where none is named.

    Raises:
        NotFound: one that is named is not indexed.
    """
    project, _ = await app.resolver.resolve(
        check_project_id(options.project), identity_here(settings)
    )
    [facts] = await app.projects([project])
    named = getattr(options, "repositories", None) or []
    by_name = {str(r.id): r for r in facts.repositories} | {r.root: r for r in facts.repositories}
    chosen = []
    for name in named:
        found = by_name.get(name) or by_name.get(str(Path(name).expanduser().resolve()))
        if found is None:
            raise NotFound(
                f"Repository not found: {name}",
                hint="Indexed repositories: "
                + (", ".join(r.root for r in facts.repositories) or "none"),
            )
        chosen.append(found)
    return project, chosen if named else facts.repositories


def _say(repository: RepositoryFacts, status: str, model_name: str, errors: Sequence[str]) -> None:
    console = Console(highlight=False)
    words = {
        "unchanged": f"is indexed with {model_name} already",
        "switched": f"is indexed with {model_name} now. codebase-mcp model undo goes back, "
        "codebase-mcp model keep drops the old index",
        "failed": "could not be switched; the old index answers, and the same command goes on",
        "undone": f"is indexed with {model_name} again; index it to bring it up to date. "
        "codebase-mcp model undo goes forth again",
        "dropped": f"keeps only its index with {model_name}",
    }
    colour = "red" if status == "failed" else "green"
    console.print(repository.root, style=colour, end=" ", markup=False)
    console.print(words[status], markup=False)
    for error in errors:
        console.print(error, style="yellow", markup=False)


def _print_json(outcomes: Sequence[tuple[RepositoryFacts, str, Sequence[str]]]) -> None:
    content = [
        {"repository_id": str(r.id), "root": r.root, "status": status, "errors": list(errors)}
        for r, status, errors in outcomes
    ]
    print(json.dumps(content, ensure_ascii=False, indent=2))


def _as_json(repository: RepositoryFacts, models: Models) -> dict[str, Any]:
    return {
        "repository_id": str(repository.id),
        "root": repository.root,
        "model": repository.profile.model,
        "dimension": repository.profile.dimension,
        "is_configured": models.is_configured(repository.profile),
        "kept_model": repository.kept_model,
        "coming_model": repository.coming_model,
    }
