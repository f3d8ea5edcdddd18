"""MCP over HTTP as clients speak it: every revision, the older transport, and what they share."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.waiting import until
from tests.web.conftest import Hold, Served, running, serving

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.http import make_asgi_app
from codebase_mcp.web.listening import address_of, bind

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
MODES: list[Any] = ["auto", "legacy"]


async def ok(client: Client[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that must succeed."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def client_of(server: Served, mode: Any = "auto", **options: Any) -> Client[Any]:
    """A client over streamable HTTP."""
    return Client(StreamableHttpTransport(f"{server.address}/mcp"), mode=mode, **options)


@pytest.mark.parametrize("mode", MODES)
async def test_one_endpoint_serves_both_revisions(
    settings: Settings, make_repo: MakeRepo, project_id: str, mode: Any
) -> None:
    root = make_repo()
    async with serving(settings) as server, client_of(server, mode) as client:
        await ok(client, "index_repository", repo_path=str(root), project_id=project_id)
        found = await ok(client, "search_code", query="user login", project_id=project_id)
    assert found["results"][0]["file_path"] == "src/auth.py"


@pytest.mark.parametrize("mode", MODES)
async def test_progress_arrives_while_the_call_is_under_way(
    settings: Settings, make_repo: MakeRepo, project_id: str, held: Hold, mode: Any
) -> None:
    root, noted = make_repo(), asyncio.Event()

    async def note(done: float, total: float | None, message: str | None) -> None:
        noted.set()

    async with (
        serving(settings) as server,
        client_of(server, mode, progress_handler=note) as client,
    ):
        async with held(root, project_id):
            call = asyncio.create_task(
                ok(client, "index_repository", repo_path=str(root), project_id=project_id)
            )
            await noted.wait()
        assert (await call)["status"] == "success"


async def test_sse_serves_the_same_product_when_asked_for(
    settings: Settings, project_id: str
) -> None:
    async with serving(replace(settings, sse=True)) as server:
        async with Client(SSETransport(f"{server.address}/sse"), mode="legacy") as older:
            await ok(older, "create_project", name="From SSE", project_id=project_id)
            await ok(older, "switch_project", project_id=project_id)
            assert (await ok(older, "get_active_project"))["project_id"] == project_id
        async with client_of(server) as newer:
            task = await ok(newer, "create_task", title="Seen by both", project_id=project_id)
            tasks = await ok(newer, "list_tasks", project_id=project_id)
    assert [found["id"] for found in tasks["tasks"]] == [task["id"]]


async def test_without_being_asked_there_is_no_sse(settings: Settings) -> None:
    async with running(make_asgi_app(settings)) as http:
        assert (await http.get("/sse")).status_code == 404
        assert (await http.post("/messages/")).status_code == 404


async def test_a_client_of_the_newest_revision_that_hangs_up_ends_its_call(
    settings: Settings, make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    root = make_repo()
    arguments = {"repo_path": str(root), "project_id": project_id}
    async with held(root, project_id), serving(settings) as server, client_of(server) as client:
        call = asyncio.create_task(client.call_tool("index_repository", arguments))
        await until(lambda: len(server.holder.calls))
        call.cancel()
        await until(lambda: len(server.holder.calls) == 0)
        assert await client.list_tools()


@pytest.mark.parametrize("mode", MODES)
async def test_without_sessions_every_request_is_independent(
    settings: Settings, project_id: str, mode: Any
) -> None:
    async with serving(replace(settings, http_workers=2)) as server:
        transport = StreamableHttpTransport(
            f"{server.address}/mcp", headers={"Mcp-Session-Id": "made-up"}
        )
        async with Client(transport, mode=mode) as client:
            await ok(client, "create_project", name="A project", project_id=project_id)
            refused = await client.call_tool(
                "switch_project", {"project_id": project_id}, raise_on_error=False
            )
            assert refused.is_error
            assert (await ok(client, "list_tasks", project_id=project_id))["tasks"] == []


async def test_the_app_can_be_mounted_in_another_one(settings: Settings) -> None:
    app = make_asgi_app(replace(settings, sse=True))
    outer = Starlette(routes=[Mount("/code", app)], lifespan=app.router.lifespan_context)
    async with running(outer) as http:
        assert (await http.get("/code/health/live")).json() == {"status": "alive"}
        listed = await http.post("/code/tools/list_tasks", json={"project_id": "default"})
        assert listed.status_code == 200
        document = (await http.get("/code/openapi.json")).json()
    assert document["servers"] == [{"url": "/code"}]


def test_a_port_in_use_is_reported_with_a_hint() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InvalidInput) as caught:
            bind("127.0.0.1", port)
    assert caught.value.message == f"Cannot listen on 127.0.0.1:{port}: Address already in use"
    assert "CODEBASE_MCP_PORT" in (caught.value.hint or "")


@pytest.mark.parametrize("host", ["192.0.2.7", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(InvalidInput, match=f"Cannot listen on {host}:0"):
        bind(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0"])
def test_port_0_takes_a_free_one_and_the_address_names_it(host: str) -> None:
    sockets = bind(host, 0)
    port = sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    assert {opened.getsockname()[1] for opened in sockets} == {port}
    assert address_of(host, sockets) == f"http://{shown}:{port}"
    for opened in sockets:
        opened.close()


def test_a_reply_in_two_pieces_waits_for_no_receipt_of_the_first() -> None:
    [listener] = bind("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
