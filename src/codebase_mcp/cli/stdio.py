"""Serves MCP on stdio.

Invalid lines get an error reply too: the library silently drops them, so a client would wait for
its reply forever. When the input ends, every request that came before is answered before the server
stops.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import re
import select
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

import anyio
from fastmcp import FastMCP
from fastmcp.server.context import reset_transport, set_transport
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from codebase_mcp.tools.server import AppHolder, protocol_server
from codebase_mcp.web.shutdown import REPLY_S, Shutdown

_STDIN, _STDOUT = 0, 1
_CANCELLED = "notifications/cancelled"

NOT_JSON = "Parse error: the line is not JSON"
NO_MESSAGE = (
    "Invalid request: each line must be one JSON-RPC 2.0 message in valid Unicode, with a string or"
    " an integer as id, an object as params, and at most 200 levels of nesting"
)

_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rf"{_TEXT}|[\[\]{{}}]")
_ID = re.compile(rf"\s*:\s*({_TEXT}|-?\d{{1,18}})\s*[,}}]")

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
            noted = _NotedReplies(replies, relay.requests)
            await protocol.run(messages, noted, protocol.create_initialization_options())
    finally:
        reset_transport(token)


class _OpenRequests:
    """The requests that still wait for a reply; ``answered_all`` is called when none does and the
    input has ended.
    """

    def __init__(self, answered_all: Callable[[], None]) -> None:
        self._answered_all = answered_all
        self._open: Counter[RequestId] = Counter()
        self._is_ended = False

    def note(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._open[message.id] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._close((message.params or {}).get("requestId"))

    def note_reply(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._close(message.id)

    def end(self) -> None:
        self._is_ended = True
        self._look()

    def _close(self, request_id: object) -> None:
        if isinstance(request_id, str | int):
            others = self._open.pop(request_id, 0) - 1  # an id may be used twice
            if others > 0:
                self._open[request_id] = others
        self._look()

    def _look(self) -> None:
        if self._is_ended and not self._open:
            self._answered_all()


class _NotedReplies:
    """A stream of messages to the client that notes which requests were answered."""

    def __init__(self, replies: WriteStream[SessionMessage], requests: _OpenRequests) -> None:
        self._replies = replies
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        await self._replies.send(item)
        self._requests.note_reply(item.message)

    async def aclose(self) -> None:
        await self._replies.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class StdinRelay:
    """Copies standard input to a pipe, line by line; the library reads from the pipe.

    The library reads in a thread that cannot be interrupted, and cancels all calls at the end of
    the input. The pipe lets us choose when it ends: after the replies to all requests if the client
    closes the input, and before the client does if a signal arrives. Lines that the library would
    silently drop are not copied; they are answered with an error here.
    """

    def __init__(self, shutdown: Shutdown) -> None:
        self.requests = _OpenRequests(shutdown.begin)
        self._loop = asyncio.get_running_loop()
        self._shutdown = shutdown
        self._source = -1
        self._sink = -1
        self._output = -1

    def put_in_place(self) -> None:
        """Replace standard input by the pipe."""
        self._source = os.dup(_STDIN)
        self._output = os.dup(_STDOUT)
        end, self._sink = os.pipe()
        os.dup2(end, _STDIN)
        os.close(end)

    def start(self, reply: Send) -> None:
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
                message, refusal = read_message(line.decode(errors="replace"))
                if refusal is not None:
                    self._refuse(refusal, reply)
                    continue
                if message is not None:
                    self._loop.call_soon_threadsafe(self.requests.note, message)
                # The library splits lines at a carriage return too; in JSON it is whitespace.
                piece = line.replace(b"\r", b" ")
                while piece:
                    piece = piece[os.write(self._sink, piece) :]
            self._loop.call_soon_threadsafe(self.requests.end)
            # If nobody reads the replies any more, nobody waits for them.
            output = select.poll()
            output.register(self._output, 0)
            output.poll()
            self._loop.call_soon_threadsafe(self._shutdown.begin)

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


def read_message(line: str) -> tuple[JSONRPCMessage | None, JSONRPCError | None]:
    """The message in a line, or the error for an invalid line; neither if the line is blank."""
    if not line.strip():
        return None, None
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None, _refusal(line)
    # A request with an invalid id is parsed as a notification, which gets no reply.
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
        return None, _refusal(line)
    return message, None


def _refusal(line: str) -> JSONRPCError:
    """The error reply to an invalid line, with its id if that can be read, else with null."""
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        return _error(None, PARSE_ERROR, NOT_JSON)
    except (ValueError, RecursionError):  # a number is too long, or nesting too deep
        return _error(_id_in(line), INVALID_REQUEST, NO_MESSAGE)
    # The id of an invalid response is that of our own request, so it must not be used.
    is_request = isinstance(message, dict) and "method" in message
    return _error(message.get("id") if is_request else None, INVALID_REQUEST, NO_MESSAGE)


def _id_in(line: str) -> RequestId | None:
    """The id of an object that cannot be parsed completely."""
    depth = 0
    for match in _TOKEN.finditer(line):
        token = match[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif depth == 1 and token == '"id"' and (value := _ID.match(line, match.end())):
            request_id: RequestId = json.loads(value[1])
            return request_id
    return None


def _error(request_id: object, code: int, message: str) -> JSONRPCError:
    body = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
    try:
        return JSONRPCError.model_validate_json(json.dumps({**body, "id": request_id}))
    except ValueError:  # the id is missing or invalid
        return JSONRPCError.model_validate({**body, "id": None})
