"""Which projects exist, and which schema does each have?

A project is a schema and a row in the catalogue. The row is written last and removed with the
schema, so every project in the catalogue exists. Each schema is migrated on first use; `upgrade`
migrates at once, so that an administrator can do so with a more privileged role, or ahead of time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from codebase_mcp.database.connection import Database
from codebase_mcp.database.migrate import (
    READ_LEDGER,
    Scope,
    drop_role,
    known_migrations,
    pending,
    read_ledger,
    with_names,
)
from codebase_mcp.database.naming import DEFAULT_ID, Project, schema_of, validate_project_id
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.transaction import Row, Statement, Transaction
from codebase_mcp.errors import (
    CodebaseError,
    Conflict,
    InternalError,
    PermissionDenied,
    ProjectNotFound,
)
from codebase_mcp.processes import task_group

# PostgreSQL ends a deadlock by failing a transaction with this state.
_DEADLOCK = "40P01"
_DROP_ATTEMPTS = 3

# How many projects are read in one transaction, as each adds some thirty locks to a table that all
# share, and with how many connections: most of the time PostgreSQL reads its catalogue of tables.
_AT_ONCE = 20
_CONNECTIONS = 2

_QUERIES = load_queries("codebase_mcp.database", "projects.sql")


OnCreated = Callable[[Transaction], Awaitable[None]]
"""Runs in the transaction that enters a new project into the catalogue."""


async def ensure_project(
    db: Database, project_id: str | None, *, on_created: OnCreated | None = None
) -> Project:
    """The project with this id, created if it does not exist.

    Raises:
        InvalidInput: the id is invalid.
        Conflict: another id has the same schema.
        PermissionDenied: the database role may not create a schema.
    """
    project_id = canonical(project_id)
    project, _ = await _enter(db, project_id, on_created=on_created)
    if project is None or project.project_id != project_id:
        raise _taken(project_id, "taken: another project has the same schema")
    return project


async def create_project(
    db: Database, project_id: str, name: str, description: str | None = None
) -> Project:
    """Create a project; of concurrent callers only the first succeeds.

    Raises:
        InvalidInput: the id is invalid.
        Conflict: a project with this id, or with the same schema, exists.
        PermissionDenied: the database role may not create a schema.
    """
    if canonical(project_id) is None:
        raise _taken(project_id, "taken: it names the default workspace")
    project, is_new = await _enter(db, project_id, name, description)
    if project is None or not is_new:
        raise _taken(project_id, "taken")
    return project


async def find_project(db: Database, project_id: str | None) -> Project:
    """The project with this id; the default workspace always exists.

    Raises:
        InvalidInput: the id is invalid.
        ProjectNotFound: there is no such project.
    """
    project_id = canonical(project_id)
    if project_id is None:
        return await ensure_project(db, None)
    async with db.catalogue() as transaction:
        project = await read(transaction, schema_of(project_id))
    if project is None or project.project_id != project_id:
        raise not_found(project_id)
    return project


def not_found(project_id: str | None) -> ProjectNotFound:
    """The error if there is no such project, or if the caller may not see it."""
    return ProjectNotFound(
        "Project has not been indexed or does not exist",
        hint="Make it first: index_repository with this project_id, or create_project.",
        details={"project_id": project_id or DEFAULT_ID},
    )


async def list_projects(db: Database) -> list[Project]:
    """All projects, newest first."""
    async with db.catalogue() as transaction:
        return [Project(*row) for row in await transaction.fetch_all(_QUERIES["list_projects"])]


async def read_every(
    db: Database, projects: Sequence[Project], statements: Sequence[Statement]
) -> dict[str, list[list[Row]]]:
    """The rows of statements in each project that exists, by schema, migrated where needed."""
    found = await read_each(db, projects, statements)
    left = [project for project in projects if project.schema_name not in found]
    existing = {project.schema_name for project in await list_projects(db)} if left else set()
    for project in left:
        if project.schema_name in existing:  # else it was dropped meanwhile
            async with db.transaction(project, readonly=True) as tx:
                found[project.schema_name] = await tx.fetch_many(statements)
    return found


async def read_each(
    db: Database, projects: Sequence[Project], statements: Sequence[Statement] = ()
) -> dict[str, list[list[Row]]]:
    """The rows of statements in each of many projects, by schema, in a few round trips.

    Projects that have to be migrated first, were dropped meanwhile or may not be read are left out.
    """
    waiting = [projects[start : start + _AT_ONCE] for start in range(0, len(projects), _AT_ONCE)]
    found: dict[str, list[list[Row]]] = {}

    async def read_waiting() -> None:
        while waiting:
            found.update(await _read_batch(db, waiting.pop(), statements))

    async with task_group() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(read_waiting())
    return found


async def _read_batch(
    db: Database, projects: Sequence[Project], statements: Sequence[Statement]
) -> dict[str, list[list[Row]]]:
    latest = [(migration.version, migration.checksum) for migration in known_migrations("project")]
    try:
        async with db.unmigrated("pg_catalog", readonly=True) as tx:
            schemas = [project.schema_name for project in projects]
            ledgers = await _fetch_from_each(tx, schemas, [(READ_LEDGER, {})])
            current = [schema for schema in schemas if ledgers[schema] == [latest]]
            return await _fetch_from_each(tx, current, statements)
    except (InternalError, PermissionDenied):
        if len(projects) == 1:
            return {}
        each = [await _read_batch(db, [project], statements) for project in projects]
        return {schema: rows for found in each for schema, rows in found.items()}


async def _fetch_from_each(
    tx: Transaction, schemas: Sequence[str], statements: Sequence[Statement]
) -> dict[str, list[list[Row]]]:
    """The rows of statements in each schema, in a single round trip."""
    queries: list[Statement] = []
    for schema in schemas:
        queries += [(_QUERIES["enter_schema"], {"schema": schema}), *statements]
    rows, size = await tx.fetch_many(queries), 1 + len(statements)
    return {
        schema: rows[number * size + 1 : (number + 1) * size]
        for number, schema in enumerate(schemas)
    }


async def page_of_projects(
    db: Database, parameters: Mapping[str, object], sees: Callable[[str], bool] = bool
) -> tuple[list[Project], int]:
    """A page of the projects that a caller sees, newest first, and their number."""
    async with db.catalogue(readonly=True) as transaction:
        every = [Project(*row) for row in await transaction.fetch_all(_QUERIES["list_projects"])]
        seen = [each.schema_name for each in every if sees(each.project_id or DEFAULT_ID)]
        rows = await transaction.fetch_all(
            _QUERIES["page_of_projects"], schema_names=seen, **parameters
        )
    return [Project(*row) for row in rows], len(seen)


def page_id(project: Project) -> UUID:
    """Orders projects that were created at the same time."""
    return UUID(bytes=hashlib.sha256(project.schema_name.encode()).digest()[:16])


async def drop_project(db: Database, project: Project) -> None:
    """Delete a project with everything in it."""
    for attempt in range(_DROP_ATTEMPTS):
        try:
            await _drop(db, project)
            break
        except InternalError as error:
            # A reader of several tables locks them in another order.
            is_last = attempt == _DROP_ATTEMPTS - 1
            if is_last or (error.details or {}).get("sqlstate") != _DEADLOCK:
                raise
    db.forget(project.schema_name)


async def _drop(db: Database, project: Project) -> None:
    async with db.catalogue() as transaction:
        statement = with_names("DROP SCHEMA IF EXISTS {} CASCADE", project.schema_name)
        await transaction.run_script(statement)
        await drop_role(transaction, project.schema_name, await db.vector_schema())
        await transaction.execute(_QUERIES["remove_project"], schema_name=project.schema_name)


async def count_in_project(db: Database, project: Project) -> dict[str, int]:
    """The number of rows in each table of a project, and of its rows in the catalogue.

    A deleted project has no tables.
    """
    schema = project.schema_name
    async with db.catalogue(readonly=True) as transaction:
        tables = [row[0] for row in await transaction.fetch_all(_QUERIES["tables"], schema=schema)]
        counts = {}
        for table in tables:
            row = await transaction.fetch_one(
                with_names("SELECT count(*) FROM {}.{}", schema, table)
            )
            counts[table] = row[0] if row else 0
        for name in ("project", "trusted_context", "procrastinate_jobs"):
            row = await transaction.fetch_one(_QUERIES[f"count_{name}"], schema_name=schema)
            counts[f"{Database.catalogue_schema}.{name}"] = row[0] if row else 0
    return counts


def canonical(project_id: str | None) -> str | None:
    """A valid id, or None for the default workspace under either of its names."""
    if project_id is None or validate_project_id(project_id) == DEFAULT_ID:
        return None
    return project_id


async def read(transaction: Transaction, schema: str) -> Project | None:
    row = await transaction.fetch_one(_QUERIES["find_project"], schema_name=schema)
    return Project(*row) if row else None


async def _enter(
    db: Database,
    project_id: str | None,
    name: str | None = None,
    description: str | None = None,
    *,
    on_created: OnCreated | None = None,
) -> tuple[Project | None, bool]:
    """The project that has the schema of this id, and whether this call created it."""
    schema = schema_of(project_id)
    try:
        async with db.catalogue() as transaction:
            project = await read(transaction, schema)
        if project is not None:
            return project, False
        await db.migrate("project", schema)
        async with db.catalogue() as transaction:
            added = await transaction.execute(
                _QUERIES["add_project"],
                project_id=project_id,
                schema_name=schema,
                name=name,
                description=description,
            )
            if added and on_created is not None:
                await on_created(transaction)
            return await read(transaction, schema), added > 0
    except PermissionDenied as error:
        if error.details:  # it says which privilege is missing
            raise
        raise may_not_create(project_id) from error


def may_not_create(project_id: str | None) -> PermissionDenied:
    """The error if the database role may not create the schema of a project."""
    return PermissionDenied(
        "Cannot create project workspace - insufficient permissions",
        hint="GRANT CREATE ON DATABASE … TO … for the role of DATABASE_URL.",
        details={
            "project_id": project_id,
            "schema_name": schema_of(project_id),
            "suggested_action": "Contact administrator to grant CREATE SCHEMA permission",
        },
    )


def _taken(project_id: str | None, why: str) -> Conflict:
    return Conflict(
        f"Project identifier {project_id} is {why}",
        hint="Hyphens and underscores count as the same; choose another project_id.",
        details={"project_id": project_id, "schema_name": schema_of(project_id)},
    )


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
    current, version = await read_each(db, projects), len(known_migrations("project"))
    return [catalogue] + [
        SchemaState(project.schema_name, version)
        if project.schema_name in current
        else await _state(db, "project", project.schema_name)
        for project in projects
    ]


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
    version = len(known_migrations("project"))
    current = await read_each(db, projects)
    ready = current.keys() - await db.without_role(list(current))
    for project in projects:
        if project.schema_name in ready:
            done.append(SchemaState(project.schema_name, version))
            continue
        before = await _state(db, "project", project.schema_name)
        try:
            applied = await db.migrate("project", project.schema_name)
        except CodebaseError as error:
            done.append(SchemaState(project.schema_name, before.version, problem=error.message))
        else:
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
