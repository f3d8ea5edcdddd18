"""Serves MCP on stdio.

Invalid lines get an error reply too. When the input ends, running calls finish before the server
stops.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from fastmcp.server.context import reset_transport, set_transport
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from codebase_mcp.cli.unreadable import refusal_of
from codebase_mcp.tools.protocol_server import protocol_server
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.shutdown import REPLY_S, Shutdown

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from mcp_types import JSONRPCError

_STDIN = 0

Send = Callable[[SessionMessage], Coroutine[Any, Any, None]]


async def serve_stdio(server: FastMCP[None], holder: AppHolder, shutdown: Shutdown) -> None:
    """Serve until the input ends, or the process is stopped."""
    relay = StdinRelay(shutdown)
    relay.put_in_place()
    closing = asyncio.create_task(_close_input(relay, holder, shutdown))
    try:
        await _serve(server, relay)
    except* BrokenPipeError:
        pass  # the client has closed its end
    finally:
        closing.cancel()
        shutdown.begin()


async def _serve(server: FastMCP[None], relay: StdinRelay) -> None:
    """Like FastMCP on stdio, except that the relay can also send replies."""
    token = set_transport("stdio")
    try:
        async with stdio_server() as (messages, replies):
            relay.start(replies.send)
            protocol = protocol_server(server)
            await protocol.run(messages, replies, protocol.create_initialization_options())
    finally:
        reset_transport(token)


class StdinRelay:
    """Copies standard input to a pipe, line by line; the library reads from the pipe.

    The library reads in a thread that cannot be interrupted, and cancels all calls at the end of
    the input. The pipe lets us choose when it ends: after running calls if the client closes the
    input, and before the client does if a signal arrives. Lines that the library would silently
    drop are not copied; they are answered with an error here.
    """

    def __init__(self, shutdown: Shutdown) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = shutdown
        self._source = -1
        self._sink = -1

    def put_in_place(self) -> None:
        """Replace standard input by the pipe."""
        self._source = os.dup(_STDIN)
        end, self._sink = os.pipe()
        os.dup2(end, _STDIN)
        os.close(end)

    def start(self, reply: Send) -> None:
        """Start copying."""
        threading.Thread(target=self._copy, args=(reply,), name="stdin", daemon=True).start()

    def close(self) -> None:
        """End the input of the library."""
        # Replaced, not closed: the thread may be writing, and the descriptor must not be reused.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._sink)
        os.close(nowhere)

    def _copy(self, reply: Send) -> None:
        with suppress(RuntimeError), open(self._source, "rb") as lines:  # noqa: PTH123 - a number
            for line in lines:
                refusal = refusal_of(line.decode(errors="replace"))
                if refusal is not None:
                    self._refuse(refusal, reply)
                    continue
                # The library splits lines at a carriage return too; in JSON it is whitespace.
                piece = line.replace(b"\r", b" ")
                while piece:
                    piece = piece[os.write(self._sink, piece) :]
            self._loop.call_soon_threadsafe(self._ending.begin)

    def _refuse(self, refusal: JSONRPCError, reply: Send) -> None:
        """Send an error reply.

        Raises:
            RuntimeError: the event loop has ended.
        """
        sending = reply(SessionMessage(refusal))
        closed = (anyio.ClosedResourceError, anyio.BrokenResourceError)
        with suppress(*closed, concurrent.futures.CancelledError):  # the server is stopping
            asyncio.run_coroutine_threadsafe(sending, self._loop).result()


async def _close_input(relay: StdinRelay, holder: AppHolder, shutdown: Shutdown) -> None:
    await shutdown.wait()
    await holder.calls.drain(shutdown.drain_s)
    await asyncio.sleep(REPLY_S)
    relay.close()
