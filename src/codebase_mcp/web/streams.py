"""How do open streams end when the server does? As if their clients had hung up."""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class EndableStreams:
    """Lets a server end the responses that wait for news and never end by themselves.

    Cut off by the server, each of them would be an error in the log and a broken response to its
    client; a client that hangs up is what they are all made for.
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
        self._is_started = False
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
        if self._is_ended and self._is_started:
            return  # nobody listens any more: an app may say what it likes then
        self._is_started = True
        if message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def complete(self) -> None:
        """To its real client a stream that was ended is one that came to its end."""
        if self._is_ended and self._is_started and not self._is_complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
