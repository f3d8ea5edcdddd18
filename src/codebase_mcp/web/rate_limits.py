"""Limits how many requests each caller may make in a minute.

A caller is the owner of a key, or else an address. Each process counts for itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_network
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

from codebase_mcp.access.identity import address_of
from codebase_mcp.errors import Overloaded
from codebase_mcp.tools.callers import identity_of
from codebase_mcp.web.answers import error_answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from codebase_mcp.access.identity import Identity

TOO_MANY = 429
# An agent at work calls a few times in ten seconds; ten of them may share an address.
DEFAULT_PER_MINUTE = 600
_MINUTE_S = 60.0
# Callers that are remembered. A forgotten caller begins anew, with a whole minute's requests.
_MAX_CALLERS = 10_000


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
