"""A server that is told to end lets its calls finish, takes no new ones, and ends in time."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from mcp import MCPError
from tests.web.conftest import COMMAND, Hold, Program, Stdio, serving
from tests.web.test_unreadable_lines import ENVELOPE, LEGACY, MODERN

from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Start = Callable[..., Program]

CLIENT = {"name": "t", "version": "1"}


@pytest.fixture
def environment(environment: dict[str, str]) -> dict[str, str]:
    """Without warnings: that a search was slow, on a busy machine, says nothing of an end."""
    return {**environment, "CODEBASE_MCP_LOG_LEVEL": "ERROR"}


class Watched:
    """A client, and whether progress of its call was told."""

    def __init__(self, address: str, mode: Any) -> None:
        self.progress = asyncio.Event()
        self.listed = asyncio.Event()
        if mode == "sse":
            older = SSETransport(f"{address}/sse")
            self.client: Client[Any] = Client(older, mode="legacy", progress_handler=self._note)
        else:
            newer = StreamableHttpTransport(f"{address}/mcp")
            self.client = Client(newer, mode=mode, progress_handler=self._note)

    async def _note(self, done: float, total: float | None, message: str | None) -> None:
        self.progress.set()
        if total is not None and total > 1:
            self.listed.set()

    def index(self, root: Path, project_id: str) -> asyncio.Task[Any]:
        """An index run under way."""
        arguments = {"repo_path": str(root), "project_id": project_id}
        return asyncio.create_task(
            self.client.call_tool("index_repository", arguments, raise_on_error=False)
        )


async def until_closed(program: Program) -> None:
    """Wait until no new connections are taken."""
    address = urlsplit(program.address)
    while True:
        try:
            socket.create_connection((address.hostname, address.port or 0)).close()
        except ConnectionRefusedError:
            return
        await asyncio.sleep(0.01)


async def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status, and what was written to standard error until then."""
    assert process.stderr is not None
    text = await asyncio.to_thread(process.stderr.read)
    return await asyncio.to_thread(process.wait, 60), text


@pytest.mark.parametrize("mode", ["auto", "legacy", "sse"])
async def test_a_call_under_way_finishes_and_its_reply_arrives(
    start: Start, make_repo: MakeRepo, project_id: str, held: Hold, mode: Any
) -> None:
    root, program = make_repo(), start("--transport", "http", "--sse")
    watched = Watched(program.address, mode)
    await watched.client.__aenter__()
    await watched.client.list_tools()  # else it asks for the reply's schema after the call
    async with held(root, project_id):
        call = watched.index(root, project_id)
        await watched.progress.wait()
        program.process.send_signal(signal.SIGTERM)
        await until_closed(program)
        assert not call.done()
    result = await call
    assert result.structured_content["status"] == "success"
    assert await ended(program.process) == (0, "")
    await watched.client.close()


