"""Which repository is meant by a directory, and which projects have indexed it?"""

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
    found = []
    for project in await list_projects(database):
        with suppress(InternalError):  # dropped meanwhile
            async with database.transaction(project, readonly=True) as tx:
                found += [IndexedIn(project, *row) for row in await load_roots(tx)]
    around = [one for one in found if directory.is_relative_to(one.root)]
    depth = max((len(one.root.parts) for one in around), default=0)
    innermost = [one for one in around if len(one.root.parts) == depth]
    return sorted(innermost, key=lambda one: one.indexed_at, reverse=True)


async def find_repository(
    database: Database, project: Project, repo_path: str | Path
) -> RepositoryFacts:
    """An indexed repository by its directory, which need not exist any more, or its id.

    Raises:
        NotFound: the project has no such repository.
    """
    wanted = {str(Path(repo_path).expanduser().absolute()), str(Path(repo_path).resolve())}
    async with database.transaction(project, readonly=True) as tx:
        known = await load_inventory(tx)
    match = next((r for r in known if r.root in wanted or str(r.id) == str(repo_path)), None)
    if match is None:
        raise repository_not_found(repo_path, known)
    return match


def repository_not_found(repo_path: str | Path, known: Sequence[RepositoryFacts]) -> NotFound:
    """The error that names the repositories that are there."""
    return NotFound(
        f"Repository not found: {repo_path}",
        hint="Indexed repositories: " + (", ".join(r.root for r in known) or "none"),
    )
