"""How are HTTP requests taken in, and no longer when the server ends?"""

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
from codebase_mcp.settings import Settings
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.connections import BoundedProtocol, Limits
from codebase_mcp.web.ending import REPLY_S, Ending
from codebase_mcp.web.streams import EndableStreams

# Longer than clients and proxies keep a connection that nobody uses (httpx 5 s, nginx 60 s): who
# closes first must not be the server, for a request may be on its way.
KEEP_ALIVE_S = 75
# Connections taken in at a time, before any is looked at: too many at once would use up the
# descriptors. asyncio tries as often when none is left, and logs each failure.
_ACCEPTED_AT_ONCE = 16
# Once nothing is under way, connections close at once; this is for a peer that does not read.
_CLOSE_S = 1
_BACKLOG = 2048


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address that the host has; all on one port.

    Raises:
        InvalidInput: the port is in use, or the address is none of this machine's.
    """
    sockets: list[socket.socket] = []
    try:
        for family, address in _addresses(host, port):
            sockets.append(_bound(family, address, port))
            port = sockets[0].getsockname()[1]  # where any was asked for, all take the same
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise _cannot_listen(host, port, error) from error
    return sockets


def address_of(host: str, sockets: Sequence[socket.socket]) -> str:
    """The URL that clients are told."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{sockets[0].getsockname()[1]}"


async def serve_http(
    app: Starlette,
    holder: AppHolder,
    sockets: Sequence[socket.socket],
    ending: Ending,
    settings: Settings,
) -> None:
    """Answer requests until the process ends."""
    streams = EndableStreams(app)
    config = uvicorn.Config(
        streams,
        log_config=None,
        access_log=settings.log_level == "DEBUG",
        server_header=False,
        lifespan="on",
        ws="none",
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, limits=Limits.of(settings))),
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=_CLOSE_S,
    )
    server = _Server(config, holder, streams, ending.drain_s)
    ended = asyncio.create_task(_stop(server, ending))
    try:
        await server.serve(sockets=list(sockets))
    finally:
        ended.cancel()
        ending.begin()  # whatever else this process serves has no reason to go on


class _Server(uvicorn.Server):
    """Lets calls finish before it closes the connections on which their replies go out."""

    def __init__(
        self, config: uvicorn.Config, holder: AppHolder, streams: EndableStreams, drain_s: float
    ) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._holder = holder
        self._streams = streams

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's, which may serve more than HTTP."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)  # as before: only the system keeps more than it hands over

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in self.servers:
            listener.close()
        await self._holder.calls.drain(self._drain_s)
        await asyncio.sleep(REPLY_S)
        self._streams.end()
        await super().shutdown(sockets)


async def _stop(server: uvicorn.Server, ending: Ending) -> None:
    await ending.wait()
    server.should_exit = True


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    opened = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    # Accepted connections inherit it. asyncio sees to it only for sockets that say they are TCP,
    # which these do not; without it a reply in two pieces waits 40 ms for the client's receipt.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _cannot_listen(host: str, port: int, error: OSError) -> InvalidInput:
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
    hint = "Bind to an address of this machine: --host, or CODEBASE_MCP_HOST."
    if error.errno == errno.EADDRINUSE:
        hint = "Is the server running already? Take another port: --port, or CODEBASE_MCP_PORT."
    elif error.errno == errno.EACCES:
        hint = "Take a port above 1023: --port, or CODEBASE_MCP_PORT."
    return InvalidInput(f"Cannot listen on {host}:{port}: {reason}", hint=hint)


def announce(text: str) -> None:
    """Say where the server is, once, at whatever level is logged, and in the log's own form."""
    name = "codebase_mcp"
    record = logging.LogRecord(name, logging.INFO, __file__, 0, text, None, None)
    logging.getLogger().handle(record)
