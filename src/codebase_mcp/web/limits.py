"""Limits what callers may take of the server: calls, requests a minute, memory for bodies.

- Requests a minute are counted for each caller, by each process for itself. A caller is the owner
  of a key, or else an address.
- While the queue of calls is full, further calls are refused here. The queue itself would refuse
  them after authentication, sessions and checks: under a thousand clients these take more time
  than all searches together. New connections are accepted a few at a time, so closing the
  connections of refused calls leaves time for the remaining calls.
- The announced or received size of a body counts until the call has ended, for its caller and for
  the server. Beyond the limits a request is refused with 503. The rest of a refused body is read
  and thrown away: closing a socket with unread data resets the connection, and the client loses
  the answer.
"""

from __future__ import annotations

import gc
import json
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_network
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request

from codebase_mcp.access.identity import address_of
from codebase_mcp.errors import Overloaded
from codebase_mcp.tools.callers import identity_of
from codebase_mcp.tools.reply import failure
from codebase_mcp.web.answers import UNAVAILABLE, Json, error_answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from codebase_mcp.access.identity import Identity
    from codebase_mcp.tools.running import CallQueue

TOO_MANY = 429
# An agent at work calls a few times in ten seconds; ten of them may share an address.
DEFAULT_PER_MINUTE = 600
_MINUTE_S = 60.0
# Callers that are remembered. A forgotten caller begins anew, with a whole minute's requests.
_MAX_CALLERS = 10_000
# A call with a larger body is refused unread while the queue is full.
_MAX_CALL_BYTES = 65_536

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
_BODIES_RETRY_AFTER_S = 2


@dataclass(frozen=True, slots=True)
class Allowance:
    """The requests that a caller has left; after ``full_in_s`` they are ``limit`` again."""

    limit: int
    remaining: int
    full_in_s: float
    retry_after_s: float = 0.0
    """Above 0 for a request that is refused."""

    def headers(self) -> dict[str, str]:
        """Reset is a time in seconds since 1970, as most services have it."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(math.ceil(time.time() + self.full_in_s)),
        }


class TokenBuckets:
    """A bucket of a minute's requests for each caller, which fills up steadily.

    All that is kept of a bucket is when it will be full.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def take(self, caller: str, per_minute: int) -> Allowance:
        """Take a request out of a caller's bucket, if any is left."""
        now = self._clock()
        each_s = _MINUTE_S / per_minute
        missing_s = max(0.0, self._full_at.pop(caller, now) - now)
        wait_s = missing_s + each_s - _MINUTE_S
        is_allowed = wait_s <= each_s / 1000  # the sum of many fractions is not exact
        if is_allowed:
            missing_s += each_s
        self._full_at[caller] = now + missing_s  # moves it to the end
        self._forget(now)
        remaining = int((_MINUTE_S - missing_s) / each_s + 0.001)
        return Allowance(per_minute, remaining, missing_s, 0.0 if is_allowed else wait_s)

    def _forget(self, now: float) -> None:
        """Forget the callers whose last request is oldest, if theirs are full or too many."""
        while self._full_at:
            oldest = next(iter(self._full_at))
            if len(self._full_at) <= _MAX_CALLERS and self._full_at[oldest] > now:
                return
            del self._full_at[oldest]


class RateLimit:
    """Refuses requests over the limit with 429; headers tell the remaining requests."""

    def __init__(self, per_minute: int | None) -> None:
        self._buckets = TokenBuckets()
        self._per_minute = per_minute

    def around(self, app: ASGIApp) -> ASGIApp:
        """The app for requests whose sender is known, or known not to be admitted."""

        async def limited(scope: Scope, receive: Receive, send: Send) -> None:
            identity = identity_of(scope)
            limit = self._limit_of(identity)
            if not limit:
                await app(scope, receive, send)
                return
            allowance = self._buckets.take(caller_of(scope), limit)

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message).update(allowance.headers())
                await send(message)

            answer = _refuse(allowance) if allowance.retry_after_s else app
            await answer(scope, receive, send_with_headers)

        return limited

    def _limit_of(self, identity: Identity) -> int:
        """Requests in a minute; 0 for any number."""
        own = identity.access.requests_per_minute
        if own is not None:
            return own
        if self._per_minute is not None:
            return self._per_minute
        return 0 if identity.access.reads_as_server else DEFAULT_PER_MINUTE


def caller_of(scope: Scope) -> str:
    """The owner of a key, or else the client's address; of IPv6, the customer's network."""
    owner = identity_of(scope).owner
    if owner is not None:
        return owner
    host = scope["client"][0] if scope.get("client") else ""
    address = address_of(host) or host
    if isinstance(address, IPv6Address):
        address = ip_network((int(address), 64), strict=False)
    return f"address {address}"


def _refuse(allowance: Allowance) -> ASGIApp:
    seconds = math.ceil(allowance.retry_after_s)
    error = Overloaded(
        f"Too many requests: {allowance.limit} a minute are allowed",
        hint=f"Nothing was done; call again in {seconds} seconds.",
        retry_after_s=seconds,
    )
    return error_answer(error, TOO_MANY)


class LoadShedding:
    """Answers for an app whose queue of calls is full; requests other than calls pass."""

    def __init__(self, app: ASGIApp, queue: CallQueue) -> None:
        self._app = app
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] == "POST" and self._queue.is_full:
            app = await self._refusal(Request(scope, receive))
        await app(scope, receive, send)

    async def _refusal(self, request: Request) -> Json:
        """503; for a tool called over MCP an error result, which a model gets to see."""
        error = self._queue.overloaded()
        call_id = await _call_id(request) if request.url.path.endswith("/mcp") else None
        answer = error_answer(error, UNAVAILABLE)
        if call_id is not None:
            result = {"resultType": "complete", **failure(error, "json").as_message()}
            answer = Json({"jsonrpc": "2.0", "id": call_id, "result": result})
        answer.headers["Connection"] = "close"
        return answer


async def _call_id(request: Request) -> Any:
    """The id of a request that calls a tool over MCP; None for other requests."""
    try:
        message = json.loads(await read_body(request, _MAX_CALL_BYTES) or b"")
        return message["id"] if message["method"] == "tools/call" else None
    except (ClientDisconnect, ValueError, RecursionError, TypeError, KeyError):
        return None


async def read_body(request: Request, most: int) -> bytes | None:
    """The body of a request; None if it has more bytes than this."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            return None
    return bytes(body)


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
                hint=f"Nothing was done; call again in {_BODIES_RETRY_AFTER_S} seconds or later.",
                retry_after_s=_BODIES_RETRY_AFTER_S,
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
