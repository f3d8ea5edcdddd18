"""Several processes at one address: replaced when they die, gone when the server ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from tests.waiting import until
from tests.web.conftest import COMMAND, Program

from codebase_mcp.errors import InternalError
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.shutdown import Shutdown
from codebase_mcp.web.workers import serve_with_workers

pytestmark = pytest.mark.anyio

Start = Callable[..., Program]
WORKERS = 2


def workers_of(program: Program) -> set[int]:
    """The processes of a server that answer."""
    pid = program.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return {child for child, command in commands.items() if b"spawn_main" in command}


async def answers(program: Program) -> dict[str, Any]:
    """What a server says of its health once it answers; each time over a connection of its own."""
    async with httpx2.AsyncClient(base_url=program.address, timeout=60) as http:
        health: dict[str, Any] = (await http.get("/health")).json()
    return health


async def test_workers_share_an_address_and_the_dead_are_replaced(
    start: Start, project_id: str
) -> None:
    program = start("--transport", "http", "--http-workers", str(WORKERS), "--toolsets", "all")
    assert (await answers(program))["status"] == "healthy"
    before = workers_of(program)
    assert len(before) == WORKERS
    for mode in ("auto", "legacy"):
        mode_: Any = mode
        transport = StreamableHttpTransport(f"{program.address}/mcp")
        async with Client(transport, mode=mode_) as client:
            arguments = {"title": f"Over {mode}", "project_id": "default"}
            done = await client.call_tool("create_task", arguments)
            assert done.structured_content is not None
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    await until(lambda: victim not in (pids := workers_of(program)) and len(pids) >= WORKERS)
    for _ in range(10):
        assert (await answers(program))["status"] == "healthy"
    page = httpx2.get(f"{program.address}/metrics").text
    assert "codebase_mcp_" in page
    after = workers_of(program)
    program.process.send_signal(signal.SIGTERM)
    said = await asyncio.to_thread(program.stderr.read)
    assert await asyncio.to_thread(program.process.wait, 60) == 0
    assert said.splitlines()[1:] == []
    assert f"worker {victim} exited with -9; starting another" in said
    assert not [pid for pid in after if Path(f"/proc/{pid}").exists()]


def test_sse_is_refused_for_several_processes(environment: dict[str, str]) -> None:
    arguments = ["serve", "--transport", "http", "--http-workers", "2", "--port", "0", "--sse"]
    said = subprocess.run(
        [*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert said.returncode == 1
    assert said.stderr.startswith("Error: --sse needs a single process")


async def test_workers_that_cannot_serve_end_the_server(settings: Settings) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as deaf, pytest.raises(InternalError) as caught:
        await serve_with_workers(replace(settings, http_workers=1), [deaf], Shutdown())
    assert caught.value.message == "The HTTP workers exit right after their start"


async def test_workers_end_with_a_parent_that_was_killed(start: Start) -> None:
    program = start("--transport", "http", "--http-workers", str(WORKERS))
    await answers(program)
    workers = workers_of(program)
    program.process.kill()
    program.process.wait()
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
