"""The active project of each caller, which `switch_project` sets."""

from __future__ import annotations

from dataclasses import dataclass

from codebase_mcp.access.identity import Identity
from codebase_mcp.database.connection import Database
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import PermissionDenied

_SQL = load_queries("codebase_mcp.access", "projects.sql")

# The end of a session is unknown. Forgetting an active session would move its calls to a different
# project, so beyond this number new callers must pass a project id instead.
MAX_OWNERS = 100_000


@dataclass(frozen=True, slots=True)
class Active:
    """The project that a caller switched to, None for the default workspace; it may not exist."""

    project_id: str | None


class ActiveProjects:
    """Stores the active project of each caller: in memory, or in the database if it is shared."""

    def __init__(self, database: Database, max_owners: int = MAX_OWNERS) -> None:
        self._database = database
        self._max_owners = max_owners
        self._in_memory: dict[str, Active] = {}

    async def of(self, identity: Identity) -> Active | None:
        """The active project of a caller, if it has switched to a project."""
        if identity.owner is None:
            return None
        if not identity.is_shared:
            return self._in_memory.get(identity.owner)
        async with self._database.catalogue(readonly=True) as tx:
            row = await tx.fetch_one(_SQL["find_active"], owner=identity.owner)
        return None if row is None else Active(row[0])

    def require_owner(self, identity: Identity) -> None:
        """Make sure that an active project can be stored for this caller.

        Raises:
            PermissionDenied: the server cannot distinguish callers.
        """
        is_new = not identity.is_shared and identity.owner not in self._in_memory
        if identity.owner is None or (is_new and len(self._in_memory) >= self._max_owners):
            raise PermissionDenied(
                "No active project can be stored: the server cannot distinguish callers",
                hint="Pass project_id with each call.",
            )

    async def switch(self, identity: Identity, project_id: str | None) -> None:
        """Set the active project of a caller.

        Raises:
            PermissionDenied: the server cannot distinguish callers.
        """
        self.require_owner(identity)
        assert identity.owner is not None
        if not identity.is_shared:
            self._in_memory[identity.owner] = Active(project_id)
            return
        async with self._database.catalogue() as tx:
            await tx.execute(_SQL["set_active"], owner=identity.owner, project_id=project_id)
