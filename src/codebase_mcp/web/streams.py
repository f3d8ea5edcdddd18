"""Ends open streams at shutdown, as if their clients had disconnected."""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class EndableStreams:
    """Lets a server end streaming responses that never end by themselves.

    If the server just closed them, each would be an error in the log and an incomplete response.
    All of them handle a client that disconnects.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[_Exchange] = set()

    def end(self) -> None:
        """End all that are open."""
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
            self._is_stream = "content-length" not in Headers(raw=message.get("headers", []))
        if message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def complete(self) -> None:
        """Complete the response for the real client."""
        if self._is_ended and self._is_stream and not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
