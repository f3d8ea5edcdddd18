"""A transaction of a project cannot read what belongs to another, even if a statement names it."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import LiteralString
from uuid import uuid4

import pytest
from psycopg import sql

from codebase_mcp.database.backup import write_backup
from codebase_mcp.database.connection import Database, Embedded, External
from codebase_mcp.database.projects import Project, drop_project, ensure_project, upgrade
from codebase_mcp.database.queries import load_queries
from codebase_mcp.database.restore import restore_backup
from codebase_mcp.errors import InternalError, PermissionDenied

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

ROLES = load_queries("codebase_mcp.database", "roles.sql")
WHO = "SELECT current_user"


def reading(schema: str, table: str = "task") -> LiteralString:
    return sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table)).as_string(None)


async def user_of(database: Database, project: Project) -> str:
    async with database.transaction(project) as tx:
        row = await tx.fetch_one(WHO)
    assert row is not None
    return str(row[0])


async def require_apart(database: Database, mine: Project, other: Project) -> None:
    """Each project has a role; its transactions reach its own schema, and no other."""
    roles = {await user_of(database, one) for one in (mine, other)}
    assert len(roles) == 2
    assert all(role.startswith("cbm_") for role in roles)
    for readonly in (True, False):
        async with database.transaction(mine, readonly=readonly) as tx:
            assert await tx.fetch_all(reading(mine.schema_name)) == [(0,)]
        for schema, table in ((other.schema_name, "task"), ("codebase_mcp", "project")):
            with pytest.raises(PermissionDenied):
                async with database.transaction(mine, readonly=readonly) as tx:
                    await tx.fetch_all(reading(schema, table))
    with pytest.raises(PermissionDenied):
        async with database.transaction(mine) as tx:
            await tx.execute("DROP TABLE task")
    async with database.catalogue(readonly=True) as tx:
        assert (await tx.fetch_all(WHO))[0][0] not in roles
    async with database.transaction(mine) as tx:
        await tx.become_owner()
        assert (await tx.fetch_all(WHO))[0][0] not in roles
    assert await user_of(database, mine) in roles


@asynccontextmanager
async def two_projects(database: Database, mark: str) -> AsyncIterator[tuple[Project, Project]]:
    made = [await ensure_project(database, f"{name}-{mark}") for name in ("mine", "other")]
    yield made[0], made[1]
    for project in made:
        await drop_project(database, project)


async def roles_of(database: Database, mark: str) -> set[str]:
    async with database.catalogue(readonly=True) as tx:
        rows = await tx.fetch_all(
            "SELECT rolname FROM pg_roles WHERE right(rolname, length(%(mark)s)) = %(mark)s",
            mark=mark,
        )
    return {row[0] for row in rows} - {mark}


async def test_projects_of_the_embedded_server_are_apart(
    database: Database, embedded: Embedded, project: Project
) -> None:
    mark = project.schema_name[-12:]
    async with two_projects(database, mark) as (mine, other):
        await require_apart(database, mine, other)
        assert len(await roles_of(database, mark)) == 3
        again = await Database.open(embedded)
        assert await user_of(again, mine) == await user_of(database, mine)
        await again.close()
    assert len(await roles_of(database, mark)) == 1


@pytest.fixture
async def own(
    anyio_backend: str, plain_server: PlainServer, database_name: str
) -> AsyncIterator[External]:
    """A database of the test, and a role without rights but to create schemas and roles in it."""
    plain_server.execute("CREATE EXTENSION vector", database=database_name)
    plain_server.execute(
        f"GRANT CREATE ON DATABASE {database_name} TO {database_name}",
        f"ALTER ROLE {database_name} CREATEROLE",
    )
    yield External(plain_server.url(database_name, user=database_name))


async def test_a_role_that_may_create_roles_keeps_projects_apart(
    plain_server: PlainServer, database_name: str, own: External
) -> None:
    """Also a project that was made while it might not."""
    plain_server.execute(f"ALTER ROLE {database_name} NOCREATEROLE")
    database = await Database.open(own)
    async with two_projects(database, "roles") as (mine, other):
        assert await user_of(database, mine) == database_name
        grant = f'no role per project; to allow it, run ALTER ROLE "{database_name}" CREATEROLE'
        assert await database.describe_roles() == grant
        plain_server.execute(f"ALTER ROLE {database_name} CREATEROLE")
        later = await Database.open(own)
        schemas = {mine.schema_name, other.schema_name}
        assert await later.without_role(list(schemas)) == schemas
        await upgrade(later, None, every=True)
        assert await later.without_role(list(schemas)) == set()
        await require_apart(later, mine, other)
        assert await later.describe_roles() == "a role per project"
        off = await Database.open(replace(own, project_roles=False))
        assert await user_of(off, mine) == database_name
        assert (await off.describe_roles()).endswith("CODEBASE_MCP_PROJECT_ROLES is off")
        for one in (later, off):
            await one.close()
    assert await roles_of(database, database_name) == set()
    async with database.catalogue(readonly=True) as tx:
        assert await tx.fetch_all("SELECT rolname FROM pg_roles WHERE rolname ~ '_roles$'") == []
    await database.close()


async def test_where_not_every_role_may_use_public_the_role_of_a_project_may(
    plain_server: PlainServer, database_name: str, own: External
) -> None:
    owner = f"ALTER SCHEMA public OWNER TO {database_name}"
    revoke = "REVOKE ALL ON SCHEMA public FROM PUBLIC"
    plain_server.execute(owner, revoke, database=database_name)
    database = await Database.open(own)
    async with two_projects(database, "closed") as (mine, other):
        await require_apart(database, mine, other)
        async with database.transaction(mine) as tx:
            assert await tx.fetch_all("SELECT vector_dims('[1,2]'::vector)") == [(2,)]
    await database.close()


async def test_a_program_that_is_open_goes_on_when_a_project_is_restored_or_made_anew(
    own: External,
) -> None:
    database, other = await Database.open(own), await Database.open(own)
    project = await ensure_project(database, "mine")
    role = await user_of(database, project)
    file = io.BytesIO()
    await write_backup(database, project, file)
    file.seek(0)
    await restore_backup(other, file, "file", lambda *_: uuid4(), replace=True)
    assert await user_of(database, project) == role
    async with database.transaction(project) as tx:
        assert await tx.fetch_all(reading(project.schema_name)) == [(0,)]
    await drop_project(other, project)
    with pytest.raises(InternalError):
        await user_of(database, project)
    await ensure_project(other, "mine")
    assert await user_of(database, project) == role
    await drop_project(other, project)
    for one in (database, other):
        await one.close()


async def test_the_role_of_a_project_is_found_without_reading_the_tables_of_all_others(
    database: Database, project: Project
) -> None:
    async with database.catalogue(readonly=True) as tx:
        await tx.run_script("SET LOCAL enable_seqscan = off")  # a small catalogue is scanned
        rows = await tx.fetch_all(
            f"EXPLAIN {ROLES['find_roles']}",
            schemas=[project.schema_name],
            vector_schema="public",
        )
    plan = "\n".join(row[0] for row in rows)
    assert "pg_depend_reference_index" in plan, plan
    assert "Seq Scan on pg_class" not in plan, plan
