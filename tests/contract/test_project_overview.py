"""The tool ``project`` as a client sees it: what is there, how much, and whether it works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

from .conftest import Caller, is_time

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


@pytest.fixture
def toolsets() -> list[str]:
    return ["code", "projects"]


async def test_project_list_shows_what_is_indexed(
    call: Caller, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo()
    indexed = await call.ok("index_repository", repo_path=str(root), project_id=project_id)
    found = await call.ok("project", action="list", project_id=project_id)
    assert (found["total"], found["next_cursor"], found["project_id"]) == (1, None, project_id)
    [entry] = found["projects"]
    assert entry["name"] == project_id
    [repository] = entry["repositories"]
    assert is_time(repository.pop("indexed_at"))
    assert repository.pop("bytes") > 500
    assert repository.pop("chunks") == indexed["chunks_created"]
    assert repository.pop("languages")["python"] == 5
    assert repository == {
        "id": indexed["repository_id"],
        "name": "repo",
        "root": str(root),
        "files": 8,
        "model": "builtin",
        "state": "ready",
    }
    newest = await call.ok("project", operation="list", limit=1)
    assert newest["projects"][0]["repositories"][0]["id"] == indexed["repository_id"]
    assert newest["total"] >= 1
    assert newest["project_source"] == "default"


async def test_project_get_stats_sums_code_and_records(
    call: Caller, app: App, project_id: str, make_repo: MakeRepo
) -> None:
    for name in ("one", "two"):
        root = str(make_repo(name=name))
        await call.ok("index_repository", repo_path=root, project_id=project_id)
    async with app.enter(project_id) as here:
        await here.tx.run_script(RECORDS)
    stats = await call.ok("project", operation="get_stats", project_id=project_id)
    assert is_time(stats.pop("last_indexed_at"))
    assert stats.pop("bytes") > 1000
    assert stats.pop("chunks") >= 16
    assert stats.pop("languages")["python"] == 10
    assert stats == {
        "repositories": 2,
        "files": 16,
        "records": {
            "tasks": {"complete": 2, "in-progress": 1},
            "observations": {"Insight": 1},
            "sessions": 1,
            "agents": 2,
            "entities": {"Server": 1},
            "work_items": {"planned": 1},
        },
        "project_id": project_id,
        "project_source": "explicit",
    }


RECORDS = """
INSERT INTO task (id, title, status)
VALUES (gen_random_uuid(), 'a', 'complete'), (gen_random_uuid(), 'b', 'complete'),
    (gen_random_uuid(), 'c', 'in-progress');
