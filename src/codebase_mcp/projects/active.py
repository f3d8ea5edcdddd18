"""In which project does this caller work, since it last switched?"""

from __future__ import annotations

from dataclasses import dataclass

from codebase_mcp.database.connection import Database
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import PermissionDenied
from codebase_mcp.projects.identity import Identity

_SQL = load_queries("codebase_mcp.projects", "projects.sql")

# Sessions come and go, and nobody says which are over. Rather than to forget one that is not, and
# move its calls to another project, the one beyond this many hears that it must name its project.
MAX_OWNERS = 100_000


@dataclass(frozen=True, slots=True)
class Active:
    """The project that a caller switched to, None for the default workspace; it may be gone."""

    project_id: str | None


class ActiveProjects:
    """Keeps the active project of each caller: here, or in the database if others serve it too."""

    def __init__(self, database: Database, max_owners: int = MAX_OWNERS) -> None:
        self._database = database
        self._max_owners = max_owners
        self._here: dict[str, Active] = {}

    async def of(self, identity: Identity) -> Active | None:
        """The active project of a caller, if it has switched to one."""
        if identity.owner is None:
            return None
        if not identity.is_shared:
            return self._here.get(identity.owner)
        async with self._database.catalogue(readonly=True) as tx:
            row = await tx.fetch_one(_SQL["find_active"], owner=identity.owner)
        return None if row is None else Active(row[0])

    def require_owner(self, identity: Identity) -> None:
        """Make sure that what is kept for this caller will be its own.

        Raises:
            PermissionDenied: the next call of this caller could not be told from another's.
        """
        is_new = not identity.is_shared and identity.owner not in self._here
        if identity.owner is None or (is_new and len(self._here) >= self._max_owners):
            raise PermissionDenied(
                "No active project can be kept for you: your calls cannot be told from others'",
                hint="Pass project_id with each call.",
            )

    async def switch(self, identity: Identity, project_id: str | None) -> None:
        """Let a caller work in a project from now on.

        Raises:
            PermissionDenied: the next call of this caller could not be told from another's.
        """
        self.require_owner(identity)
        assert identity.owner is not None
        if not identity.is_shared:
            self._here[identity.owner] = Active(project_id)
            return
        async with self._database.catalogue() as tx:
            await tx.execute(_SQL["set_active"], owner=identity.owner, project_id=project_id)
