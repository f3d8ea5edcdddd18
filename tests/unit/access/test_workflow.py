"""What workflow-mcp answers, from a real HTTP server that may be slow, down, or talk nonsense."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from codebase_mcp.access.workflow import (
    MAX_BYTES,
    PATH,
    ActiveProjectReply,
    WorkflowClient,
    project_of,
)

pytestmark = pytest.mark.anyio


@dataclass
class Workflow:
    """An HTTP server in this process; it answers ``reply``, once ``released``."""

    reply: bytes = b""
    requests: list[str] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def says(self, body: object, status: str = "200 OK", headers: str = "") -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
        self.reply = head.encode() + content

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request.split(b"\r\n")[0].decode())
        self.arrived.set()
        await self.released.wait()
        writer.write(self.reply)
        writer.close()


@pytest.fixture
async def workflow(anyio_backend: str) -> AsyncIterator[Workflow]:
    workflow = Workflow()
    workflow.released.set()
    server = await asyncio.start_server(workflow.serve, "127.0.0.1", 0)
    workflow.port = server.sockets[0].getsockname()[1]
    yield workflow
    workflow.released.set()
    server.close()
    await server.wait_closed()


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


async def test_its_active_project_is_asked_for_at_the_documented_address(
    workflow: Workflow,
) -> None:
    workflow.says({"project_id": "client-a", "name": "Client A"})
    client = WorkflowClient(workflow.url)
    assert await client.active_project() == ActiveProjectReply("client-a")
    assert workflow.requests == [f"GET {PATH} HTTP/1.1"]


async def test_that_none_is_active_is_no_failure(
    workflow: Workflow, caplog: pytest.LogCaptureFixture
) -> None:
    workflow.says({"project_id": None})
    assert await WorkflowClient(workflow.url).active_project() == ActiveProjectReply()
    assert not warnings(caplog)


async def test_an_answer_counts_for_a_minute(workflow: Workflow) -> None:
    clock = Clock()
    client = WorkflowClient(workflow.url, clock=clock)
    workflow.says({"project_id": "first"})
    assert (await client.active_project()).project_id == "first"
    workflow.says({"project_id": "second"})
    clock.now = 59.9
    assert (await client.active_project()).project_id == "first"
    clock.now = 60.0
    assert (await client.active_project()).project_id == "second"
    assert len(workflow.requests) == 2


async def test_all_who_ask_at_once_share_one_request(workflow: Workflow) -> None:
    workflow.says({"project_id": "client-a"})
    workflow.released.clear()
    client = WorkflowClient(workflow.url, time_limit_s=60)
    callers = [asyncio.create_task(client.active_project()) for _ in range(10)]
    await workflow.arrived.wait()
    callers[0].cancel()  # whoever asked first may go; the others still get their answer
    workflow.released.set()
    answers = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [ActiveProjectReply("client-a")] * 9
    assert len(workflow.requests) == 1


async def test_one_that_never_answers_is_given_up_and_not_asked_again_at_once(
    workflow: Workflow, caplog: pytest.LogCaptureFixture
) -> None:
    workflow.released.clear()
    client = WorkflowClient(workflow.url, time_limit_s=0.5, clock=Clock())
    for _ in range(3):
        answer = await client.active_project()
        assert answer.project_id is None
        assert answer.problem == "no answer within 0.5 s"
    assert len(workflow.requests) == 1
    assert len(warnings(caplog)) == 1
    assert "use the default workspace" in warnings(caplog)[0]


async def test_one_that_is_down_is_found_again_when_it_is_back(
    workflow: Workflow, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    client = WorkflowClient(workflow.url, clock=clock)
    for minute, (status, expected) in enumerate(
        [("200 OK", "client-a"), ("503 Away", None), ("200 OK", "client-a"), ("500 No", None)]
    ):
        clock.now = minute * 60
        workflow.says({"project_id": "client-a"}, status)
        assert (await client.active_project()).project_id == expected
    assert len(warnings(caplog)) == 2


async def test_where_nobody_listens_the_default_workspace_is_meant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    answer = await WorkflowClient(f"http://127.0.0.1:{port}").active_project()
    assert answer.project_id is None
    assert answer.problem
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    ("body", "status", "headers", "problem"),
    [
        ({"project_id": "a"}, "404 Not Found", "", "status 404"),
        ({"project_id": "a"}, "500 Oh", "", "status 500"),
        ({"project_id": "a"}, "302 Found", "Location: /elsewhere\r\n", "status 302"),
        ({"project_id": "a"}, "201 Created", "", "status 201"),
        (b"<html>", "200 OK", "", "the body is not JSON"),
        (b"", "200 OK", "", "the body is not JSON"),
        (b"\xff\xfe", "200 OK", "", "the body is not JSON"),
        (b"[" * 60_000, "200 OK", "", "the body is not JSON"),
        (b"\x1f\x8b", "200 OK", "Content-Encoding: gzip\r\n", "the body is not JSON"),
        (["a"], "200 OK", "", "the body is not an object with project_id"),
        ({"project": "a"}, "200 OK", "", "the body is not an object with project_id"),
        ({"project_id": 5}, "200 OK", "", "its project_id is not a string"),
        ({"project_id": ["a"]}, "200 OK", "", "its project_id is not a string"),
        ({"project_id": "My App"}, "200 OK", "", "its project_id is invalid"),
        ({"project_id": "a", "x": "y" * MAX_BYTES}, "200 OK", "", "longer than 64 KiB"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_any_other_answer_means_the_default_workspace_and_a_warning(
    workflow: Workflow,
    caplog: pytest.LogCaptureFixture,
    body: object,
    status: str,
    headers: str,
    problem: str,
) -> None:
    workflow.says(body, status, headers)
    answer = await WorkflowClient(workflow.url).active_project()
    assert answer.project_id is None
    assert problem in str(answer.problem)
    assert len(workflow.requests) == 1  # a redirection is not followed
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("reply", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"x" * 9])
async def test_what_is_no_http_means_the_default_workspace(
    workflow: Workflow, reply: bytes
) -> None:
    workflow.reply = reply
    answer = await WorkflowClient(workflow.url).active_project()
    assert answer.project_id is None
    assert answer.problem


@pytest.mark.parametrize("url", ["http://", "http://[", "http://a:b", "http://\0", "http://.."])
async def test_an_address_that_is_none_means_the_default_workspace(url: str) -> None:
    answer = await WorkflowClient(url).active_project()
    assert answer.project_id is None
    assert answer.problem


async def test_a_request_under_way_ends_with_the_program(workflow: Workflow) -> None:
    workflow.released.clear()
    client = WorkflowClient(workflow.url, time_limit_s=60)
    caller = asyncio.create_task(client.active_project())
    await workflow.arrived.wait()
    await client.close()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_the_default_workspace_can_be_the_active_one() -> None:
    assert project_of(b'{"project_id": "default"}') == "default"
