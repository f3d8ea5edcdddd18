"""A role without superuser rights does everything with the grants that docs/postgresql.md names."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database, External
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.errors import DatabaseUnavailable, PermissionDenied
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

GUIDE = Path(__file__).parents[2] / "docs" / "postgresql.md"


def documented(heading: str) -> str:
    """The SQL below a heading of the guide."""
    section = GUIDE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    [statements] = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    return re.sub(r"^\\.*\n", "", statements, flags=re.MULTILINE)  # psql's own


@pytest.fixture
def prepared(plain_server: PlainServer, database_name: str) -> str:
    """The test's database, prepared for its role as the guide says."""
    statements = documented("A separate role")
    assert "SUPERUSER" not in statements
    for old, new in (("code_index", database_name), ("codebase_mcp", database_name)):
        statements = statements.replace(old, new)
    for statement in statements.split(";\n"):
        if statement.strip() and not re.match(r"CREATE (ROLE|DATABASE)", statement.strip()):
            plain_server.execute(statement, database=database_name)
    return database_name


async def test_the_documented_grants_are_enough_for_all_of_it(
    plain_server: PlainServer, prepared: str, settings: Settings, make_repo: Callable[..., Path]
) -> None:
    url = plain_server.url(prepared, user=prepared)
    async with await App.open(replace(settings, database_url=url)) as app:
        root = make_repo()
        await app.index(root, "team")
        async with app.enter("team") as here:
            assert await here.tx.fetch_one("SHOW is_superuser") == ("off",)
            await create_task(here.tx, "Try it")
        assert (await app.search("authenticate user", "team")).answer.hits
        assert {state.behind for state in await app.data.migrate(every=True)} == {0}
        file = io.BytesIO()
        await app.data.backup(file, "team")
        await app.drop_project("team")
        await app.data.restore(io.BytesIO(file.getvalue()), "backup")
        await app.data.restore(io.BytesIO(file.getvalue()), "backup", replace=True)
        assert (await app.search("authenticate user", "team")).answer.hits
        assert (await app.index(root, "team", force_reindex=True)).run.status == "success"


async def test_a_role_that_may_not_create_schemas_cannot_restore_and_is_told_what_to_grant(
    plain_server: PlainServer, prepared: str, settings: Settings, make_repo: Callable[..., Path]
) -> None:
    file = io.BytesIO()
    url = plain_server.url(prepared, user=prepared)
    async with await App.open(replace(settings, database_url=url)) as app:
        await app.index(make_repo(), "team")
        await app.data.backup(file, "team")
        plain_server.execute(f"REVOKE CREATE ON DATABASE {prepared} FROM {prepared}")
        with pytest.raises(PermissionDenied, match="insufficient permissions") as caught:
            await app.data.restore(io.BytesIO(file.getvalue()), "backup", "another")
        assert "GRANT CREATE ON DATABASE" in (caught.value.hint or "")
        assert (await app.search("authenticate user", "team")).answer.hits
    database = await Database.open(External(url))
    with pytest.raises(PermissionDenied, match="Cannot create project workspace"):
        await ensure_project(database, "new")
    await database.close()


async def test_a_role_that_may_only_connect_is_told_what_is_missing(
    plain_server: PlainServer, database_name: str
) -> None:
    plain_server.execute("CREATE EXTENSION vector", database=database_name)
    database = await Database.open(External(plain_server.url(database_name, database_name)))
    with pytest.raises(PermissionDenied):
        await ensure_project(database, "new")
    await database.close()
    other = f"{database_name}_closed"
    plain_server.execute(
        f"CREATE DATABASE {other}", f"REVOKE CONNECT ON DATABASE {other} FROM PUBLIC"
    )
    try:
        database = await Database.open(External(plain_server.url(other, database_name)))
        with pytest.raises(DatabaseUnavailable):
            await database.check()
        await database.close()
    finally:
        plain_server.execute(f"DROP DATABASE {other}")


@pytest.mark.parametrize(
    ("granted", "schema"),
    [
        ([], "codebase_mcp"),
        (["GRANT USAGE ON SCHEMA codebase_mcp TO {}"], "codebase_mcp"),
        (
            [
                "GRANT USAGE ON SCHEMA codebase_mcp TO {}",
                "GRANT ALL ON ALL TABLES IN SCHEMA codebase_mcp TO {}",
            ],
            "project_team",
        ),
    ],
)
async def test_a_role_without_rights_on_what_another_made_is_told_so(
    plain_server: PlainServer,
    prepared: str,
    settings: Settings,
    make_repo: Callable[..., Path],
    granted: list[str],
    schema: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with await App.open(replace(settings, database_url=plain_server.url(prepared))) as owner:
        await owner.index(make_repo(), "team")
    statements = [statement.format(prepared) for statement in granted]
    plain_server.execute(*statements, database=prepared)
    url = plain_server.url(prepared, user=prepared)
    async with await App.open(replace(settings, database_url=url)) as app:
        calls = [lambda: app.search("authenticate", "team"), lambda: app.index(make_repo(), "team")]
        for call in calls:
            with pytest.raises(PermissionDenied, match=f"may not use the schema {schema}$"):
                await call()
    assert not caplog.records
