"""``POST /tools/{name}``: a tool for callers who speak HTTP and JSON, and no MCP."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any, Never

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.telemetry import tracing
from codebase_mcp.tools.calling import no_progress
from codebase_mcp.tools.catalog import unknown_tool
from codebase_mcp.tools.reply import unexpected
from codebase_mcp.tools.server import AppHolder, identity_of_key
from codebase_mcp.tools.toolset import ToolSpec
from codebase_mcp.web.answers import Json, error_answer

# What the MCP endpoint takes.
MAX_BODY_BYTES = 4 << 20


class Refused(InvalidInput):
    """A request that HTTP has a status of its own for."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ToolEndpoint:
    """Calls the tools that the server shows; whoever hangs up cancels the call."""

    def __init__(self, holder: AppHolder, tools: Mapping[str, ToolSpec]) -> None:
        self._holder = holder
        self._tools = tools

    async def answer(self, request: Request) -> Response:
        """The reply of the tool that the path names, or its error."""
        try:
            spec = self._spec(request.path_params["name"])
            arguments = await read_object(request)
            with tracing.continued(request.headers):
                call = self._holder.call(spec, arguments, identity_of_key(), no_progress)
                return Json(await until_hang_up(request, asyncio.create_task(call)))
        except Refused as error:
            return error_answer(error, error.status)
        except CodebaseError as error:
            return error_answer(error)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        except Exception as error:  # the edge: logged with its traceback, shown by its id
            return error_answer(unexpected(error))

    def _spec(self, name: str) -> ToolSpec:
        if name not in self._tools:
            raise unknown_tool(name, self._tools)
        return self._tools[name]


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries.

    Raises:
        InvalidInput: it carries none, or too much.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refused(415, "The content type must be application/json", "Send a JSON object.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise Refused(413, f"The body must have at most {MAX_BODY_BYTES} bytes")
    try:
        parsed = json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The body is not JSON: {error}", hint="Send a JSON object.") from None
    if not isinstance(parsed, dict):
        raise InvalidInput(
            f"The body must be a JSON object, got {type(parsed).__name__}",
            hint="Without arguments send {}.",
        )
    return parsed


async def until_hang_up(request: Request, call: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
    """The outcome of a call, which is cancelled when its caller hangs up.

    Raises:
        ClientDisconnect: the caller has gone.
    """
    hang_up = asyncio.create_task(_hang_up(request))
    both: tuple[asyncio.Task[Any], ...] = (call, hang_up)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if call.done():
            return call.result()
        raise ClientDisconnect
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> Never:
    raise ValueError(f"{text} is no number in JSON")
