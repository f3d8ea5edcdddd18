"""A key says who calls and what for, at every door alike."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from tests.web.conftest import Served, serving

from codebase_mcp.access import keys
from codebase_mcp.access.identity import Access, Scope
from codebase_mcp.access.keys import (
    Key,
    create_key,
    has_valid_key,
    list_keys,
    revoke_key,
    rotate_key,
)
from codebase_mcp.database.connection import Database
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.server import AppHolder, server_of
from codebase_mcp.web import door

pytestmark = pytest.mark.anyio

MODES: list[Any] = ["auto", "legacy"]
WRITING = {
    "agent": {"create_session", "track_execution"},
    "memory": {"store"},
    "session": {"start", "end"},
}
INDEXING = {"vcs": {"index_repository"}}
READERS = {
    "search_code", "get_indexing_status", "project", "switch_project", "get_active_project",
    "list_projects", "get_task", "list_tasks", "memory", "session", "vcs", "find_text",
    "find_context", "symbol", "agent", "query_entities", "query_work_items",
    "get_work_item_hierarchy",
}  # fmt: skip
WRITERS = {
    "create_project", "create_task", "update_task", "memory", "session", "agent",
    "register_entity_type", "create_entity", "update_entity", "delete_entity",
    "update_entity_type_schema", "create_work_item", "update_work_item",
}  # fmt: skip
INDEXERS = {"index_repository", "index_codebase", "vcs"}
EVERYTHING = READERS | WRITERS | INDEXERS | {"clear_index"}
_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}
OPENING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A server that asks everyone for a key."""
    return replace(settings, require_keys=True)


def access(*scopes: Scope, **more: Any) -> Access:
    return Access(frozenset(scopes), reads_as_server=False, **more)


async def key_with(database: Database, *scopes: Scope, owner: str = "alice") -> str:
    _, text = await create_key(database, owner, access(*scopes))
    return text


def http_of(server: Served, key: str = "") -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.AsyncClient(base_url=server.address, headers=headers)


