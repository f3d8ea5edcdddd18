"""Bodies of requests: what they may take in memory, and what their senders hear."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack

import httpx2
import pytest
from tests.web.conftest import serving
from tests.web.test_slow_clients import wire

from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.calling import MAX_FIELDS_BYTES
from codebase_mcp.web.limits import MAX_BODY_BYTES

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
LARGE = b" " * (MAX_BODY_BYTES - 2) + b"{}"


def head(path: str, size: int, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {size}", *more]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode()


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
async def test_refused_calls_do_not_keep_their_bodies(http: httpx2.AsyncClient) -> None:
    size = MAX_BODY_BYTES // 4
    body = json.dumps({"filter": {"a": "x" * size}, "limit": 0, "query": "x" * size})

    async def refuse() -> None:
        answer = await http.post("/tools/query_entities", content=body, headers=JSON)
        assert answer.status_code == 400

    await refuse()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(8):
            await refuse()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < size


async def test_a_tool_without_documents_refuses_a_large_body_by_its_size(
    http: httpx2.AsyncClient,
) -> None:
    body = json.dumps({"query": "x" * MAX_FIELDS_BYTES})
    for tool, status in (("search_code", 413), ("query_entities", 400)):
        answer = await http.post(f"/tools/{tool}", content=body, headers=JSON)
        assert answer.status_code == status


@pytest.mark.parametrize("path", ["/tools/query_entities", "/mcp"])
async def test_a_caller_has_four_large_bodies_under_way_and_small_ones_beside(
    settings: Settings, path: str
) -> None:
    async with serving(settings) as server, AsyncExitStack() as stack:
        stalled = []
        for _ in range(4):
            client = await stack.enter_async_context(wire(server.address))
            await client.send(head(path, len(LARGE)) + LARGE[:100_000])
            stalled.append(client)
        async with httpx2.AsyncClient(base_url=server.address, timeout=None) as http:
            while (fifth := await http.post(path, content=LARGE, headers=JSON)).status_code != 503:
                pass  # the four have yet to be seen
            assert fifth.headers["retry-after"] == "2"
            assert "too many large requests" in fifth.json()["error"]["message"]
            small = await http.post("/tools/query_entities", content="{}", headers=JSON)
            assert small.status_code == 400
            for client in stalled:
                await client.send(LARGE[100_000:])
                assert 400 <= await client.status() < 500
            last = await http.post(path, content=LARGE, headers=JSON)
            assert 400 <= last.status_code < 500


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
async def test_a_wrong_key_is_refused_in_words_however_large_its_body(
    settings: Settings, connection: str
) -> None:
    lines = ("Authorization: Bearer wrong", f"Connection: {connection}")
    async with serving(settings) as server:
        for _ in range(3):
            async with wire(server.address) as client:
                await client.send(head("/tools/search_code", len(LARGE), *lines))
                for start in range(0, len(LARGE), 1 << 16):
                    await client.send(LARGE[start : start + (1 << 16)])
                assert await client.status() == 401
