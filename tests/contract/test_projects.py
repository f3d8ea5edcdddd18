"""The toolset ``projects`` as a client sees it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.app import NOBODY, App
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.projects.context_file import FILE_NAME
from codebase_mcp.settings import Settings
from codebase_mcp.tools.server import build_server

from .conftest import Caller

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


@pytest.fixture
def toolsets() -> list[str]:
    return ["code", "projects"]


@pytest.fixture
async def new_id(anyio_backend: str, app: App) -> AsyncIterator[Callable[[], str]]:
    """Ids of projects that do not exist yet; what was made of them is dropped in the end."""
    made: list[str] = []

    def make() -> str:
        made.append(f"test-{uuid.uuid4().hex[:12]}")
        return made[-1]

    yield make
    for project_id in made:
        with suppress(ProjectNotFound):
            await app.drop_project(project_id)


@pytest.fixture
async def existing(app: App, project_id: str) -> str:
    """The id of a project that exists and holds nothing."""
    await app.resolver.resolve(project_id, NOBODY, create=True)
    return project_id


def is_time(text: str) -> bool:
    return datetime.fromisoformat(text).tzinfo is not None


async def test_the_toolset_has_its_five_tools(client: Client[Any]) -> None:
    tools = {tool.name: tool.annotations for tool in await client.list_tools()}
    mine = tools.keys() - {"index_repository", "search_code"}
    assert mine == {
        "project",
        "create_project",
        "switch_project",
        "get_active_project",
        "list_projects",
    }
    reading = {name for name in mine if (hints := tools[name]) and hints.read_only_hint}
    assert reading == mine - {"create_project", "switch_project"}


async def test_a_project_is_created_with_an_id_made_from_its_name(
    call: Caller, new_id: Callable[[], str]
) -> None:
    name = new_id()
    made = await call.ok("create_project", name=f"  {name.upper()}! ", description=" For tests ")
    assert is_time(made.pop("created_at"))
    assert made == {
        "project_id": name,
        "name": f"{name.upper()}!",
        "description": "For tests",
        "schema_name": f"project_{name.replace('-', '_')}",
        "project_source": "explicit",
    }


async def test_a_project_is_created_under_the_id_that_is_given(
    call: Caller, new_id: Callable[[], str]
) -> None:
    name = new_id()
    made = await call.ok("create_project", name="Client A", project_id=name, description=None)
    assert (made["project_id"], made["name"], made["description"]) == (name, "Client A", None)
    found = await call.ok("list_projects", project_id=name)
    assert [entry["name"] for entry in found["projects"]] == ["Client A"]


async def test_an_id_is_taken_once_however_it_is_written(
    call: Caller, new_id: Callable[[], str]
) -> None:
    name = new_id()
    await call.ok("create_project", name=name)
    for arguments in ({"name": name}, {"name": "x", "project_id": name.replace("-", "_")}):
        error = await call.error("create_project", **arguments)
        assert (error["code"], error["type"]) == ("CONFLICT", "InvalidInput")
        assert "taken" in error["message"]
        assert error["details"]["schema_name"] == f"project_{name.replace('-', '_')}"
    for arguments in ({"name": "Default"}, {"name": "x", "project_id": "default"}):
        assert (await call.error("create_project", **arguments))["code"] == "CONFLICT"


async def test_of_many_who_create_a_project_at_once_one_succeeds(
    client: Client[Any], new_id: Callable[[], str]
) -> None:
    arguments = {"name": "Mine", "project_id": new_id()}
    results = await asyncio.gather(
        *(client.call_tool("create_project", arguments, raise_on_error=False) for _ in range(8))
    )
    assert sorted(result.is_error for result in results) == [False] + [True] * 7


@pytest.mark.parametrize(
    ("arguments", "field", "said"),
    [
        ({}, "name", "Field required: name"),
        ({"name": "  "}, "name", "Name cannot be empty"),
        ({"name": "n" * 101}, "name", "Name must have 1 to 100 characters, got 101"),
        ({"name": "a\0b"}, "name", "NUL"),
        ({"name": "x", "description": "d" * 2001}, "description", "0 to 2000 characters"),
        ({"name": "x", "project_id": "My_App"}, "project_id", "Invalid project_id"),
        ({"name": "x", "project_id": ""}, "project_id", "Invalid project_id"),
    ],
)
async def test_what_does_not_fit_makes_no_project(
    call: Caller, arguments: dict[str, Any], field: str, said: str
) -> None:
    before = await call.ok("list_projects", limit=1)
    error = await call.error("create_project", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"]["field"] == field
    assert said in error["message"]
    assert (await call.ok("list_projects", limit=1))["total"] == before["total"]


async def test_a_caller_works_in_the_project_it_switched_to(call: Caller, existing: str) -> None:
    before = await call.ok("get_active_project")
    assert before == {"project": None, "project_id": None, "project_source": "default"}
    switched = await call.ok("switch_project", project_id=existing)
    assert (switched["project_id"], switched["project_source"]) == (existing, "active")
    assert switched["name"] == existing
    assert switched["schema_name"] == f"project_{existing.replace('-', '_')}"
    assert "note" not in switched
    now = await call.ok("get_active_project")
    assert now["project"]["project_id"] == existing
    assert is_time(now["project"]["created_at"])
    assert (now["project_id"], now["project_source"]) == (existing, "active")
    stats = await call.ok("project", operation="get_stats")
    assert (stats["project_id"], stats["project_source"]) == (existing, "active")
    stats = await call.ok("project", operation="get_stats", project_id="default")
    assert (stats["project_id"], stats["project_source"]) == (None, "explicit")
    await call.ok("switch_project", collection="default")
    now = await call.ok("get_active_project")
    assert now["project"]["project_id"] is None
    assert now["project"]["name"] == "default"
    assert (now["project_id"], now["project_source"]) == (None, "active")


async def test_code_is_indexed_into_and_found_in_the_active_project(
    call: Caller, existing: str, make_repo: MakeRepo
) -> None:
    await call.ok("switch_project", project_id=existing)
    indexed = await call.ok("index_repository", repo_path=str(make_repo()))
    assert (indexed["project_id"], indexed["project_source"]) == (existing, "active")
    found = await call.ok("search_code", query="user login")
    assert (found["project_id"], found["project_source"]) == (existing, "active")
    assert found["results"]


async def test_an_unknown_project_is_not_switched_to(call: Caller) -> None:
    error = await call.error("switch_project", project_id="never-made")
    assert (error["code"], error["type"]) == ("PROJECT_NOT_FOUND", "NotFound")
    error = await call.error("switch_project", project_id=None)
    assert error["code"] == "VALIDATION_ERROR"
    error = await call.error("switch_project")
    assert error["message"] == "Field required: project_id"
    assert (await call.ok("get_active_project"))["project"] is None


async def test_an_active_project_that_was_dropped_is_said_to_be_gone(
    call: Caller, app: App, existing: str
) -> None:
    await call.ok("switch_project", project_id=existing)
    await call.ok("project", operation="get_stats")
    await app.drop_project(existing)  # as another process would
    error = await call.error("project", operation="get_stats")
    assert error["code"] == "PROJECT_NOT_FOUND"
    assert error["message"] == f"The active project {existing} does not exist any more"
    now = await call.ok("get_active_project")
    assert (now["project"], now["project_id"], now["project_source"]) == (None, existing, "active")
    assert "does not exist any more" in now["note"]


async def test_a_file_that_names_another_project_is_noted_when_switching(
    call: Caller, app: App, existing: str, new_id: Callable[[], str], tmp_path: Path
) -> None:
    named = new_id()
    (tmp_path / FILE_NAME).write_text(f'project = "{named}"')
    switched = await call.ok("switch_project", project_id=existing)
    assert (switched["project_id"], switched["project_source"]) == (existing, "config")
    assert "Calls without project_id fail" in switched["note"]
    await call.ok("create_project", name="Named", project_id=named)
    switched = await call.ok("switch_project", project_id=existing)
    assert f"Calls without project_id still mean {named}" in switched["note"]
    now = await call.ok("get_active_project")
    assert now["project"]["project_id"] == existing
    assert (now["project_id"], now["project_source"]) == (named, "config")
    switched = await call.ok("switch_project", project_id=named)
    assert "note" not in switched


async def test_indexing_makes_the_project_that_the_repository_names(
    call: Caller, new_id: Callable[[], str], make_repo: MakeRepo
) -> None:
    root = make_repo()
    (root / FILE_NAME).write_text(f'project = "{(name := new_id())}"')
    for _ in range(2):
        indexed = await call.ok("index_repository", repo_path=str(root))
        assert (indexed["project_id"], indexed["project_source"]) == (name, "config")
    assert (await call.ok("search_code", query="login", project_id=name))["results"]


async def test_a_clone_that_names_a_project_of_others_is_refused_until_confirmed(
    call: Caller, existing: str, make_repo: MakeRepo
) -> None:
    root = make_repo()
    (root / FILE_NAME).write_text(f'project = "{existing}"')
    error = await call.error("index_repository", repo_path=str(root))
    assert (error["code"], error["type"]) == ("PERMISSION_DENIED", "InvalidInput")
    assert f"{FILE_NAME} names the project {existing}" in error["message"]
    assert "codebase-mcp trust" in error["hint"]
    await call.ok("index_repository", repo_path=str(root), project_id=existing)
    indexed = await call.ok("index_repository", repo_path=str(root))
    assert (indexed["project_id"], indexed["project_source"]) == (existing, "config")


async def test_a_broken_file_is_named_and_means_no_other_project(
    call: Caller, existing: str, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).write_text("project = [")
    error = await call.error("search_code", query="login")
    assert error["code"] == "VALIDATION_ERROR"
    assert str(tmp_path / FILE_NAME) in error["message"]
    now = await call.ok("get_active_project")
    assert str(tmp_path / FILE_NAME) in now["note"]
    await call.ok("project", operation="get_stats", project_id=existing)
    await call.ok("list_projects")


async def test_projects_are_listed_newest_first_by_page(
    call: Caller, new_id: Callable[[], str]
) -> None:
    made = [new_id() for _ in range(3)]
    for name in made:
        await call.ok("create_project", name=name)
    first = await call.ok("list_projects", limit=2)
    assert [entry["project_id"] for entry in first["projects"]] == [made[2], made[1]]
    assert first["total"] >= 3
    assert (first["project_id"], first["project_source"]) == (None, "default")
    later = await call.ok("create_project", name=new_id())
    second = await call.ok("list_projects", limit=2, cursor=first["next_cursor"])
    assert second["projects"][0]["project_id"] == made[0]
    shifted = await call.ok("list_projects", limit=2, offset=1)
    assert shifted["projects"] == first["projects"]
    everything = await call.ok("list_projects", limit=100)
    assert everything["projects"][0]["project_id"] == later["project_id"]
    assert everything["next_cursor"] is None or everything["total"] > 100


async def test_the_default_workspace_is_listed_once_it_exists(call: Caller, app: App) -> None:
    await app.resolver.resolve(None, NOBODY)
    found = await call.ok("list_projects", project_id="default")
    [entry] = found["projects"]
    assert (entry["project_id"], entry["name"]) == (None, "default")
    assert entry["schema_name"] == "project_default"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"offset": -1}, "offset"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"page": 1}, "page"),
    ],
)
@pytest.mark.parametrize("tool", ["list_projects", "project"])
async def test_a_page_that_is_none_is_refused(
    call: Caller, tool: str, arguments: dict[str, Any], field: str
) -> None:
    more = {"operation": "list"} if tool == "project" else {}
    error = await call.error(tool, **arguments, **more)
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", field)


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
            "version": (await app.database_facts()).server_version,
            "embedded": True,
        },
        "embedder": {
            "name": "builtin",
            "provider": "static",
            "fingerprint": (await app.embedder.identify()).fingerprint,
            "dimension": 256,
        },
        "workers": app.workers,
        "index": {
            "repositories": 1,
            "files_pending": 0,
            "files_failed": 0,
            "models": {"builtin": 1},
        },
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


async def test_health_of_an_index_made_by_another_version(
    call: Caller, app: App, project_id: str, make_repo: MakeRepo
) -> None:
    await call.ok("index_repository", repo_path=str(make_repo()), project_id=project_id)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE profile SET fingerprint = 'old', model = 'another'")
        await here.tx.execute("UPDATE snapshot SET files_pending = 3")
    health = await call.ok("project", operation="get_health", project_id=project_id)
    assert health["status"] == "degraded"
    model, pending = health["problems"]
    assert "made by another version of this program (model another)" in model
    assert "force_reindex" in model
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
    async with Client(build_server(lambda: App.open(settings), ["projects"]), mode=mode) as client:
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
    async with Client(build_server(lambda: App.open(settings), ["projects"]), mode=mode) as client:
        health = await Caller(client).ok("project", operation="get_health")
        assert health["status"] == "degraded"
        assert health["problems"][0].startswith("workflow-mcp does not say")
        assert (health["project_id"], health["project_source"]) == (None, "default")


@pytest.mark.parametrize("operation", ["list", "get_stats", "get_health"])
async def test_a_project_that_does_not_exist_is_not_found(call: Caller, operation: str) -> None:
    error = await call.error("project", operation=operation, project_id="never-made")
    assert error["code"] == "PROJECT_NOT_FOUND"
    assert error["message"] == "Project has not been indexed or does not exist"


async def test_project_takes_only_what_its_operation_knows(call: Caller) -> None:
    error = await call.error("project", operation="get_stats", limit=5)
    assert error["message"] == "limit is no parameter of the operation get_stats"
    error = await call.error("project", operation="delete")
    assert error["details"]["field"] == "operation"
    error = await call.error("project")
    assert error["message"] == "Field required: operation"
