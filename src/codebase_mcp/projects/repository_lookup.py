"""Which projects have indexed the repository around a directory?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import Project, list_projects
from codebase_mcp.errors import InternalError
from codebase_mcp.index.inventory import load_roots


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