async def status(http: httpx2.AsyncClient, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return (await http.get("/openapi.json", headers=headers)).status_code


def mcp_of(server: Served, key: str, mode: Any = "auto") -> Client[Any]:
    return Client(StreamableHttpTransport(f"{server.address}/mcp"), auth=key, mode=mode)


async def test_scopes_decide_which_tools_there_are_at_every_door(
    settings: Settings, database: Database
) -> None:
    expected: dict[tuple[Scope, ...], set[str]] = {
        ("read",): READERS,
        ("write",): WRITERS,
        ("index",): INDEXERS,
        ("read", "index"): READERS | INDEXERS,
        ("admin",): EVERYTHING,
        ("read", "write", "index", "admin"): EVERYTHING,
    }
    assert {spec.name for spec in all_tools()} == EVERYTHING
    async with serving(replace(settings, sse=True)) as server:
        for scopes, tools in expected.items():
            key = await key_with(database, *scopes)
            for mode in MODES:
                async with mcp_of(server, key, mode) as client:
                    assert {tool.name for tool in await client.list_tools()} == tools
            async with Client(
                SSETransport(f"{server.address}/sse", auth=key), mode="legacy"
            ) as sse:
                assert {tool.name for tool in await sse.list_tools()} == tools
            async with http_of(server, key) as http:
                paths = (await http.get("/openapi.json")).json()["paths"]
                assert {path[7:] for path in paths if path.startswith("/tools/")} == tools
                assert (await http.get("/metrics")).status_code == 200
                page = await http.get("/index")
            assert page.status_code == (200 if "search_code" in tools else 403)
            may_index = tools >= INDEXERS | READERS
            assert ("Index a repository" in page.text) == may_index


async def test_what_a_key_may_not_call_is_refused_by_tool_and_operation(
    settings: Settings, database: Database, project_id: str
) -> None:
    reads, writes = await key_with(database, "read"), await key_with(database, "write")
    here = {"project_id": project_id}
    store = {"operation": "store", "content": "x", "observation_type": "Insight", **here}
    calls: list[tuple[str, dict[str, Any], bool, bool]] = [
        ("create_project", {"name": "x", **here}, False, True),
        ("index_repository", {"repo_path": "/tmp", **here}, False, False),
        ("index_codebase", {"repository_path": "/tmp", "collection": project_id}, False, False),
        ("vcs", {"operation": "index_repository", "repository_path": "/tmp"}, False, False),
        ("create_task", {"title": "x", **here}, False, True),
        ("list_tasks", here, True, False),
        ("memory", store, False, True),
        ("memory", {"action": "timeline", **here}, True, False),
        ("clear_index", {"nonsense": 1}, False, False),
    ]
    async with serving(settings) as server:
        for tool, arguments, *may in calls:
            for key, is_allowed in zip((writes, reads), reversed(may), strict=True):
                async with http_of(server, key) as http:
                    answer = await http.post(f"/tools/{tool}", json=arguments)
                async with mcp_of(server, key) as client:
                    called = await client.call_tool(tool, arguments, raise_on_error=False)
                if is_allowed:
                    assert answer.status_code != 403
                    continue
                assert answer.status_code == 403
                assert called.structured_content is not None
                for error in (answer.json()["error"], called.structured_content["error"]):
                    assert error["code"] == "PERMISSION_DENIED"
                    assert error["details"]["field"] == "scope"
                    assert "operator" in error["hint"]


def test_each_operation_of_a_tool_that_writes_and_reads_has_its_scope() -> None:
    for spec in all_tools():
        operations = spec.input_schema()["properties"].get("operation", {}).get("enum", [])
        for scope, expected in (("write", WRITING), ("index", INDEXING)):
            needing = {name for name in operations if spec.scope_of(name) == scope}
            assert needing == expected.get(spec.name, set()), spec.name
        assert set(spec.operations) in (set(operations), set())


async def test_a_server_that_is_read_only_lets_everyone_read_alone(
    settings: Settings, database: Database
) -> None:
    settings = replace(settings, read_only=True)
    key = await key_with(database, "read", "write", "admin")
    async with serving(settings) as server, mcp_of(server, key) as client:
        assert {tool.name for tool in await client.list_tools()} == READERS
    async with serving(replace(settings, require_keys=False)) as server, http_of(server) as http:
        paths = (await http.get("/openapi.json")).json()["paths"]
        assert {path[7:] for path in paths if path.startswith("/tools/")} == READERS
    async with Client(server_of(AppHolder(settings), settings.toolsets)) as client:
        assert {tool.name for tool in await client.list_tools()} == READERS
        refused = await client.call_tool("create_task", {"title": "x"}, raise_on_error=False)
    assert refused.is_error


async def test_only_a_key_that_is_valid_now_lets_in(settings: Settings, database: Database) -> None:
    key, text = await create_key(database, "alice", access("read"), expires_s=3600)
    _, expired = await create_key(database, "alice", access("read"), expires_s=-1)
    wrong = [
        text[:-1] + ("a" if text[-1] != "a" else "b"),
        text.replace(key.id, "000000000000"),
        text + "x",
        text.removeprefix("cbm_"),
        f"cbm_{key.id}_",
        expired,
        "made-up",
        "é" * 60,
    ]
    async with serving(settings) as server, http_of(server) as http:
        assert await status(http, text) == 200
        for key_text in wrong:
            headers = {"Authorization": f"Bearer {key_text}".encode()}
            answer = await http.get("/openapi.json", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
            assert answer.json()["error"]["code"] == "PERMISSION_DENIED"
        twice = [("Authorization", f"Bearer {text}"), ("Authorization", f"Bearer {expired}")]
        assert (await http.get("/openapi.json", headers=twice)).status_code == 401
        without = await http.get("/openapi.json")
        assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
        await revoke_key(database, key.id)
        while await status(http, text) == 200:  # what was read a moment ago is used for a second
            await asyncio.sleep(0.05)
    states = {key.id: key.state for key in await list_keys(database)}
    assert states[key.id] == "revoked"
    assert "expired" in states.values()


async def test_a_rotated_key_has_a_new_text_and_keeps_the_former_for_a_while(
    settings: Settings, database: Database
) -> None:
    key, first = await create_key(database, "alice", access("read"))
    _, second = await rotate_key(database, f"cbm_{key.id}", grace_s=3600)
    async with serving(settings) as server, http_of(server) as http:
        assert [await status(http, text) for text in (first, second)] == [200, 200]
    _, third = await rotate_key(database, second, grace_s=0)
    async with serving(settings) as server, http_of(server) as http:
        statuses = [await status(http, text) for text in (first, second, third)]
    assert statuses == [401, 401, 200]


async def test_of_a_key_nothing_is_stored_but_a_hash_and_when_it_was_used(
    settings: Settings, database: Database
) -> None:
    limited = access("read", projects=("team-*",), requests_per_minute=7)
    key, text = await create_key(database, "alice", limited)
    assert await has_valid_key(database)
    assert key.access == limited
    assert text not in repr(key)

    async def stored() -> Key:
        return next(known for known in await list_keys(database) if known.id == key.id)

    assert (await stored()).last_used_at is None
    async with serving(settings) as server, http_of(server) as http:
        await status(http, text)
        used_at = (await stored()).last_used_at
        await status(http, text)
    assert used_at is not None
    assert (await stored()).last_used_at == used_at
    async with database.catalogue(readonly=True) as tx:
        row = await tx.fetch_one("SELECT api_key::text FROM api_key WHERE id = %(id)s", id=key.id)
    assert row is not None
    assert text[-20:] not in row[0]


async def test_the_owner_of_a_key_is_who_calls_whichever_key_it_is(
    settings: Settings, database: Database, project_id: str
) -> None:
    owner = f"owner of {project_id}"
    first, second = [await key_with(database, "read", "write", owner=owner) for _ in range(2)]
    other = await key_with(database, "read", owner=f"another than {owner}")
    async with serving(settings) as server:
        async with http_of(server, first) as http:
            await http.post("/tools/create_project", json={"name": "x", "project_id": project_id})
            await http.post("/tools/switch_project", json={"project_id": project_id})
        active = []
        for key in (second, other):
            async with mcp_of(server, key, "legacy") as client:
                reply = await client.call_tool("get_active_project", {})
                assert reply.structured_content is not None
                active.append(reply.structured_content["project_id"])
    assert active == [project_id, None]


async def test_a_session_belongs_to_the_key_that_opened_it(
    settings: Settings, database: Database
) -> None:
    alice, bob = await key_with(database, "read"), await key_with(database, "read", owner="bob")
    headers = {"Accept": "application/json, text/event-stream"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with serving(settings) as server:
        async with http_of(server, alice) as http:
            opened = await http.post("/mcp", json=OPENING, headers=headers)
            headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            assert (await http.post("/mcp", json=ping, headers=headers)).status_code == 200
        async with http_of(server, bob) as http:
            assert (await http.post("/mcp", json=ping, headers=headers)).status_code == 404
        async with http_of(server) as http:
            assert (await http.post("/mcp", json=ping, headers=headers)).status_code == 401


async def test_open_streams_end_when_their_key_is_revoked(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "CHECK_STREAMS_S", 0.01)
    monkeypatch.setattr(keys, "_KNOWN_S", 0.0)
    (revoked, text), (_, other) = [
        await create_key(database, owner, access("read")) for owner in ("alice", "bob")
    ]
    async with serving(replace(settings, sse=True)) as server, AsyncExitStack() as stack:

        async def stream(key: str, path: str) -> asyncio.Task[bytes]:
            http = await stack.enter_async_context(http_of(server, key))
            headers = {"Accept": "application/json, text/event-stream"}
            if path == "/mcp":
                opened = await http.post("/mcp", json=OPENING, headers=headers)
                headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
            answer = http.stream("GET", path, headers=headers, timeout=None)
            response = await stack.enter_async_context(answer)
            assert response.status_code == 200
            return asyncio.create_task(response.aread())

        ending = [await stream(text, path) for path in ("/mcp", "/sse")]
        staying = [await stream(other, path) for path in ("/mcp", "/sse")]
        await revoke_key(database, revoked.id)
        async with asyncio.timeout(60):
            await asyncio.gather(*ending)
        assert not any(task.done() for task in staying)
        for task in staying:
            task.cancel()
        await asyncio.wait(staying)


async def test_nothing_of_a_key_is_logged_or_shown(
    settings: Settings, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = await key_with(database, "read")
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    shown = []
    async with serving(settings) as server:
        for text in (key, wrong):
            async with http_of(server, text) as http:
                paths = ("/openapi.json", "/metrics", "/health")
                shown += [(await http.get(path)).text for path in paths]
                shown.append((await http.post("/tools/create_task", json={})).text)
        async with mcp_of(server, key) as client:
            result = await client.call_tool("create_task", {"title": "x"}, raise_on_error=False)
            shown.append(json.dumps(result.structured_content))
    whole = "".join(shown) + caplog.text
    assert key.rpartition("_")[2][:20] not in whole


async def test_without_a_database_no_key_is_accepted_and_no_address_shown(
    settings: Settings,
) -> None:
    away = replace(settings, database_url="postgresql://someone@127.0.0.1:9/private")
    key = "cbm_" + "a" * 12 + "_" + "b" * 43
    async with serving(away) as server, http_of(server, key) as http:
        answer = await http.get("/openapi.json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "DATABASE_ERROR")
    assert "private" not in answer.text
