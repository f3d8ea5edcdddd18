"""Which schemas are behind this program? Reports them, or migrates them.

By default each schema is migrated on first use. Here they are migrated at once, so that an
administrator can do so with a more privileged role, or ahead of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from codebase_mcp.database.connection import Database
from codebase_mcp.database.migrate import Scope, known_migrations, pending, read_ledger
from codebase_mcp.database.projects import canonical, find_project, list_projects
from codebase_mcp.errors import CodebaseError


@dataclass(frozen=True, slots=True)
class SchemaState:
    """A schema, its version, and how many migrations it lacks or were applied now.

    ``problem`` says why it cannot be migrated.
    """

    schema_name: str
    version: int
    behind: int = 0
    applied: int = 0
    problem: str | None = None


async def check_schemas(
    db: Database, project_id: str | None, *, every: bool = False
) -> list[SchemaState]:
    """The state of the catalogue and of a project, or of every project; changes nothing.

    Raises:
        ProjectNotFound: the project does not exist.
    """
    catalogue = await _state(db, "catalogue", db.catalogue_schema)
    if catalogue.behind or catalogue.problem:
        return [catalogue]  # the list of projects cannot be read yet
    projects = await list_projects(db)
    if not every:  # a default workspace that was never used does not exist, and lacks nothing
        project_id = canonical(project_id)
        if project_id is not None:
            await find_project(db, project_id)
        projects = [project for project in projects if project.project_id == project_id]
    return [catalogue] + [await _state(db, "project", project.schema_name) for project in projects]


async def upgrade(
    db: Database, project_id: str | None, *, every: bool = False
) -> list[SchemaState]:
    """Migrate the catalogue and a project, or every project.

    A project that cannot be migrated does not stop the rest.

    Raises:
        ProjectNotFound: the project does not exist.
        DatabaseUnavailable: it is unavailable, or its catalogue is newer than this program.
    """
    applied = await db.migrate("catalogue", db.catalogue_schema)
    done = [SchemaState(db.catalogue_schema, len(known_migrations("catalogue")), applied=applied)]
    projects = await list_projects(db) if every else [await find_project(db, project_id)]
    for project in projects:
        before = await _state(db, "project", project.schema_name)
        try:
            applied = await db.migrate("project", project.schema_name)
        except CodebaseError as error:
            done.append(SchemaState(project.schema_name, before.version, problem=error.message))
        else:
            version = len(known_migrations("project"))
            done.append(SchemaState(project.schema_name, version, applied=applied))
    return done


async def _state(db: Database, scope: Scope, schema: str) -> SchemaState:
    async with db.unmigrated(schema, readonly=True) as tx:
        ledger = await read_ledger(tx, schema)
    try:
        behind = len(pending(known_migrations(scope), ledger))
    except CodebaseError as error:
        return SchemaState(schema, len(ledger), problem=error.message)
    return SchemaState(schema, len(ledger), behind=behind)
