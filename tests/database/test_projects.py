"""Projects and their schemas: names, ledgers, and several processes at once."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.migrate import Migration, Scope, known_migrations, pending, statements_of
from codebase_mcp.database.naming import nearest_valid_id, schema_of
from codebase_mcp.database.projects import (
    Project,
    drop_project,
    ensure_project,
    find_project,
    list_projects,
    upgrade,
    validate_project_id,
)
from codebase_mcp.database.queries import load_queries
from codebase_mcp.errors import Conflict, DatabaseUnavailable, InvalidInput, ProjectNotFound

pytestmark = pytest.mark.anyio

ENSURE = """
import asyncio, sys
from pathlib import Path
from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.projects import ensure_project
async def main():
    database = await Database.open(Embedded(Path(sys.argv[1])))
    sys.stdin.readline()
    print((await ensure_project(database, sys.argv[2])).created_at)
    await database.close()
asyncio.run(main())
"""

FIRST, SECOND = Migration(1, "one", "", "aa"), Migration(2, "two", "", "bb")


async def test_a_project_is_made_once_and_found_again(database: Database, project: Project) -> None:
    assert project.project_id is not None
    assert await ensure_project(database, project.project_id) == project
    assert await find_project(database, project.project_id) == project
    assert project in await list_projects(database)


async def test_a_project_that_was_never_made_is_not_found(database: Database) -> None:
    with pytest.raises(ProjectNotFound) as caught:
        await find_project(database, "never-made")
    assert caught.value.message == "Project has not been indexed or does not exist"


async def test_a_dropped_project_leaves_nothing_and_can_be_made_again(database: Database) -> None:
    name = f"gone-{uuid.uuid4().hex[:12]}"
    project = await ensure_project(database, name)
    async with database.transaction(project) as transaction:
        await transaction.become_owner()
        await transaction.execute("CREATE TABLE note (id integer)")
    await drop_project(database, project)
    with pytest.raises(ProjectNotFound):
        await find_project(database, name)
    again = await ensure_project(database, name)
    async with database.transaction(again) as transaction:
        assert await transaction.fetch_one("SELECT to_regclass('note')") == (None,)
    await drop_project(database, again)


async def test_a_project_is_dropped_though_a_reader_locks_its_tables_in_another_order(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    project = await ensure_project(database, f"read-{uuid.uuid4().hex[:12]}")
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    locked = """
        SELECT c.relname FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
        JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE l.granted AND l.mode = 'AccessExclusiveLock' AND n.nspname = %(schema)s
          AND c.relkind = 'r'
        LIMIT 1"""
    async with database.transaction(project, readonly=True) as reader:
        await reader.fetch_all("SELECT 1 FROM term_frequency")
        dropping = asyncio.ensure_future(drop_project(database, project))
        async with database.catalogue(readonly=True) as observer:
            while await observer.fetch_one(waiting) == (0,):
                await asyncio.sleep(0.01)
            held = await observer.fetch_one(locked, schema=project.schema_name)
        assert held is not None
        await reader.fetch_all(f'SELECT 1 FROM "{held[0]}"')
    await dropping
    [told] = caplog.records
    assert "deadlock" in told.getMessage()
    assert told.exc_info is None
    with pytest.raises(ProjectNotFound):
        await find_project(database, project.project_id)


async def test_hyphen_and_underscore_do_not_make_two_projects(database: Database) -> None:
    word = uuid.uuid4().hex[:12]
    project = await ensure_project(database, f"my-{word}")
    with pytest.raises(Conflict, match="taken"):
        await ensure_project(database, f"my_{word}")
    with pytest.raises(ProjectNotFound):
        await find_project(database, f"my_{word}")
    await drop_project(database, project)


async def test_the_default_workspace_always_exists_under_either_name(database: Database) -> None:
    project = await find_project(database, None)
    assert (project.project_id, project.schema_name) == (None, "project_default")
    assert await find_project(database, "default") == project


async def test_two_processes_that_make_one_project_at_once_agree(
    database: Database, embedded: Embedded
) -> None:
    name = f"race-{uuid.uuid4().hex[:12]}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ENSURE, str(embedded.data_dir), name]
    pipe = asyncio.subprocess.PIPE
    racers = [
        await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=environment)
        for _ in range(3)
    ]
    answers = await asyncio.gather(*(racer.communicate(b"go\n") for racer in racers))
    project = await find_project(database, name)
    assert {out.decode().strip() for out, _ in answers} == {str(project.created_at)}
    async with database.transaction(project) as transaction:
        versions = await transaction.fetch_all("SELECT version FROM schema_migration ORDER BY 1")
    assert [row[0] for row in versions] == [m.version for m in known_migrations("project")]
    await drop_project(database, project)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO schema_migration VALUES (9999, 'future', 'ff')", "older than the database"),
        ("UPDATE schema_migration SET checksum = 'ff' WHERE version = 1", "different text"),
    ],
)
async def test_a_schema_that_this_program_does_not_know_is_refused(
    database: Database, embedded: Embedded, project: Project, statement: str, message: str
) -> None:
    async with database.transaction(project) as transaction:
        await transaction.execute(statement)
    other = await Database.open(embedded)
    try:
        with pytest.raises(DatabaseUnavailable, match=message):
            async with other.transaction(project) as transaction:
                await transaction.fetch_one("SELECT 1")
    finally:
        await other.close()


async def test_every_schema_can_be_brought_up_to_date_at_once(
    database: Database, project: Project
) -> None:
    async with database.transaction(project) as transaction:
        script = await transaction.fetch_one("SELECT current_schema()")
    assert script == (project.schema_name,)
    applied = {
        state.schema_name: state.applied for state in await upgrade(database, None, every=True)
    }
    assert applied["codebase_mcp"] == applied[project.schema_name] == 0


@pytest.mark.parametrize("scope", ["catalogue", "project"])
async def test_migrations_fall_into_statements(scope: Scope) -> None:
    for migration in known_migrations(scope):
        statements = statements_of(migration.script)
        assert statements
        assert not any(";" in statement for statement in statements), migration.name


@pytest.mark.parametrize(
    ("known", "applied", "expected"),
    [
        ([FIRST, SECOND], [], [FIRST, SECOND]),
        ([FIRST, SECOND], [(1, "aa")], [SECOND]),
        ([FIRST, SECOND], [(1, "aa"), (2, "bb")], []),
    ],
)
async def test_what_is_pending_is_what_the_ledger_lacks(
    known: list[Migration], applied: list[tuple[int, str]], expected: list[Migration]
) -> None:
    assert list(pending(known, applied)) == expected


@pytest.mark.parametrize("value", ["a", "my-app", "my_app", "a1-b2_c3", "0", "x" * 50])
async def test_valid_project_ids_pass_unchanged(value: str) -> None:
    assert validate_project_id(value) == value


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        ("", "my-project"),
        ("My App!", "my-app"),
        ("-x-", "x"),
        ("a--b", "a-b"),
        ("a-_b", "a-b"),
        ("a__b", "a_b"),
        ("my-app\n", "my-app"),
        ("ünï", "n"),
        ("x" * 51, "x" * 50),
        ('a"; DROP SCHEMA public', "a-drop-schema-public"),
    ],
)
async def test_other_ids_are_refused_with_the_nearest_valid_one(value: str, nearest: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        validate_project_id(value)
    assert caught.value.message == (
        "Invalid project_id: Project identifier must be lowercase alphanumeric"
        " with hyphens or underscores"
    )
    assert caught.value.hint == f"Use {nearest!r}."
    assert caught.value.details["field"] == "project_id"


@given(st.text())
def test_the_nearest_valid_id_of_any_text_is_valid_and_fits_a_schema(text: str) -> None:
    nearest = nearest_valid_id(text)
    assert validate_project_id(nearest) == nearest
    assert len(schema_of(nearest)) <= 63


async def test_statements_are_loaded_by_name_without_their_comments() -> None:
    queries = load_queries("codebase_mcp.database", "projects.sql")
    assert {"find_project", "add_project", "list_projects", "remove_project"} <= set(queries)
    assert queries["find_project"].startswith("SELECT project_id")


async def test_a_statement_of_another_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load_queries("codebase_mcp.database", "projects.sql")["no_such_statement"]


async def test_a_schema_with_another_programs_tables_is_left_alone(database: Database) -> None:
    project_id = f"old-{uuid.uuid4().hex[:8]}"
    schema = schema_of(project_id)
    async with database.catalogue() as tx:
        await tx.run_script(f'CREATE SCHEMA "{schema}"; CREATE TABLE "{schema}".code_chunk ()')
    try:
        with pytest.raises(Conflict, match="tables that this program did not make"):
            await ensure_project(database, project_id)
        async with database.catalogue() as tx:
            row = await tx.fetch_one("SELECT to_regclass(%(name)s)::text", name=f"{schema}.task")
        assert row == (None,)
        assert project_id not in {p.project_id for p in await list_projects(database)}
    finally:
        async with database.catalogue() as tx:
            await tx.run_script(f'DROP SCHEMA "{schema}" CASCADE')
