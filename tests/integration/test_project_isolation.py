"""Two agents never end up in each other's project: over stdio, over HTTP, with and without keys."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.server.auth import AccessToken
from mcp import MCPError
from tests.integration.conftest import Shell
from tests.web.conftest import serving

from codebase_mcp.access.context_file import FILE_NAME
from codebase_mcp.access.identity import FULL_ACCESS
from codebase_mcp.access.keys import create_key
from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import ProjectNotFound
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.callers import owner_of

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]
TOOLSETS = ["code", "projects", "tasks"]
ROUNDS = 10


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
def environment(settings: Settings) -> dict[str, str]:
    return {**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)}


async def ok(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that must succeed."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def error_of(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a call that must fail."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert result.is_error
    assert result.structured_content is not None
    error: dict[str, Any] = result.structured_content["error"]
    return error


async def work(client: Client[Any], agent: str, mine: list[str]) -> None:
    """What an agent does: switch to its projects in turn, and keep tasks in each."""
    for number in range(ROUNDS):
        project_id = mine[number % len(mine)]
        await ok(client, "switch_project", project_id=project_id)
        now = await ok(client, "get_active_project")
        assert (now["project"]["project_id"], now["project_id"]) == (project_id, project_id)
        assert now["project_source"] == "active"
        stored = await ok(client, "create_task", title=f"{agent} {project_id} {number}")
        assert (stored["project_id"], stored["project_source"]) == (project_id, "active")


async def require_only_own(client: Client[Any], agent: str, project_id: str) -> None:
    listed = await ok(client, "list_tasks", project_id=project_id, limit=100)
    titles = [task["title"] for task in listed["tasks"]]
    assert titles
    assert all(title.startswith(f"{agent} {project_id} ") for title in titles)


async def test_two_server_processes_work_in_two_projects(
    environment: dict[str, str], new_id: Callable[[], str], tmp_path: Path
) -> None:
    command = [*COMMAND[1:], "serve", "--toolsets", "all"]
    one, two = (
        StdioTransport(COMMAND[0], command, env=environment, cwd=str(tmp_path), keep_alive=False)
        for _ in range(2)
    )
    async with Client(one) as first, Client(two, mode="legacy") as second:
        agents = {"first": first, "second": second}
        projects = {agent: [new_id(), new_id()] for agent in agents}
        for agent, client in agents.items():
            for project_id in projects[agent]:
                await ok(client, "create_project", name=agent, project_id=project_id)
        await asyncio.gather(*(work(agents[a], a, projects[a]) for a in agents))
        for agent, client in agents.items():
            for project_id in projects[agent]:
                await require_only_own(client, agent, project_id)
            now = await ok(client, "get_active_project")
            assert now["project_id"] == projects[agent][(ROUNDS - 1) % 2]


@dataclass(frozen=True, slots=True)
class Reached:
    """A server on loopback, and clients of it."""

    address: str

    def client(
        self, key: str | None = None, mode: Any = "auto", *, sse: bool = False, **options: Any
    ) -> Client[Any]:
        if sse:
            return Client(SSETransport(f"{self.address}/sse", auth=key), mode=mode)
        transport = StreamableHttpTransport(f"{self.address}/mcp", **options)
        return Client(transport, auth=key, mode=mode)


@asynccontextmanager
async def http_server(settings: Settings, **changes: Any) -> AsyncIterator[Reached]:
    shown = replace(settings, toolsets=tuple(TOOLSETS), port=0, transport="http", **changes)
    async with serving(shown) as server:
        yield Reached(server.address)


async def key_of(database: Database, owner: str) -> str:
    _, text = await create_key(database, owner, FULL_ACCESS)
    return text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_two_keys_on_one_http_server_work_in_two_projects(
    settings: Settings, database: Database, new_id: Callable[[], str], mode: Any
) -> None:
    owners = [f"alice-{uuid.uuid4()}", f"bob-{uuid.uuid4()}"]
    projects = {owner: [new_id(), new_id()] for owner in owners}
    keys = [await key_of(database, owner) for owner in owners]
    async with http_server(settings) as server:
        alice, bob = (server.client(key, mode) for key in keys)
        async with alice, bob:
            agents = dict(zip(owners, (alice, bob), strict=True))
            for agent, client in agents.items():
                for project_id in projects[agent]:
                    await ok(client, "create_project", name=agent[:5], project_id=project_id)
            await asyncio.gather(*(work(agents[a], a, projects[a]) for a in owners))
            for agent, client in agents.items():
                for project_id in projects[agent]:
                    await require_only_own(client, agent, project_id)


async def test_a_key_finds_its_project_again_in_both_protocols_and_on_another_server(
    settings: Settings, database: Database, new_id: Callable[[], str]
) -> None:
    owner, project_id = f"alice-{uuid.uuid4()}", new_id()
    key, another = await key_of(database, owner), await key_of(database, "somebody")
    async with http_server(settings) as server, server.client(key) as client:
        await ok(client, "create_project", name="Mine", project_id=project_id)
        await ok(client, "switch_project", project_id=project_id)
    async with http_server(settings) as server:
        for mode in ("auto", "legacy"):
            async with server.client(key, mode) as client:
                assert (await ok(client, "get_active_project"))["project_id"] == project_id
            async with server.client(another, mode) as client:
                assert (await ok(client, "get_active_project"))["project"] is None


async def test_users_of_one_client_are_told_apart() -> None:
    def owner(client: str, subject: str | None = None, issuer: str | None = None) -> str:
        claims = {} if issuer is None else {"iss": issuer}
        return owner_of(
            AccessToken(token="t", client_id=client, scopes=[], subject=subject, claims=claims)
        )

    owners = [
        owner("app"),
        owner("app", "alice"),
        owner("app", "bob"),
        owner("app alice"),
        owner("app", "alice", "https://one.example"),
        owner("app", "alice", "https://two.example"),
        owner("app", None, "alice"),
    ]
    assert len(set(owners)) == len(owners)
    assert owners[0] == "key app"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("key", [None, "cbm_mallory"])
async def test_without_a_key_nobody_gets_in_where_keys_are_asked_for(
    settings: Settings, mode: Any, key: str | None
) -> None:
    async with http_server(settings, require_keys=True) as server:
        with pytest.raises(MCPError, match="error response"):
            async with server.client(key, mode) as client:
                await client.list_tools()


async def test_an_anonymous_caller_of_the_newest_protocol_cannot_switch(
    settings: Settings, new_id: Callable[[], str]
) -> None:
    project_id = new_id()
    async with http_server(settings) as server, server.client() as client:
        await ok(client, "create_project", name="Mine", project_id=project_id)
        error = await error_of(client, "switch_project", project_id=project_id)
        assert error["code"] == "PERMISSION_DENIED"
        assert error["hint"] == "Pass project_id with each call."
        now = await ok(client, "get_active_project")
        assert (now["project"], now["project_source"]) == (None, "default")
        assert (await ok(client, "list_tasks", project_id=project_id))["tasks"] == []


@pytest.mark.parametrize("sse", [False, True])
async def test_each_session_of_the_older_protocol_has_a_project_of_its_own(
    settings: Settings, new_id: Callable[[], str], sse: bool
) -> None:
    async with http_server(settings, sse=sse) as server:
        one, two, three = (server.client(mode="legacy", sse=sse) for _ in range(3))
        async with one, two, three:
            agents = {"one": one, "two": two}
            projects = {agent: [new_id(), new_id()] for agent in agents}
            for agent, client in agents.items():
                for project_id in projects[agent]:
                    await ok(client, "create_project", name=agent, project_id=project_id)
            await asyncio.gather(*(work(agents[a], a, projects[a]) for a in agents))
            assert (await ok(three, "get_active_project"))["project"] is None


async def test_the_session_of_another_cannot_be_borrowed_with_its_header(
    settings: Settings, new_id: Callable[[], str]
) -> None:
    project_id = new_id()
    async with http_server(settings) as server, server.client(mode="legacy") as victim:
        await ok(victim, "create_project", name="Mine", project_id=project_id)
        await ok(victim, "switch_project", project_id=project_id)
        session = victim.transport.get_session_id()  # type: ignore[attr-defined]
        assert session
        async with server.client(headers={"mcp-session-id": session}) as thief:
            now = await ok(thief, "get_active_project")
            assert (now["project"], now["project_source"]) == (None, "default")
            error = await error_of(thief, "switch_project", project_id="default")
            assert error["code"] == "PERMISSION_DENIED"
        assert (await ok(victim, "get_active_project"))["project_id"] == project_id


async def test_over_http_the_files_of_the_server_steer_nobody(
    settings: Settings, new_id: Callable[[], str], make_repo: MakeRepo
) -> None:
    root = make_repo()
    (root / FILE_NAME).write_text(f'project = "{new_id()}"')
    async with http_server(settings, project_dir=root) as server, server.client() as client:
        now = await ok(client, "get_active_project")
        assert (now["project_id"], now["project_source"]) == (None, "default")
        target = new_id()
        indexed = await ok(client, "index_repository", repo_path=str(root), project_id=target)
        assert (indexed["project_id"], indexed["project_source"]) == (target, "explicit")


def test_a_single_command_cannot_switch_and_the_shell_confirms_files(
    shell: Shell, make_repo: MakeRepo, new_id: Callable[[], str]
) -> None:
    def told(*arguments: str, cwd: Path) -> tuple[int, str, str]:
        done = shell(*arguments, cwd=cwd)
        return done.returncode, done.stdout, done.stderr

    name = new_id()
    home, clone = make_repo(), make_repo(name="clone")
    code, out, _ = told("trust", cwd=home)
    assert (code, out) == (1, "")
    for root in (home, clone):
        (root / FILE_NAME).write_text(f'project = "{name}"\n')
    code, out, _ = told("trust", str(home), cwd=clone)
    assert (code, "does not exist yet" in out) == (0, True)
    assert told("index", ".", cwd=home)[0] == 0
    assert told("search", "user", "login", cwd=home)[0] == 0
    assert "9 files" in told("status", cwd=home)[1]
    code, out, err = told("index", ".", cwd=clone)
    assert (code, out) == (1, "")
    assert f"{clone / FILE_NAME} names the project {name}, which it did not create" in err
    code, out, _ = told("switch_project", "--project_id", name, cwd=clone)
    assert (code, json.loads(out)["error"]["code"]) == (1, "PERMISSION_DENIED")
    code, out, _ = told("trust", "--json", cwd=clone)
    confirmed = {"file": str(clone / FILE_NAME), "project_id": name, "trusted": True}
    assert (code, json.loads(out)) == (0, confirmed)
    code, out, _ = told("index", ".", "--json", cwd=clone)
    assert (json.loads(out)["project_id"], json.loads(out)["project_source"]) == (name, "config")
    assert told("remove", str(clone), cwd=clone)[0] == 0
