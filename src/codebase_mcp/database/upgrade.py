"""Which schemas are behind this program, and what did bringing them up to date take?

Lazily each schema is brought up to date when it is first used. Here it is done at once, so that an
administrator may do it with a role of more rights, or before the team comes to work.
"""

from __future__ import annotations

from dataclasses import dataclass

from codebase_mcp.database.connection import Database
from codebase_mcp.database.migrate import Scope, known_migrations, pending, read_ledger
from codebase_mcp.database.projects import canonical, find_project, list_projects
from codebase_mcp.errors import CodebaseError


@dataclass(frozen=True, slots=True)
class SchemaState:
    """A schema, how many migrations it has had, and how many it lacks or was now given.

    ``problem`` says why it cannot be brought up to date.
    """

    schema_name: str
    version: int
    behind: int = 0
    applied: int = 0
    problem: str | None = None


async def survey(db: Database, project_id: str | None, *, every: bool = False) -> list[SchemaState]:
    """What is behind in the catalogue and one project, or in every one; changes nothing.

    Raises:
        ProjectNotFound: the project does not exist.
    """
    found = [await _state(db, "catalogue", db.catalogue_schema)]
    if found[0].behind or found[0].problem:
        return found  # what cannot be read yet
    projects = await list_projects(db)
    if not every:  # a default workspace that was never used is not there, and lacks nothing
        wanted = canonical(project_id)
        if wanted is not None:
            await find_project(db, wanted)
        projects = [project for project in projects if project.project_id == wanted]
    return found + [await _state(db, "project", project.schema_name) for project in projects]


async def upgrade(
    db: Database, project_id: str | None, *, every: bool = False
) -> list[SchemaState]:
    """Bring the catalogue and one project, or every one, up to date.

    A project that cannot be keeps no other from it.

    Raises:
        ProjectNotFound: the project does not exist.
        DatabaseUnavailable: the database is away, or its catalogue is newer than this program.
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
