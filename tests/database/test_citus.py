"""On a Citus coordinator each project is a tenant, which may lie on any machine of the cluster.

Runs where CITUS_URL names a coordinator with pgvector on all its nodes; docs/postgresql.md says how
to build one by hand.
"""

from __future__ import annotations

import asyncio
import io
import os
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.migrate import join_cluster, migrate
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.records.anchoring import CodeReference
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

URL = os.environ.get("CITUS_URL", "")


@pytest.fixture
async def cluster(anyio_backend: str, settings: Settings) -> AsyncIterator[App]:
    if not URL:
        pytest.skip("CITUS_URL names no Citus coordinator")
    async with await App.open(replace(settings, database_url=URL)) as app:
        yield app


@pytest.fixture
async def tenants(cluster: App) -> AsyncIterator[tuple[str, str]]:
    """The ids of two projects."""
    ids = f"citus-{uuid.uuid4().hex[:8]}", f"citus-{uuid.uuid4().hex[:8]}"
    yield ids
    for project_id in ids:
        with suppress(ProjectNotFound):
            await cluster.drop_project(project_id)


def ask(query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(URL) as connection:
        return connection.execute(query.encode()).fetchall()


async def test_projects_are_tenants_and_the_catalogue_is_none(
    cluster: App, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    for project_id in tenants:
        await cluster.index(root, project_id)
    distributed = {str(row[0]) for row in ask("SELECT schema_name FROM citus_schemas")}
    assert {"project_" + project_id.replace("-", "_") for project_id in tenants} <= distributed
    assert "codebase_mcp" not in distributed
    local = ask(
        "SELECT c.relname FROM pg_class AS c WHERE c.relkind = 'r' AND NOT EXISTS"
        " (SELECT FROM pg_dist_partition AS p WHERE p.logicalrelid = c.oid)"
        f" AND c.relnamespace = 'project_{tenants[0].replace('-', '_')}'::regnamespace"
    )
    assert local == []


async def test_no_foreign_key_leaves_its_schema(
    cluster: App, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    await cluster.index(make_repo(), tenants[0])
    crossing = ask(
        "SELECT count(*) FROM pg_constraint AS f JOIN pg_class AS c ON c.oid = f.conrelid"
        " JOIN pg_class AS r ON r.oid = f.confrelid"
        " WHERE f.contype = 'f' AND c.relnamespace <> r.relnamespace"
    )
    assert crossing == [(0,)]


async def test_a_tenant_is_indexed_searched_and_keeps_records(
    cluster: App, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    root = make_repo()
    project_id = tenants[0]
    assert (await cluster.index(root, project_id)).run.status == "success"
    assert (await cluster.index(root, project_id, force_reindex=True)).run.status == "success"

    async def write(number: int) -> None:
        async with cluster.enter(project_id) as here:
            await create_task(
                here.tx, f"Task {number}", anchors=[CodeReference(file="src/auth.py")]
            )

    await asyncio.gather(*(write(number) for number in range(8)))
    reports = await asyncio.gather(
        *(cluster.search("authenticate user", project_id, with_notes=True) for _ in range(8))
    )
    assert {report.answer.hits[0].file_path for report in reports} == {"src/auth.py"}
    assert len(reports[0].notes[0]) > 0


async def test_a_tenant_is_backed_up_and_restored(
    cluster: App, tenants: tuple[str, str], make_repo: Callable[..., Path]
) -> None:
    project_id, other_id = tenants
    await cluster.index(make_repo(), project_id)
    file = io.BytesIO()
    await cluster.data.backup(file, project_id)
    await cluster.data.restore(io.BytesIO(file.getvalue()), "backup", other_id)
    await cluster.data.restore(io.BytesIO(file.getvalue()), "backup", replace=True)
    for restored in tenants:
        assert (await cluster.search("authenticate user", restored)).answer.hits
    tenant = "project_" + other_id.replace("-", "_")
    assert (tenant,) in ask("SELECT schema_name::text FROM citus_schemas")


async def test_a_tenant_of_an_older_schema_is_brought_up_to_date_and_stays_one(
    cluster: App, tenants: tuple[str, str]
) -> None:
    project_id, _ = tenants
    schema = "project_" + project_id.replace("-", "_")
    async with cluster._database.unmigrated(schema) as tx:
        await migrate(tx, "project", schema, version=1)
        await tx.execute("INSERT INTO term_frequency VALUES (1, 2)")
        await join_cluster(tx, schema)
    async with cluster._database.catalogue() as tx:
        await tx.execute(
            "INSERT INTO project (project_id, schema_name) VALUES (%(id)s, %(schema)s)",
            id=project_id,
            schema=schema,
        )
    states = await cluster.data.migrate(project_id)
    assert states[1].applied > 0
    assert (schema,) in ask("SELECT schema_name::text FROM citus_schemas")
    async with cluster.enter(project_id, readonly=True) as here:
        assert await here.tx.fetch_one("SELECT term, chunks FROM term_frequency") == (1, 2)
