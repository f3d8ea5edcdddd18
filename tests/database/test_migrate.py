"""``codebase-mcp migrate``: what is behind is brought up to date now, or only named."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.integration.indexes import check_frequencies

from codebase_mcp.access.repositories import projects_at
from codebase_mcp.app.app import App
from codebase_mcp.database.backup import write_backup
from codebase_mcp.database.connection import Database
from codebase_mcp.database.migrate import known_migrations, migrate
from codebase_mcp.database.naming import Project, schema_of
from codebase_mcp.database.projects import (
    SchemaState,
    check_schemas,
    drop_project,
    ensure_project,
    find_project,
    read_each,
    read_every,
    upgrade,
)
from codebase_mcp.database.restore import restore_backup
from codebase_mcp.database.transaction import Row, Statement
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.index.identity import repository_id_in
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

LATEST = len(known_migrations("project"))


@pytest.fixture
async def old_id(anyio_backend: str, database: Database) -> AsyncIterator[str]:
    """A project as the first version of the program left it, with one repository."""
    project_id = f"old-{uuid.uuid4().hex[:12]}"
    schema = schema_of(project_id)
    async with database.unmigrated(schema) as tx:
        await migrate(tx, "project", schema, version=1)
        await tx.execute(
            "INSERT INTO repository (id, root, name) VALUES (%(id)s, '/src/old', 'old')",
            id=repository_id_in(schema, "/src/old"),
        )
    async with database.catalogue() as tx:
        await tx.execute(
            "INSERT INTO project (project_id, schema_name) VALUES (%(id)s, %(schema)s)",
            id=project_id,
            schema=schema,
        )
    yield project_id
    await drop_project(database, await find_project(database, project_id))


def state_of(states: list[SchemaState], project_id: str) -> SchemaState:
    [state] = [state for state in states if state.schema_name == schema_of(project_id)]
    return state


async def test_a_look_says_what_is_behind_and_changes_nothing(
    database: Database, old_id: str
) -> None:
    for _ in range(2):
        states = await check_schemas(database, old_id)
        assert [state.schema_name for state in states] == ["codebase_mcp", schema_of(old_id)]
        assert state_of(states, old_id) == SchemaState(schema_of(old_id), 1, behind=LATEST - 1)
        assert states[0].behind == 0


async def test_one_project_is_brought_up_to_date_and_the_others_stay(
    database: Database, old_id: str, project_id: str
) -> None:
    await ensure_project(database, project_id)
    states = await upgrade(database, project_id)
    assert {state.applied for state in states} == {0}
    assert state_of(await check_schemas(database, None, every=True), old_id).behind == LATEST - 1
    state = state_of(await upgrade(database, old_id), old_id)
    assert state == SchemaState(schema_of(old_id), LATEST, applied=LATEST - 1)
    assert state_of(await check_schemas(database, old_id), old_id).behind == 0


async def test_many_projects_are_read_together_also_an_old_one_and_without_a_dropped_one(
    database: Database, old_id: str, project_id: str
) -> None:
    old, new = await find_project(database, old_id), await ensure_project(database, project_id)
    gone = await ensure_project(database, f"{project_id}-gone")
    await drop_project(database, gone)
    asked: list[Statement] = [
        ("SELECT root FROM repository", {}),
        ("SELECT current_schema()::text WHERE %(is_asked)s", {"is_asked": True}),
    ]
    of_new: list[list[Row]] = [[], [(new.schema_name,)]]
    of_old: list[list[Row]] = [[("/src/old",)], [(old.schema_name,)]]
    projects = [gone, new, old]
    assert await read_each(database, projects, asked) == {new.schema_name: of_new}
    found = await read_every(database, projects, asked)
    assert found == {new.schema_name: of_new, old.schema_name: of_old}
    assert await read_each(database, projects, asked) == found


async def test_a_project_that_is_newer_keeps_no_other_from_it(
    database: Database, old_id: str, project_id: str
) -> None:
    newer = await ensure_project(database, project_id)
    async with database.transaction(newer) as tx:
        await tx.execute("INSERT INTO schema_migration VALUES (99, 'later', 'x')")
    database.forget(newer.schema_name)
    states = await upgrade(database, None, every=True)
    assert "older than the database" in str(state_of(states, project_id).problem)
    assert state_of(states, old_id).applied == LATEST - 1
    assert state_of(await check_schemas(database, None, every=True), project_id).problem
    async with database.unmigrated(newer.schema_name) as tx:
        await tx.execute("DELETE FROM schema_migration WHERE version = 99")


COUNTED_TOGETHER = """
INSERT INTO profile (fingerprint, model, dimension) VALUES ('a', 'a', 1);
INSERT INTO repository (id, root, name)
SELECT md5(n::text)::uuid, '/' || n, n::text FROM generate_series(1, :repositories) AS n;
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier)
SELECT r.id, 'worktree', 1, p.id, true, 1 FROM repository AS r, profile AS p ORDER BY r.root;
INSERT INTO blob (id, hash, language, generation, chunk_count, text, comments, searchable)
SELECT n, '', 'c', 1, 2, '', '{}/1000000000', n > 0 FROM generate_series(0, 8) AS n;
INSERT INTO chunk (blob_id, ordinal, start_line, end_line, kind, terms, lex)
SELECT b.id, n, 1, 1, 'code', ARRAY[b.id % 3, 10 + b.id], '{1:1}/1000000000'
FROM blob AS b, generate_series(0, 1) AS n;
INSERT INTO file (snapshot_id, path, blob_id, size, mtime_ns, ctime_ns, language, extension, kind,
                  name_terms)
