"""How is a server on stdio read, and how does it end?

Every line gets a reply, also one that no message can be read from. When the input ends, calls
finish first, then the server sees that end.
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
        pass  # the client has gone, so no one reads a reply
    finally:
        closing.cancel()
        shutdown.begin()


async def _serve(server: FastMCP[None], relay: StdinRelay) -> None:
    """What FastMCP does on stdio, except that the relay can reply too."""
    token = set_transport("stdio")
    try:
        async with stdio_server() as (messages, replies):
            relay.start(replies.send)
            protocol = protocol_server(server)
            await protocol.run(messages, replies, protocol.create_initialization_options())
    finally:
        reset_transport(token)


class StdinRelay:
    """Standard input by way of a pipe, line by line.

    The library reads it in a thread that nothing can interrupt, and breaks off all calls when it
    ends. With a pipe between, its end is ours to bring about: late, when the client has closed it
    while calls are under way, and early, when a signal came. Lines that the library would drop
    without a word do not get into the pipe; they are answered here.
    """

    def __init__(self, shutdown: Shutdown) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = shutdown
        self._source = -1
        self._sink = -1

    def put_in_place(self) -> None:
        """Put the pipe where the standard input was."""
        self._source = os.dup(_STDIN)
        end, self._sink = os.pipe()
        os.dup2(end, _STDIN)
        os.close(end)

    def start(self, reply: Send) -> None:
        """Pass on what comes in from now on."""
        threading.Thread(target=self._copy, args=(reply,), name="stdin", daemon=True).start()

    def close(self) -> None:
        """Let the reader see the end."""
        # Replaced, not closed: the thread may be writing, and the number must not become another
        # file's.
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
                # The library takes a carriage return for the end of a line; in JSON it is a blank.
                piece = line.replace(b"\r", b" ")
                while piece:
                    piece = piece[os.write(self._sink, piece) :]
            self._loop.call_soon_threadsafe(self._ending.begin)

    def _refuse(self, refusal: JSONRPCError, reply: Send) -> None:
        """Send an error, in its turn.

        Raises:
            RuntimeError: the loop has ended.
        """
        sending = reply(SessionMessage(refusal))
        closed = (anyio.ClosedResourceError, anyio.BrokenResourceError)
        with suppress(*closed, concurrent.futures.CancelledError):  # the server ends
            asyncio.run_coroutine_threadsafe(sending, self._loop).result()


async def _close_input(relay: StdinRelay, holder: AppHolder, shutdown: Shutdown) -> None:
    await shutdown.wait()
    await holder.calls.drain(shutdown.drain_s)
    await asyncio.sleep(REPLY_S)
    relay.close()
