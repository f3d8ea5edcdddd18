"""Limits the number of connections and the time that a client may take.

uvicorn waits for the rest of a request for ever and accepts any number of connections, until no
file descriptor is left. Here a client has a limited time for each part of a request and for reading
the response. At the limit of connections, a new connection replaces the connection for whose client
the server has waited longest.
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from codebase_mcp.errors import InternalError
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.answers import UNAVAILABLE, error_answer
from codebase_mcp.web.peers import PEER, Peer

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

# Answered even if the server refuses all calls, as a restart would not help.
ALIVE = "/health/live"

Part = Literal["head", "body", "response"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum number of connections, and the time limit for each part of an exchange."""

    connections: int
    timeout_s: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The configured limits, with at most half of the file descriptors of the process."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = settings.http_connections
        if descriptors != resource.RLIM_INFINITY:
            most = min(most, descriptors // 2)
        return cls(most, settings.http_timeout_s)


class BoundedProtocol(H11Protocol):
    """A connection with a limit on their number and on the time that its client takes."""

    def __init__(self, *, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._part: Part | None = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._whole_app = self.app

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None and self.server is not None:
            # A copy for this connection, as all connections share the state of the app.
            self.app_state = {**self.app_state, PEER: Peer(self.client, self.server)}
        self._watch()
        if len(self.connections) > self._limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._set_timer(None)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Start the timer when the client has to do something new; more data does not extend it."""
        part = self._missing()
        if part != self._part:
            self._part, self._since = part, self.loop.time()
            self._set_timer(part)

    def _missing(self) -> Part | None:
        """The part that the client still has to send or read."""
        if self.flow.write_paused:
            return "response"
        if self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]:
            return None  # idle between two requests, which uvicorn limits
        if self.conn.their_state is h11.IDLE:
            return "head"
        return "body" if self.conn.their_state is h11.SEND_BODY else None

    def _set_timer(self, part: Part | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if part is not None:
            self._timer = self.loop.call_later(self._limits.timeout_s, self.transport.abort)

    def _make_room(self) -> None:
        """Close the connection that has waited longest for its client, if any."""
        open_connections = [
            connection
            for connection in self.connections
            if isinstance(connection, BoundedProtocol)
            and connection is not self
            and not connection.transport.is_closing()
        ]
        if len(open_connections) < self._limits.connections:
            return
        waiting = [connection for connection in open_connections if connection._is_waiting]
        if waiting:
            min(waiting, key=lambda connection: connection._since).transport.abort()
        else:
            self.app = self._answer_few

    @property
    def _is_waiting(self) -> bool:
        """Whether the server waits for the client."""
        return self._part in ("head", "body") or self.timeout_keep_alive_task is not None

    async def _answer_few(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse requests, except for liveness, while all connections are used by calls."""
        if scope["path"] == ALIVE or len(self.connections) <= self._limits.connections:
            await self._whole_app(scope, receive, send)
            return
        error = InternalError(
            f"All {self._limits.connections} connections of the server are in use",
            hint="Try again, or raise CODEBASE_MCP_HTTP_CONNECTIONS.",
        )
        answer = error_answer(error, UNAVAILABLE)
        answer.headers["Connection"] = "close"
        await answer(scope, receive, send)
