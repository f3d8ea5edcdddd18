"""How long a client may take for each part of an exchange, by a clock that only the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from codebase_mcp.web.listening import KEEP_ALIVE_S, BoundedProtocol, Limits

pytestmark = pytest.mark.anyio

LIMIT_S = 30.0
HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
WHOLE = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Clock:
    """What a protocol sees of an event loop; its time stands still."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, asyncio.Handle]] = []
        self.create_task = asyncio.get_running_loop().create_task

    def time(self) -> float:
        return self._now

    def call_later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> asyncio.Handle:
        handle = asyncio.Handle(call, args, asyncio.get_running_loop())
        self._timers.append((self._now + delay_s, handle))
        return handle

    def advance(self, seconds: float) -> None:
        """Let this time pass."""
        self._now += seconds
        for at, handle in list(self._timers):
            if at <= self._now:
                self._timers.remove((at, handle))
                if not handle.cancelled():
                    handle._run()


class Wire(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Exchange:
    """A client's connection to an app that reads the whole request."""

    def __init__(self) -> None:
        self.clock, self.wire = Clock(), Wire()
        config = uvicorn.Config(_answer, lifespan="off", timeout_keep_alive=KEEP_ALIVE_S)
        config.load()
        self.protocol = BoundedProtocol(
            limits=Limits(10, LIMIT_S),
            config=config,
            server_state=ServerState(),
            app_state={},
            _loop=self.clock,
        )
        self.protocol.connection_made(self.wire)

    async def send(self, *pieces: bytes, each_s: float = 0.0) -> None:
        """Send some pieces, each a while after the one before it."""
        for piece in pieces:
            self.clock.advance(each_s)
            if piece and not self.wire.is_aborted:  # nothing would be the end
                self.protocol.data_received(piece)
            for _ in range(10):  # the app's turns
                await asyncio.sleep(0)

    def answers(self) -> int:
        return self.wire.written.count(b"HTTP/1.1 200 OK")


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await PlainTextResponse("well")(scope, receive, send)


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", 0),
        (WHOLE[:-4], 0),
        (HEAD + b"Content-Length: 9\r\n\r\n", 0),
        (HEAD + b"Content-Length: 9\r\n\r\n{", 0),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 0),
        (WHOLE + b"GET", 1),
    ],
    ids=["nothing", "half a head", "no body", "half a body", "chunks", "half a second head"],
)
async def test_a_stalled_client_is_disconnected(sent: bytes, answers: int) -> None:
    client = Exchange()
    await client.send(sent)
    assert client.answers() == answers
    client.clock.advance(LIMIT_S - 1)
    assert not client.wire.is_aborted
    client.clock.advance(1)
    assert client.wire.is_aborted


async def test_a_client_that_sends_byte_by_byte_gets_no_more_time() -> None:
    client = Exchange()
    await client.send(HEAD, *[b"X: y\r\n"] * 28, each_s=1)
    assert not client.wire.is_aborted
    await client.send(b"X: y\r\n", each_s=1)
    assert client.wire.is_aborted


async def test_head_and_body_have_their_own_time_and_the_app_has_any() -> None:
    client = Exchange()
    await client.send(HEAD + b"Content-Length: 2\r\n\r\n", b"{", each_s=LIMIT_S - 1)
    assert not client.wire.is_aborted
    await client.send(b"}")
    client.clock.advance(LIMIT_S)
    assert (client.wire.is_aborted, client.answers()) == (False, 1)


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    client = Exchange()
    await client.send(WHOLE)
    client.protocol.pause_writing()
    client.clock.advance(LIMIT_S - 1)
    client.protocol.resume_writing()
    client.clock.advance(LIMIT_S - 1)
    assert not client.wire.is_aborted  # it has read in time
    client.protocol.pause_writing()
    client.clock.advance(LIMIT_S)
    assert client.wire.is_aborted


async def test_a_connection_may_be_idle_between_requests() -> None:
    longest_of_clients_s = 60  # nginx; httpx 5
    client = Exchange()
    await client.send(WHOLE)
    client.clock.advance(longest_of_clients_s)
    await client.send(WHOLE)
    assert (client.wire.is_aborted, client.answers()) == (False, 2)
    client.clock.advance(KEEP_ALIVE_S)
    assert client.wire.is_aborted
