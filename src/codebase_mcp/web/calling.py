"""``POST /tools/{name}``: tools for clients that use HTTP and JSON instead of MCP."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Never

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from codebase_mcp.access.identity import Access
from codebase_mcp.errors import CodebaseError, InvalidInput, forget_locals
from codebase_mcp.telemetry.stopwatch import continued
from codebase_mcp.tools.arguments import error_value
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.catalog import unknown_tool
from codebase_mcp.tools.reply import unexpected
from codebase_mcp.tools.running import until_hang_up
from codebase_mcp.tools.server import AppHolder
from codebase_mcp.tools.toolset import ToolSpec
from codebase_mcp.web.answers import Json, error_answer
from codebase_mcp.web.limits import MAX_BODY_BYTES, read_body

# The longest field without a document, a task of 50,000 characters, has 600,000 bytes as escapes.
MAX_FIELDS_BYTES = 1 << 20
IN_QUERY = "project_id"
"""The parameter that the multi-project contract has in the query too."""


class Refused(InvalidInput):
    """An invalid request with a specific HTTP status."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ToolEndpoint:
    """Calls the tools of the server; a call is cancelled when its client disconnects."""

    def __init__(self, holder: AppHolder, tools: Mapping[str, ToolSpec]) -> None:
        self._holder = holder
        self._tools = tools

    async def answer(self, request: Request) -> Response:
        """The reply of the tool that the path names, or its error."""
        caller = identity_in(request)
        try:
            spec = self._spec(request.path_params["name"], caller.access)
            most = MAX_BODY_BYTES if spec.takes_documents else MAX_FIELDS_BYTES
            body = await read_object(request, most)
            arguments = _with_project(request, body)
            with continued(request.headers):
                call = self._holder.reply(spec, arguments, caller)
                return Json((await until_hang_up(request, call)).as_json())
        except Refused as error:
            return error_answer(error, error.status)
        except CodebaseError as error:
            forget_locals(error)
            return error_answer(error)
        except ClientDisconnect:
            return Response(status_code=499)  # never sent, as the client is gone
        except Exception as error:  # the edge: logged with its traceback, shown by its id
            return error_answer(unexpected(error))

    def _spec(self, name: str, access: Access) -> ToolSpec:
        if name not in self._tools:
            here = [name for name, spec in self._tools.items() if spec.is_open_to(access)]
            raise unknown_tool(name, here)
        return self._tools[name]


def _with_project(request: Request, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments in the body, and the project in the query; nothing else belongs there."""
    for name, value in request.query_params.multi_items():
        if name != IN_QUERY:
            message = f"Parameters belong in the body, not in the query: {error_value(name)}"
            rule = f"the query takes {IN_QUERY} alone"
            hint = "Send a JSON object with all parameters."
            raise InvalidInput.of(
                error_value(name), error_value(value), message, rule=rule, hint=hint
            )
        if arguments.setdefault(IN_QUERY, value) != value:
            message = f"{IN_QUERY} is given twice, with different values"
            raise InvalidInput.of(IN_QUERY, error_value(value), message, rule="one value")
    return arguments


async def read_object(request: Request, most: int = MAX_BODY_BYTES) -> dict[str, Any]:
    """The JSON object in the body of a request."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refused(415, "The content type must be application/json", "Send a JSON object.")
    announced = request.headers.get("content-length", "0")  # a number, which the protocol checked
    body = await read_body(request, most) if int(announced) <= most else None
    if body is None:
        raise Refused(413, f"The body must have at most {most} bytes")
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


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> Never:
    raise ValueError(f"{text} is not a valid JSON number")
