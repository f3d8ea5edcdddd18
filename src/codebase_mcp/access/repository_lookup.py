"""Finds the indexed repository of a directory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.errors import InternalError, NotFound
from codebase_mcp.index.inventory import RepositoryFacts, load_inventory, load_roots


@dataclass(frozen=True, slots=True)
class IndexedIn:
    """A project, the root of its repository, and when that was indexed."""

    project: Project
    root: Path
    indexed_at: datetime


async def projects_at(database: Database, directory: Path) -> list[IndexedIn]:
    """The projects with the innermost repository around a directory, last indexed first."""
    directory = directory.resolve()
    roots: list[IndexedIn] = []
    for project in await list_projects(database):
        with suppress(InternalError):  # dropped meanwhile
            async with database.transaction(project, readonly=True) as tx:
                roots += [IndexedIn(project, *row) for row in await load_roots(tx)]
    around = [entry for entry in roots if directory.is_relative_to(entry.root)]
    depth = max((len(entry.root.parts) for entry in around), default=0)
    innermost = [entry for entry in around if len(entry.root.parts) == depth]
    return sorted(innermost, key=lambda entry: entry.indexed_at, reverse=True)


async def find_repository(
    database: Database, project: Project, repo_path: str | Path
) -> RepositoryFacts:
    """An indexed repository by its directory, which need not exist any more, or its id.

    Raises:
        NotFound: the project has no such repository.
    """
    roots = {str(Path(repo_path).expanduser().absolute()), str(Path(repo_path).resolve())}
    async with database.transaction(project, readonly=True) as tx:
        indexed = await load_inventory(tx)
    match = next((r for r in indexed if r.root in roots or str(r.id) == str(repo_path)), None)
    if match is None:
        raise repository_not_found(repo_path, indexed)
    return match


def repository_not_found(repo_path: str | Path, indexed: Sequence[RepositoryFacts]) -> NotFound:
    """The error that names the indexed repositories."""
    return NotFound(
        f"Repository not found: {repo_path}",
        hint="Indexed repositories: " + (", ".join(r.root for r in indexed) or "none"),
    )