INSERT INTO observation (id, content, content_hash, type, model, terms, lex)
VALUES (gen_random_uuid(), 'x', 'x', 'Insight', 'm', '{}', '{}/1000000000');
INSERT INTO session (id) VALUES ('s');
INSERT INTO agent (id, name) VALUES (gen_random_uuid(), 'a'), (gen_random_uuid(), 'b');
INSERT INTO entity_type (id, name, folded) VALUES (gen_random_uuid(), 'Server', 'server');
INSERT INTO entity (id, type_id, name, data, schema_version, deleted_at)
SELECT gen_random_uuid(), id, 'there', '{}'::jsonb, 1, NULL FROM entity_type
UNION ALL
SELECT gen_random_uuid(), id, 'deleted', '{}'::jsonb, 1, now() FROM entity_type;
INSERT INTO work_item (id, item_type, title, status, path)
VALUES (gen_random_uuid(), 'task', 'x', 'planned', 'x/');
"""


async def test_an_empty_project_has_stats_of_nothing(call: Caller, existing: str) -> None:
    stats = await call.ok("project", operation="get_stats", project_id=existing)
    assert (stats["repositories"], stats["files"], stats["last_indexed_at"]) == (0, 0, None)
    assert stats["records"] == {
        "tasks": {},
        "observations": {},
        "sessions": 0,
        "agents": 0,
        "entities": {},
        "work_items": {},
    }


async def test_project_get_health_of_what_works(
    call: Caller, app: App, project_id: str, make_repo: MakeRepo
) -> None:
    await call.ok("index_repository", repo_path=str(make_repo()), project_id=project_id)
    health = await call.ok("project", operation="get_health", project_id=project_id)
    assert health["database"].pop("latency_ms") > 0
    assert is_time(health["index"].pop("last_indexed_at"))
    assert health == {
        "status": "healthy",
        "database": {
            "version": (await app.database.check()).server_version,
            "embedded": True,
        },
        "embedder": {
            "name": "builtin",
            "provider": "static",
            "fingerprint": (await app.models.embedder.identify()).fingerprint,
            "dimension": 256,
        },
        "workers": app.settings.workers,
        "index": {
            "repositories": 1,
            "files_pending": 0,
            "files_failed": 0,
            "models": {"builtin": 1},
        },
        "jobs": {"workers": 0, "waiting": 0, "running": 0, "failed": 0},
        "problems": [],
        "notices": [],
        "project_id": project_id,
        "project_source": "explicit",
    }


async def test_health_says_which_files_failed(
    call: Caller, project_id: str, make_repo: MakeRepo
) -> None:
    root = make_repo({"good.py": "x = 1\n", "bad.py": b"\x00\x01\x02"})
    await call.ok("index_repository", repo_path=str(root), project_id=project_id)
    health = await call.ok("project", operation="get_health", project_id=project_id)
    assert (health["status"], health["index"]["files_failed"]) == ("degraded", 1)
    [problem] = health["problems"]
    assert problem.startswith(f"1 file of repo ({root}) could not be indexed")


async def test_health_of_an_index_made_by_an_earlier_version(
    call: Caller, app: App, project_id: str, make_repo: MakeRepo
) -> None:
    await call.ok("index_repository", repo_path=str(make_repo()), project_id=project_id)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE profile SET fingerprint = 'old', model = 'another'")
        await here.tx.execute("UPDATE snapshot SET files_pending = 3")
    health = await call.ok("project", operation="get_health", project_id=project_id)
    assert health["status"] == "degraded"
    [pending] = health["problems"]
    assert any("by an earlier version of this program" in notice for notice in health["notices"])
    assert pending.startswith("3 files of repo")
    assert "not indexed yet" in pending


async def test_health_answers_also_where_calls_without_a_project_fail(
    call: Caller, existing: str, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).write_text(f'project = "{existing}"')
    health = await call.ok("project", operation="get_health")
    assert (health["status"], health["index"]) == ("degraded", None)
    assert (health["project_id"], health["project_source"]) == (existing, "config")
    assert "codebase-mcp trust" in health["problems"][0]


async def test_health_answers_when_the_database_is_away(mode: Any) -> None:
    settings = Settings.load({"DATABASE_URL": "postgresql://nobody:pw@127.0.0.1:9/none"})
    async with Client(server_of(AppHolder(settings), ["projects"]), mode=mode) as client:
        caller = Caller(client)
        health = await caller.ok("project", operation="get_health")
        assert health["status"] == "unhealthy"
        assert health["database"] == {"version": None, "embedded": None, "latency_ms": None}
        assert health["index"] is None
        assert health["embedder"]["dimension"] == 256
        [problem] = health["problems"]
        assert problem.startswith("PostgreSQL database unavailable")
        assert "pw" not in problem
        error = await caller.error("project", operation="get_stats")
        assert error["code"] == "DATABASE_ERROR"


async def test_health_says_that_workflow_mcp_does_not_answer(embedded: Any, mode: Any) -> None:
    settings = Settings.load(
        {
            "CODEBASE_MCP_DATA_DIR": str(embedded.data_dir),
            "WORKFLOW_MCP_URL": "http://127.0.0.1:9",
        }
    )
    async with Client(server_of(AppHolder(settings), ["projects"]), mode=mode) as client:
        health = await Caller(client).ok("project", operation="get_health")
        assert health["status"] == "degraded"
        assert health["problems"][0].startswith("workflow-mcp does not report")
        assert (health["project_id"], health["project_source"]) == (None, "default")


@pytest.mark.parametrize("operation", ["list", "get_stats", "get_health"])
async def test_a_project_that_does_not_exist_is_not_found(call: Caller, operation: str) -> None:
    error = await call.error("project", operation=operation, project_id="never-made")
    assert error["code"] == "PROJECT_NOT_FOUND"
    assert error["message"] == "Project has not been indexed or does not exist"


async def test_project_takes_only_what_its_operation_knows(call: Caller) -> None:
    error = await call.error("project", operation="get_stats", limit=5)
    assert error["message"] == "limit is not a parameter of the operation get_stats"
    error = await call.error("project", operation="delete")
    assert error["details"]["field"] == "operation"
    error = await call.error("project")
    assert error["message"] == "Field required: operation"
