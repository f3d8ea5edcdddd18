"""The toolset ``projects`` as a client sees it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.errors import ProjectNotFound

from .conftest import Caller, is_time

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


async def test_an_id_is_unique_in_all_spellings(call: Caller, new_id: Callable[[], str]) -> None:
    name = new_id()
    await call.ok("create_project", name=name)
    for arguments in ({"name": name}, {"name": "x", "project_id": name.replace("-", "_")}):
        error = await call.error("create_project", **arguments)
        assert (error["code"], error["type"]) == ("CONFLICT", "InvalidInput")
        assert "taken" in error["message"]
        assert error["details"]["schema_name"] == f"project_{name.replace('-', '_')}"
    for arguments in ({"name": "Default"}, {"name": "x", "project_id": "default"}):
        assert (await call.error("create_project", **arguments))["code"] == "CONFLICT"


async def test_one_of_many_concurrent_creations_succeeds(
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
async def test_invalid_arguments_create_no_project(
    call: Caller, arguments: dict[str, Any], field: str, said: str
) -> None:
    before = await call.ok("list_projects", limit=1)
    error = await call.error("create_project", **arguments)
    assert error["code"] == "VALIDATION_ERROR"
    assert error["details"]["field"] == field
    assert said in error["message"]
    assert (await call.ok("list_projects", limit=1))["total"] == before["total"]


async def test_a_name_that_no_id_can_be_made_from_needs_one(
    call: Caller, new_id: Callable[[], str]
) -> None:
    error = await call.error("create_project", name="日本")
    assert error["message"] == (
        "Field required: project_id, as none can be made from the name 日本"
    )
    assert error["details"]["field"] == "project_id"
    made = await call.ok("create_project", name="日本", project_id=new_id())
    assert made["name"] == "日本"


async def test_calls_use_the_project_that_the_caller_switched_to(
    call: Caller, existing: str
) -> None:
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


async def test_a_dropped_active_project_is_reported(call: Caller, app: App, existing: str) -> None:
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


async def test_an_invalid_context_file_is_reported_and_selects_no_other_project(
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
    await app.resolver.resolve(None, ANONYMOUS)
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
async def test_an_invalid_page_is_refused(
    call: Caller, tool: str, arguments: dict[str, Any], field: str
) -> None:
    more = {"operation": "list"} if tool == "project" else {}
    error = await call.error(tool, **arguments, **more)
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", field)
