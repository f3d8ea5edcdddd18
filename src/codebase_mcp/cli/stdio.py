"""How does a server on stdio end? Its calls finish first, then it sees the end of its input."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from codebase_mcp.tools.server import AppHolder
from codebase_mcp.web.ending import REPLY_S, Ending

if TYPE_CHECKING:
    from fastmcp import FastMCP

_STDIN = 0
_PIECE_BYTES = 1 << 16


async def serve_stdio(server: FastMCP[None], holder: AppHolder, ending: Ending) -> None:
    """Serve until the input ends, or the process is told to end."""
    relay = StdinRelay(ending)
    relay.start()
    closing = asyncio.create_task(_close_input(relay, holder, ending))
    try:
        await server.run_stdio_async(show_banner=False)
    except* BrokenPipeError:
        pass  # the client has gone, and with it whoever would read a reply
    finally:
        closing.cancel()
        ending.begin()


class StdinRelay:
    """Standard input by way of a pipe.

    The library reads it in a thread that nothing can interrupt, and breaks off all calls when it
    ends. With a pipe between, its end is ours to bring about: late, when the client has closed it
    while calls are under way, and early, when a signal came.
    """

    def __init__(self, ending: Ending) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = ending
        self._source = -1
        self._sink = -1

    def start(self) -> None:
        """Put the pipe where the standard input was."""
        self._source = os.dup(_STDIN)
        end, self._sink = os.pipe()
        os.dup2(end, _STDIN)
        os.close(end)
        threading.Thread(target=self._copy, name="stdin", daemon=True).start()

    def close(self) -> None:
        """Let the reader see the end."""
        # Replaced, not closed: the thread may be writing, and the number must not become another
        # file's.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._sink)
        os.close(nowhere)

    def _copy(self) -> None:
        while piece := os.read(self._source, _PIECE_BYTES):
            while piece:
                piece = piece[os.write(self._sink, piece) :]
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._ending.begin)


async def _close_input(relay: StdinRelay, holder: AppHolder, ending: Ending) -> None:
    await ending.wait()
    await holder.calls.drain(ending.drain_s)
    await asyncio.sleep(REPLY_S)
    relay.close()
