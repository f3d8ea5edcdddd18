"""Listens for HTTP requests, limits what clients take, and stops gracefully.

uvicorn waits for the rest of a request for ever and accepts any number of connections, until no
file descriptor is left. Here a client has a limited time for each part of a request and for reading
the response. At the limit of connections, a new connection replaces the connection for whose client
the server has waited longest.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from codebase_mcp.errors import InternalError, InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.answers import UNAVAILABLE, error_answer
from codebase_mcp.web.peers import PEER, Peer
from codebase_mcp.web.shutdown import REPLY_S, EndableStreams, Shutdown

# Longer than clients and proxies keep idle connections (httpx 5 s, nginx 60 s): if the server
# closed a connection first, a request might be on its way.
KEEP_ALIVE_S = 75
# Connections accepted at a time, before any is processed: too many at once would use up the file
# descriptors. asyncio also retries this often when none is left, and logs each failure.
_ACCEPTED_AT_ONCE = 16
# Idle connections close at once; this is for a peer that does not read.
_CLOSE_S = 1
_BACKLOG = 2048
# Answered even if the server refuses all calls, as a restart would not help.
ALIVE = "/health/live"

Part = Literal["head", "body", "response"]


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address of the host, all on the same port."""
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            sockets.append(_bound(family, address, port))
            port = sockets[0].getsockname()[1]  # with port 0, all use that of the first
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise _cannot_listen(host, port, error) from error
    return sockets


def address_of(host: str, sockets: Sequence[socket.socket]) -> str:
    """The URL for clients."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{sockets[0].getsockname()[1]}"


async def serve_http(
    app: Starlette,
    holder: AppHolder,
    sockets: Sequence[socket.socket],
    shutdown: Shutdown,
    settings: Settings,
) -> None:
    """Answer requests until the process ends."""
    streams = EndableStreams(app)
    config = uvicorn.Config(
        streams,
        log_config=None,
        access_log=settings.log_level == "DEBUG",
        server_header=False,
        proxy_headers=False,  # else a client could claim any address
        lifespan="on",
        ws="none",
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, limits=Limits.of(settings))),
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=_CLOSE_S,
    )
    server = _Server(config, holder, streams, shutdown.drain_s)
    ended = asyncio.create_task(_stop(server, shutdown))
    try:
        await server.serve(sockets=list(sockets))
    finally:
        ended.cancel()
        shutdown.begin()  # stops everything else in this process


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


class _Server(uvicorn.Server):
    """Lets calls finish before their connections are closed."""

    def __init__(
        self, config: uvicorn.Config, holder: AppHolder, streams: EndableStreams, drain_s: float
    ) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._holder = holder
        self._streams = streams

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals here, as the process may serve more than HTTP."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # uvicorn has set the smaller backlog

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in self.servers:
            listener.close()
        await self._holder.calls.drain(self._drain_s)
        await asyncio.sleep(REPLY_S)
        self._streams.end()
        await super().shutdown(sockets)


async def _stop(server: uvicorn.Server, shutdown: Shutdown) -> None:
    await shutdown.wait()
    server.should_exit = True


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    opened = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    # Accepted connections inherit it. asyncio sets it only for sockets with proto=IPPROTO_TCP,
    # which these are not; without it a reply in two packets is delayed by 40 ms.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _cannot_listen(host: str, port: int, error: OSError) -> InvalidInput:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    hint = "Bind to an address of this machine: --host, or CODEBASE_MCP_HOST."
    if error.errno == errno.EADDRINUSE:
        hint = "Is the server running already? Use another port: --port, or CODEBASE_MCP_PORT."
    elif error.errno == errno.EACCES:
        hint = "Use a port above 1023: --port, or CODEBASE_MCP_PORT."
    return InvalidInput(f"Cannot listen on {host}:{port}: {reason}", hint=hint)


def announce(text: str) -> None:
    """Log a line at any log level, in the configured format."""
    name = "codebase_mcp"
    record = logging.LogRecord(name, logging.INFO, __file__, 0, text, None, None)
    logging.getLogger().handle(record)
