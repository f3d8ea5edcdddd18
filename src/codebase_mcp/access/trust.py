"""May the context file of a directory refer to a project?

Yes, if the project was created because of it, or if a user allowed it. Otherwise the author of a
cloned repository could choose the project, and so give access to records of any project.
"""

from __future__ import annotations

from datetime import datetime

from codebase_mcp.database.connection import Database, Transaction
from codebase_mcp.database.projects import Project
from codebase_mcp.database.queries import load_queries

_SQL = load_queries("codebase_mcp.access", "projects.sql")


class Trust:
    """Stores permissions in the database, and caches them.

    Permissions end when a project is dropped. A later project with the same name has another time
    of creation.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._granted: set[tuple[str, str, datetime]] = set()

    async def is_granted(self, directory: str, project: Project) -> bool:
        """Whether the file of this directory may refer to the project."""
        key = (directory, project.schema_name, project.created_at)
        if key not in self._granted:
            async with self._database.catalogue(readonly=True) as tx:
                row = await tx.fetch_one(
                    _SQL["find_trust"], directory=directory, schema_name=project.schema_name
                )
            if row is None:
                return False
            self._granted.add(key)
        return True

    async def grant(self, directory: str, project: Project) -> None:
        """Allow the file of this directory to refer to the project."""
        key = (directory, project.schema_name, project.created_at)
        if key not in self._granted:
            async with self._database.catalogue() as tx:
                await enter_trust(tx, directory, project.schema_name)
            self._granted.add(key)


async def enter_trust(tx: Transaction, directory: str, schema_name: str) -> None:
    """Store that the file of this directory may refer to the project in this schema."""
    await tx.execute(_SQL["add_trust"], directory=directory, schema_name=schema_name)