async def test_a_call_that_takes_too_long_at_shutdown_is_cancelled_with_an_error(
    settings: Settings, make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    root = make_repo()
    async with held(root, project_id), serving(settings, drain_s=0.1) as server:
        watched = Watched(server.address, "auto")
        async with watched.client:
            call = watched.index(root, project_id)
            await watched.progress.wait()
            server.shutdown.begin()
            result = await call
        await server.task
        assert not len(server.holder.calls)
    assert result.is_error
    assert result.structured_content["error"]["type"] == "Unavailable"


async def test_an_index_run_in_worker_processes_leaves_the_database_in_order(
    start: Start, tmp_path: Path, project_id: str, app: App
) -> None:
    root = tmp_path / "library"
    source = Path(sysconfig.get_paths()["stdlib"])
    for package in ("asyncio", "email", "encodings", "multiprocessing"):
        shutil.copytree(source / package, root / package)
    program = start("--transport", "http")
    watched = Watched(program.address, "auto")
    async with watched.client:
        await watched.client.list_tools()
        call = watched.index(root, project_id)
        at_work = asyncio.create_task(watched.listed.wait())
        await asyncio.wait((at_work, call), return_when=asyncio.FIRST_COMPLETED)
        at_work.cancel()
        program.process.send_signal(signal.SIGTERM)
        result = await call
    assert await ended(program.process) == (0, "")
    again = await app.index(root, project_id)
    assert again.run.status == result.structured_content.get("status", "success")
    found = await app.search("event loop", project_id)
    assert found.answer.hits


async def test_a_second_interrupt_ends_the_process_at_once(
    start: Start, make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    root, program = make_repo(), start("--transport", "http")
    watched = Watched(program.address, "auto")
    async with held(root, project_id), watched.client:
        call = watched.index(root, project_id)
        await watched.progress.wait()
        program.process.send_signal(signal.SIGINT)
        await until_closed(program)
        program.process.send_signal(signal.SIGINT)
        assert await ended(program.process) == (130, "Exited at once.\n")
        with pytest.raises((MCPError, RuntimeError)):
            await call


async def test_idle_event_streams_do_not_delay_the_shutdown(start: Start) -> None:
    program = start("--transport", "http", "--sse")
    older: Client[Any] = Client(SSETransport(f"{program.address}/sse"), mode="legacy")
    newer: Client[Any] = Client(StreamableHttpTransport(f"{program.address}/mcp"), mode="legacy")
    await older.__aenter__()
    await newer.__aenter__()
    assert await older.list_tools()
    assert await newer.list_tools()
    program.process.send_signal(signal.SIGTERM)
    assert await ended(program.process) == (0, "")
    await newer.close()
    await older.close()


async def test_on_stdio_a_call_under_way_finishes_after_the_input_has_closed(
    stdio: Callable[..., Stdio], make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    server, root = stdio(), make_repo()
    server.greet()
    assert server.process.stdin is not None
    async with held(root, project_id):
        server.index(root, project_id)
        server.process.stdin.close()
    heard = server.hear()
    while "id" not in heard:
        heard = server.hear()
    assert heard["result"]["structuredContent"]["status"] == "success"
    assert await ended(server.process) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_on_stdio_a_signal_ends_the_server_though_its_input_is_open(
    stdio: Callable[..., Stdio], number: signal.Signals
) -> None:
    server = stdio()
    server.greet()
    server.process.send_signal(number)
    assert await ended(server.process) == (0, "")


async def test_a_client_that_dies_in_a_call_leaves_no_traceback(
    stdio: Callable[..., Stdio], make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    server, root = stdio(), make_repo()
    server.greet()
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    async with held(root, project_id):
        server.index(root, project_id)
        server.process.stdout.close()
        server.process.stdin.close()
    assert await ended(server.process) == (0, "")


async def test_one_process_serves_stdio_and_http_until_its_input_closes(
    start: Start, project_id: str
) -> None:
    program = start("--transport", "all", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = Stdio(program.process)
    server.greet()
    async with Client(StreamableHttpTransport(f"{program.address}/mcp")) as client:
        assert len(await client.list_tools()) == 2
    server.say(id=2, method="tools/list")
    assert len(server.hear()["result"]["tools"]) == 2
    assert program.process.stdin is not None
    program.process.stdin.close()
    assert await ended(program.process) == (0, "")


def questions(revision: str, project_id: str, count: int) -> list[dict[str, Any]]:
    """The messages of a client that asks this often, and says nothing else."""
    call: dict[str, Any] = {
        "name": "search_code",
        "arguments": {"query": "who logs in", "project_id": project_id},
    }
    hello: list[dict[str, Any]] = []
    if revision == MODERN:
        call["_meta"] = ENVELOPE
    else:
        greeting = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
        hello = [
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
        ]
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}
        for number in range(1, count + 1)
    ]
    return [*hello, *calls]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_on_stdio_all_calls_of_an_input_that_has_ended_are_answered(
    app: App, environment: dict[str, str], make_repo: MakeRepo, project_id: str, revision: str
) -> None:
    await app.index(make_repo(), project_id)
    messages = questions(revision, project_id, 100)
    done = await asyncio.to_thread(
        subprocess.run,
        COMMAND,
        env=environment,
        input="".join(json.dumps(message) + "\n" for message in messages),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    replies = {reply["id"]: reply["result"] for reply in map(json.loads, done.stdout.splitlines())}
    asked = [message["id"] for message in messages if "id" in message]
    assert sorted(replies) == asked
    found = [replies[number]["structuredContent"] for number in asked if number]
    assert [len(reply.get("results", [])) > 0 for reply in found] == [True] * 100


async def test_on_stdio_a_signal_ends_the_server_before_all_calls_of_its_input_are_answered(
    stdio: Callable[..., Stdio], make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    server, root = stdio(), make_repo()
    server.greet()
    assert server.process.stdin is not None
    async with held(root, project_id):
        server.index(root, project_id)
        server.process.stdin.close()
        server.process.send_signal(signal.SIGTERM)
        assert (await ended(server.process))[0] == 0
    heard = server.hear()
    while "id" not in heard:
        heard = server.hear()
    assert heard["result"]["structuredContent"]["error"]["type"] == "Unavailable"


async def test_on_stdio_a_cancelled_call_does_not_keep_the_server_running(
    stdio: Callable[..., Stdio], make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    server, root = stdio(), make_repo()
    server.greet()
    assert server.process.stdin is not None
    async with held(root, project_id):
        server.index(root, project_id)
        server.say(method="notifications/cancelled", params={"requestId": 2})
        server.process.stdin.close()
        assert await ended(server.process) == (0, "")


async def test_on_stdio_a_server_whose_client_has_died_ends_though_a_call_is_under_way(
    stdio: Callable[..., Stdio], make_repo: MakeRepo, project_id: str, held: Hold
) -> None:
    server, root = stdio(), make_repo()
    server.greet()
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    async with held(root, project_id):
        server.index(root, project_id)
        server.process.stdin.close()
        server.process.stdout.close()
        assert (await ended(server.process))[0] == 0