SELECT s.id, b.id::text, b.id, 1, 1, 1, 'c', 'c', 'code', '{}'
FROM snapshot AS s
JOIN blob AS b ON s.id > b.id % :repositories AND b.searchable;
INSERT INTO term_frequency (term, chunks)
SELECT term, count(*)
FROM blob AS b
JOIN chunk AS c ON c.blob_id = b.id, unnest(ARRAY[-1] || c.terms) AS term
WHERE b.searchable
GROUP BY term;
"""


@pytest.mark.parametrize("repositories", [1, 2, 3])
async def test_what_was_counted_for_a_project_is_counted_for_each_repository(
    database: Database, repositories: int
) -> None:
    project = Project(None, f"project_test_{uuid.uuid4().hex[:12]}", datetime.now(UTC))
    script = COUNTED_TOGETHER.replace(":repositories", str(repositories))
    async with database.unmigrated(project.schema_name) as tx:
        await migrate(tx, "project", project.schema_name, version=14)
        await tx.run_script(script)  # type: ignore[arg-type]
    async with database.transaction(project) as tx:
        await check_frequencies(tx)
        labels = await tx.fetch_all("SELECT DISTINCT counted_for FROM term_frequency ORDER BY 1")
        by_id = await tx.fetch_all("SELECT id FROM repository ORDER BY 1")
        # With one repository nothing is counted again.
        assert labels == ([(uuid.UUID(int=0),)] if repositories == 1 else by_id)
        await tx.become_owner()
        await tx.execute(f"DROP SCHEMA {project.schema_name} CASCADE")  # type: ignore[arg-type]


INDEXED = """
INSERT INTO profile (fingerprint, model, dimension) VALUES ('a', 'a', 1);
INSERT INTO snapshot (repository_id, view, generation, profile_id, active, classifier, indexed_at)
SELECT r.id, 'worktree', 1, p.id, true, 1, now()
FROM repository AS r, profile AS p
"""


async def test_where_repositories_are_is_known_of_a_project_that_is_behind(
    database: Database, old_id: str
) -> None:
    """Looking for it among all projects migrates none."""
    async with database.unmigrated(schema_of(old_id)) as tx:
        await tx.run_script(INDEXED)
    found = await projects_at(database, Path("/src/old/sub"))
    assert [(here.project.project_id, here.root) for here in found] == [(old_id, Path("/src/old"))]
    assert state_of(await check_schemas(database, old_id), old_id).version == 1


async def test_keys_that_exist_may_index_if_they_could_before(database: Database) -> None:
    schema = f"catalogue_test_{uuid.uuid4().hex[:12]}"
    async with database.unmigrated(schema) as tx:
        await migrate(tx, "catalogue", schema, version=6)
        for scopes in ("read", "read,write", "admin,read,write"):
            await tx.execute(
                "INSERT INTO api_key (id, owner, secret_hash, scopes, projects)"
                " VALUES (%(s)s, 'alice', '', string_to_array(%(s)s, ','), '{*}')",
                s=scopes,
            )
        await migrate(tx, "catalogue", schema)
        keys = await tx.fetch_all("SELECT id, array_to_string(scopes, ','), roots FROM api_key")
        await tx.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[arg-type]
    assert sorted(keys) == [
        ("admin,read,write", "admin,read,write,index", None),
        ("read", "read", None),
        ("read,write", "read,write,index", None),
    ]


async def test_an_unknown_project_is_not_found(database: Database) -> None:
    for work in (check_schemas, upgrade):
        with pytest.raises(ProjectNotFound):
            await work(database, "never-made")


async def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    database: Database, old_id: str, project_id: str
) -> None:
    file = io.BytesIO()
    project = await find_project(database, old_id)
    database._migrated.add(project.schema_name)  # as the program of that time would
    await write_backup(database, project, file)
    file.seek(0)
    facts = await restore_backup(database, file, "backup", repository_id_in, project_id=project_id)
    assert facts.rows == 1
    assert state_of(await check_schemas(database, project_id), project_id).version == LATEST
    async with database.transaction(facts.project, readonly=True) as tx:
        [(repository_id, root)] = await tx.fetch_all("SELECT id, root FROM repository")
    assert (repository_id, root) == (repository_id_in(schema_of(project_id), root), "/src/old")


async def test_from_the_shell_a_check_fails_until_all_is_up_to_date(
    app: App, settings: Settings, old_id: str
) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "codebase_mcp.cli.main", "migrate", *arguments],
            env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )

    behind = command("--check", "--project", old_id)
    assert (behind.returncode, behind.stderr) == (1, "")
    assert "pending" in behind.stdout
    done = command("--project", old_id, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)[1]["applied"] == LATEST - 1
    assert "up to date" in command("--check", "--project", old_id).stdout
