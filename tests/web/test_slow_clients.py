"""Clients that are slow, or many, do not keep the others from getting answers.

What each part of an exchange may take is tested in ``test_slow_exchanges.py``.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.waiting import until
from tests.web.conftest import Hold, Program, serving

from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.listening import Limits

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
ALIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Wire:
    """A connection of a client that need not speak HTTP properly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> bytes:
        """What the server sends until it closes."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def status(self) -> int:
        """The status of a response, whose head and short body are read."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        [length] = [line for line in head.split(b"\r\n") if line.startswith(b"content-length")]
        await self.reader.readexactly(int(length.partition(b":")[2]))
        return int(head.split()[1])


@asynccontextmanager
async def wire(address: str, first: bytes = b"") -> AsyncIterator[Wire]:
    """A connection on which this has been sent."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        opened = Wire(reader, writer)
        await opened.send(first)
        yield opened
    finally:
        writer.transport.abort()


@pytest.fixture
def small(settings: Settings) -> Settings:
    """A server with three places, which waits long."""
    return replace(settings, http_connections=3, http_timeout_s=3600)


async def test_a_stalled_client_is_disconnected(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(replace(settings, http_timeout_s=0.2)) as server,
        wire(server.address, b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1") as client,
    ):
        assert await client.until_closed() == b""
    assert [record for record in caplog.records if record.levelname != "INFO"] == []


async def test_at_the_limit_the_longest_waiting_connection_is_closed(small: Settings) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(small))
        rested = await stack.enter_async_context(wire(server.address, ALIVE))
        assert await rested.status() == 200
        halves = [
            await stack.enter_async_context(wire(server.address, ALIVE[:-2])) for _ in range(3)
        ]
        assert await rested.until_closed() == b""
        newest = await stack.enter_async_context(wire(server.address, ALIVE))
        assert await newest.status() == 200
        assert await halves[0].until_closed() == b""
        for half in halves[1:]:
            await half.send(b"\r\n")
            assert await half.status() == 200


async def test_if_calls_use_every_connection_others_get_an_error_and_health_still_replies(
    small: Settings, make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    root = make_repo()
    arguments = {"repo_path": str(root), "project_id": project_id}
    async with (
        serving(small) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=None) as http,
    ):
        async with held(root, project_id):
            calls = [
                asyncio.create_task(http.post("/tools/index_repository", json=arguments))
                for _ in range(3)
            ]
            await until(lambda: len(server.holder.calls) >= 3)
            refused = await http.post("/tools/search_code", json={"query": "x"})
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert refused.headers["retry-after"]
            assert "All 3 connections" in refused.json()["error"]["message"]
            assert (await http.get("/health/live")).status_code == 200
        assert {(await call).status_code for call in calls} <= {200, 409, 500}
        assert (await http.get("/health")).status_code == 200


def test_connections_take_half_of_the_descriptors_at_most(settings: Settings) -> None:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = replace(settings, http_connections=10_000_000)
    assert Limits.of(many).connections == descriptors // 2
    assert Limits.of(replace(settings, http_connections=1)).connections == 1


async def test_with_few_descriptors_six_hundred_silent_clients_block_no_one(
    start: Callable[..., Program],
) -> None:
    def few_descriptors() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    program = start("--transport", "http", preexec_fn=few_descriptors)
    async with AsyncExitStack() as stack:
        for _ in range(600):
            await stack.enter_async_context(wire(program.address, b"GET"))
        newest = await stack.enter_async_context(wire(program.address, ALIVE))
        assert await newest.status() == 200
    program.process.terminate()
    assert len(await asyncio.to_thread(program.stderr.read)) < 10_000
