"""Which projects are there, and where does each one live?

A project is a schema and a row in the catalogue. The row is written last and removed with the
schema, so what the catalogue lists exists.
"""

from __future__ import annotations

from codebase_mcp.database.connection import Database
from codebase_mcp.database.migrate import for_schema
from codebase_mcp.database.naming import DEFAULT_ID, Project, schema_of, validate_project_id
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Transaction
from codebase_mcp.errors import Conflict, PermissionDenied, ProjectNotFound

__all__ = [
    "Project",
    "drop_project",
    "ensure_project",
    "find_project",
    "list_projects",
    "migrate_all",
    "validate_project_id",
]

_QUERIES = load_queries("codebase_mcp.database", "projects.sql")


async def ensure_project(
    db: Database,
    project_id: str | None,
    *,
    name: str | None = None,
    description: str | None = None,
) -> Project:
    """The project of this id, made if it is not there; name and description count only then.

    Raises:
        InvalidInput: the id is none.
        Conflict: another id has the same schema.
        PermissionDenied: the database role may not create a schema.
    """
    project_id = canonical(project_id)
    schema = schema_of(project_id)
    try:
        async with db.catalogue() as transaction:
            project = await read(transaction, schema)
        if project is None:
            await db.migrate("project", schema)
            async with db.catalogue() as transaction:
                await transaction.execute(
                    _QUERIES["add_project"],
                    project_id=project_id,
                    schema_name=schema,
                    name=name,
                    description=description,
                )
                project = await read(transaction, schema)
    except PermissionDenied as error:
        raise PermissionDenied(
            "Cannot create project workspace - insufficient permissions",
            hint="Grant the database role the right to create schemas.",
            details={
                "project_id": project_id,
                "schema_name": schema,
                "suggested_action": "GRANT CREATE ON DATABASE … TO … for the role of DATABASE_URL",
            },
        ) from error
    if project is None or project.project_id != project_id:
        raise Conflict(
            f"Project identifier {project_id} is taken: another project has the same schema",
            hint="Hyphens and underscores count as the same; choose another name.",
            details={"project_id": project_id, "schema_name": schema},
        )
    return project


async def find_project(db: Database, project_id: str | None) -> Project:
    """The project of this id; the default workspace always exists.

    Raises:
        InvalidInput: the id is none.
        ProjectNotFound: there is no such project.
    """
    project_id = canonical(project_id)
    if project_id is None:
        return await ensure_project(db, None)
    async with db.catalogue() as transaction:
        project = await read(transaction, schema_of(project_id))
    if project is None or project.project_id != project_id:
        raise ProjectNotFound(
            "Project has not been indexed or does not exist",
            hint="Index a repository into it first: index_repository.",
            details={"project_id": project_id},
        )
    return project


async def list_projects(db: Database) -> list[Project]:
    """All projects that have been made, newest first."""
    async with db.catalogue() as transaction:
        return [Project(*row) for row in await transaction.fetch_all(_QUERIES["list_projects"])]


async def drop_project(db: Database, project: Project) -> None:
    """Remove a project with everything in it, for good."""
    async with db.catalogue() as transaction:
        statement = for_schema("DROP SCHEMA IF EXISTS {} CASCADE", project.schema_name)
        await transaction.run_script(statement)
        await transaction.execute(_QUERIES["remove_project"], schema_name=project.schema_name)
    db.forget(project.schema_name)


async def migrate_all(db: Database) -> dict[str, int]:
    """Bring every schema up to date now; how many migrations each one took."""
    applied = {db.catalogue_schema: await db.migrate("catalogue", db.catalogue_schema)}
    for project in await list_projects(db):
        applied[project.schema_name] = await db.migrate("project", project.schema_name)
    return applied


def canonical(project_id: str | None) -> str | None:
    """A valid id, or None for the default workspace under either of its names."""
    if project_id is None or validate_project_id(project_id) == DEFAULT_ID:
        return None
    return project_id


async def read(transaction: Transaction, schema: str) -> Project | None:
    row = await transaction.fetch_one(_QUERIES["find_project"], schema_name=schema)
    return Project(*row) if row else None
