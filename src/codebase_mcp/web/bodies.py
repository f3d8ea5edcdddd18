"""Limits the memory for bodies of requests, and reads bodies that the app leaves unread.

The announced or received size counts until the call has ended, for its caller and for the server.
Beyond the limits a request is refused with 503. The rest of a refused body is read and thrown
away: closing a socket with unread data resets the connection, and the client loses the answer.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from codebase_mcp.errors import Overloaded
from codebase_mcp.web.answers import error_answer
from codebase_mcp.web.rate_limits import caller_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The limit of the MCP endpoint.
MAX_BODY_BYTES = 4 << 20
# A parsed body takes about three times its size, and a call that waits keeps it.
_MAX_CALLER_BYTES = 4 * MAX_BODY_BYTES
_MAX_SERVER_BYTES = 16 * MAX_BODY_BYTES
# Ordinary calls are smaller, and do not suffer from large bodies of other callers.
_FREE_BYTES = 65_536
# A refused client may send this much; then its connection is closed.
_MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
# Libraries leave cycles that hold a body. By the number of objects alone, the collector would look
# for them after hundreds of such requests.
_COLLECTED_AFTER_BYTES = 8 * MAX_BODY_BYTES
_RETRY_AFTER_S = 2


class RequestBodies:
    """Bounds the memory for the bodies of all requests to an app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held: Counter[str] = Counter()
        self._released = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = _announced_size(scope) if scope["type"] == "http" else 0
        if size == 0:
            await self._app(scope, receive, send)
            return
        body = _Body(self, scope, receive, send, size)
        try:
            await body.exchange(self._app)
        finally:
            self._release(body)

    def take(self, caller: str, size: int) -> bool:
        """Count further bytes for a caller, if there is room for them."""
        if self._held[caller] + size > _MAX_CALLER_BYTES:
            return False
        if self._held.total() + size > _MAX_SERVER_BYTES:
            return False
        self._held[caller] += size
        return True

    def _release(self, body: _Body) -> None:
        self._held[body.caller] -= body.counted
        if self._held[body.caller] <= 0:
            del self._held[body.caller]
        self._released += body.counted
        if self._released > _COLLECTED_AFTER_BYTES:
            self._released = 0
            gc.collect(1)


class _Body:
    """The body of a request, and the response to it."""

    def __init__(
        self,
        bodies: RequestBodies,
        scope: Scope,
        receive: Receive,
        send: Send,
        announced: int | None,
    ) -> None:
        self._bodies = bodies
        self._announced = announced or 0
        self._scope = scope
        self._receive = receive
        self._send = send
        self._size = 0
        self._is_complete = False
        self._is_refused = False
        self._is_answered = False
        self.caller = ""
        self.counted = 0

    async def exchange(self, app: ASGIApp) -> None:
        """Let the app answer; answer in its place if the body finds no room."""
        try:
            await app(self._scope, self.receive, self.send)
        except ClientDisconnect:
            if not self._is_refused:
                raise
        if self._is_refused and not self._is_answered:
            self._is_refused = False
            error = Overloaded(
                "The server is overloaded: it holds too many large requests",
                hint=f"Nothing was done; call again in {_RETRY_AFTER_S} seconds or later.",
                retry_after_s=_RETRY_AFTER_S,
            )
            await error_answer(error)(self._scope, self.receive, self.send)

    async def receive(self) -> Message:
        """The next part; a body without room ends for the app as if its client were gone."""
        if not self._is_refused:
            if self._has_room(self._announced):
                message = await self._next()
                if self._has_room(self._size):
                    return message
            self._is_refused = True
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send the response, and before its end read what the client is still sending."""
        if self._is_refused:
            return
        self._is_answered = True
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            if not self._is_complete:
                await self._send({**message, "more_body": True})
                message = {"type": "http.response.body", "body": b""}
            await self._discard()
        await self._send(message)

    async def _next(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return message

    def _has_room(self, size: int) -> bool:
        """Whether the body may have this size; the growth is counted."""
        more = size - self.counted
        if size <= _FREE_BYTES or more <= 0:
            return True
        self.caller = self.caller or caller_of(self._scope)
        if not self._bodies.take(self.caller, more):
            return False
        self.counted = size
        return True

    async def _discard(self) -> None:
        while not self._is_complete and self._size < _MAX_DISCARDED_BYTES:
            await self._next()


def _announced_size(scope: Scope) -> int | None:
    """The size of a request's body, which the protocol has checked; None if it comes in chunks."""
    headers = Headers(scope=scope)
    return None if "transfer-encoding" in headers else int(headers.get("content-length", "0"))
