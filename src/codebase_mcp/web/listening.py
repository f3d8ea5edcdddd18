"""Listens for HTTP requests, and stops gracefully."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvicorn
from starlette.applications import Starlette

from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.connections import BoundedProtocol, Limits
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


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address of the host, all on the same port.

    Raises:
        InvalidInput: the port is in use, or the address does not belong to this machine.
    """
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
