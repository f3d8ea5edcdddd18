"""The product over HTTP: in memory, on a port of this process, and as processes of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.database.projects import ensure_project
from codebase_mcp.index.identity import repository_id_of
from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.server import AppHolder, Lifespan, server_of
from codebase_mcp.web.http import asgi_app_of, make_asgi_app
from codebase_mcp.web.listening import address_of, bind, serve_http
from codebase_mcp.web.shutdown import DRAIN_S, Shutdown

COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """All tools, on any free port."""
    return replace(settings, toolsets=TOOLSETS, port=0, transport="http")


@asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an app that a plain server serves on loopback: its user is known there."""
    sockets = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    served = asyncio.create_task(server.serve(sockets=sockets))
    try:
        while not server.started:
            await asyncio.wait([served], timeout=0.01)
            assert not served.done(), "the app could not be started"
        address = address_of("127.0.0.1", sockets)
        async with httpx2.AsyncClient(base_url=address, timeout=None) as client:
            yield client
    finally:
        server.should_exit = True
        await served


@pytest.fixture
async def http(anyio_backend: str, settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the product on a port of this process."""
    async with running(make_asgi_app(settings)) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Served:
    """A server on a port of this process."""

    address: str
    holder: AppHolder
    shutdown: Shutdown
    task: asyncio.Task[None]


@asynccontextmanager
async def serving(
    settings: Settings, drain_s: float = DRAIN_S, lifespan: Lifespan | None = None
) -> AsyncIterator[Served]:
    """Serve on a port of this process, to real sockets; it ends with the block, if not before."""
    shutdown, holder = Shutdown(drain_s), AppHolder(settings, lifespan)
    sockets = bind(settings.host, settings.port)
    app = asgi_app_of(server_of(holder, settings.toolsets), holder, settings)
    address = address_of(settings.host, sockets)
    task = asyncio.create_task(serve_http(app, holder, sockets, shutdown, settings))
    try:
        yield Served(address, holder, shutdown, task)
    finally:
        shutdown.begin()
        await task


Hold = Callable[[Any, str], AbstractAsyncContextManager[None]]


@pytest.fixture
async def held(anyio_backend: str, database: Database) -> Hold:
    """Keep index runs of a repository waiting for as long as a block runs."""

    @asynccontextmanager
    async def hold(root: Any, project_id: str) -> AsyncIterator[None]:
        project: Project = await ensure_project(database, project_id)
        key = f"index {repository_id_of(project, root)}"
        async with database.session_locks(project, [key]):
            yield

    return hold


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    return {**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)}


@dataclass(frozen=True, slots=True)
class Program:
    """A server as a process, and where it answers."""

    process: subprocess.Popen[str]
    address: str

    @property
    def stderr(self) -> IO[str]:
        assert self.process.stderr is not None
        return self.process.stderr


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., Program]]:
    """Start a server; wait until it has said where it is."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **options: Any) -> Program:
        process = subprocess.Popen(
            [*COMMAND, "serve", *arguments, "--port", "0"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        started.append(process)
        assert process.stderr is not None
        while not (
            found := re.search(r"serves (http://\S+)/mcp", line := process.stderr.readline())
        ):
            assert line, "the server ended before it said where it is"
        return Program(process, found[1])

    yield start
    for process in started:
        stop(process)


class Stdio:
    """A server on stdio, spoken to line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def say(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        heard: dict[str, Any] = json.loads(self.process.stdout.readline())
        return heard

    def greet(self) -> None:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        self.say(id=1, method="initialize", params=hello)
        assert self.hear()["id"] == 1
        self.say(method="notifications/initialized")

    def index(self, root: Path, project_id: str) -> None:
        """Begin an index run, and wait until it is under way."""
        arguments = {"repo_path": str(root), "project_id": project_id}
        call = {"name": "index_repository", "arguments": arguments, "_meta": {"progressToken": 7}}
        self.say(id=2, method="tools/call", params=call)
        assert self.hear()["method"] == "notifications/progress"


@pytest.fixture
def stdio(environment: dict[str, str]) -> Iterator[Callable[..., Stdio]]:
    """Start a server on stdio."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> Stdio:
        pipe = subprocess.PIPE
        command = [*COMMAND, *arguments]
        process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        started.append(process)
        return Stdio(process)

    yield start
    for process in started:
        stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """End a process whatever it does, and let go of its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
