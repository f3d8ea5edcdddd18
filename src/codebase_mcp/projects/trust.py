"""May the context file of this directory name that project?

Yes, if it made the project, or if somebody said so since. Otherwise whoever clones a repository
would work in the project that its author chose, among the records of another.
"""

from __future__ import annotations

from datetime import datetime

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries

_SQL = load_queries("codebase_mcp.projects", "projects.sql")


class Trust:
    """Remembers what was allowed, in the database and, once known, here.

    Dropping a project ends it. One that is made later under the same name is another, which its
    time of creation tells.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[tuple[str, str, datetime]] = set()

    async def holds(self, directory: str, project: Project) -> bool:
        """Whether the file of this directory may name the project."""
        key = (directory, project.schema_name, project.created_at)
        if key not in self._known:
            async with self._database.catalogue(readonly=True) as tx:
                row = await tx.fetch_one(
                    _SQL["find_trust"], directory=directory, schema_name=project.schema_name
                )
            if row is None:
                return False
            self._known.add(key)
        return True

    async def grant(self, directory: str, project: Project) -> None:
        """Let the file of this directory name the project."""
        key = (directory, project.schema_name, project.created_at)
        if key not in self._known:
            async with self._database.catalogue() as tx:
                await enter_trust(tx, directory, project.schema_name)
            self._known.add(key)


async def enter_trust(tx: Transaction, directory: str, schema_name: str) -> None:
    """Store that the file of this directory may name the project in this schema."""
    await tx.execute(_SQL["add_trust"], directory=directory, schema_name=schema_name)
