"""A transaction of a project cannot read what belongs to another, even if a statement names it."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import LiteralString

import pytest
from psycopg import sql

from codebase_mcp.database.connection import Database, Embedded, External
from codebase_mcp.database.projects import Project, drop_project, ensure_project
from codebase_mcp.errors import CodebaseError, PermissionDenied

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

WHO = "SELECT current_user"


def reading(schema: str, table: str = "task") -> LiteralString:
    return sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table)).as_string(None)


async def user_of(database: Database, project: Project, **how: bool) -> str:
    async with database.transaction(project, **how) as tx:
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
    assert await user_of(database, mine, as_owner=True) not in roles


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
