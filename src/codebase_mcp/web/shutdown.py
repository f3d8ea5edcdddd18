"""Graceful shutdown of a process, and the end of its open streams.

After a request to shut down, new calls are refused and running calls may finish. A service manager
or an MCP client kills the process after about ten seconds; it exits before that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# How long running calls may take to finish …
DRAIN_S = 8.0
# … and how long the whole shutdown may take before the process exits by force.
LIMIT_S = 9.8
# A reply passes some queues before it is sent.
REPLY_S = 0.1

EXIT_FORCED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Shutdown:
    """The state of the shutdown, which a signal or the end of the input begins.

    ``drain_s`` is how long running calls may take to finish.
    """

    def __init__(self, drain_s: float = DRAIN_S) -> None:
        self.drain_s = drain_s
        self._loop = asyncio.get_running_loop()
        self._begun = asyncio.Event()
        self._is_of_process = False

    @property
    def has_begun(self) -> bool:
        return self._begun.is_set()

    async def wait(self) -> None:
        await self._begun.wait()

    async def run(
        self, work: Coroutine[Any, Any, None], stop: Callable[[], None] | None = None
    ) -> None:
        """Work until that ends, or until the shutdown begins: then ``stop`` is called, and it is
        cancelled."""
        task, stopping = asyncio.create_task(work), asyncio.create_task(self.wait())
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not task.done():
            if stop is not None:
                stop()
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def begin(self) -> None:
        """Begin the shutdown; it cannot be undone."""
        if self.has_begun:
            return
        self._begun.set()
        if self._is_of_process:
            last_resort = threading.Timer(LIMIT_S, _exit_now, [b"Shutdown timed out.\n", 1])
            last_resort.daemon = True
            last_resort.start()

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Begin at SIGTERM or SIGINT; exit at a second SIGINT or at the time limit."""
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        self._is_of_process = True
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.has_begun and number == signal.SIGINT:
            # No clean-up is needed: workers and the embedded database notice that their parent is
            # gone, and open transactions are rolled back.
            _exit_now(b"Exited at once.\n", EXIT_FORCED)
        self._loop.call_soon_threadsafe(self.begin)


def _exit_now(why: bytes, status: int) -> None:
    os.write(2, why)
    os._exit(status)


class EndableStreams:
    """Lets a server end streaming responses that never end by themselves.

    If the server just closed them, each would be an error in the log and an incomplete response.
    All of them handle a client that disconnects.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[_Exchange] = set()

    def end(self) -> None:
        for exchange in list(self._open):
            exchange.hang_up()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send)
        self._open.add(exchange)
        try:
            await self._app(scope, exchange.receive, exchange.send)
            await exchange.complete()
        finally:
            self._open.discard(exchange)


class _Exchange:
    """A request and its response."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._waiting: anyio.CancelScope | None = None
        self._is_stream = False
        self._is_complete = False
        self._is_ended = False

    def hang_up(self) -> None:
        self._is_ended = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def receive(self) -> Message:
        if not self._is_ended:
            with anyio.CancelScope() as self._waiting:
                return await self._receive()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._is_ended and self._is_stream:
            return  # the app may still send, but the exchange has ended
        if message["type"] == "http.response.start":
            # A response of known length is sent in full.
            names = (name for name, _ in message.get("headers", ()))
            self._is_stream = b"content-length" not in names
        if message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def complete(self) -> None:
        """Complete the response for the real client."""
        if self._is_ended and self._is_stream and not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
