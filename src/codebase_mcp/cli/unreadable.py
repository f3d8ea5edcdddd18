"""The error reply to a line that is not a valid protocol message.

The library silently drops such lines, so a client would wait for its reply forever.
"""

from __future__ import annotations

import json
import re

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    RequestId,
    jsonrpc_message_adapter,
)

NOT_JSON = "Parse error: the line is not JSON"
NO_MESSAGE = (
    "Invalid request: each line must be one JSON-RPC 2.0 message in valid Unicode, with a string or"
    " an integer as id, an object as params, and at most 200 levels of nesting"
)

_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rf"{_TEXT}|[\[\]{{}}]")
_ID = re.compile(rf"\s*:\s*({_TEXT}|-?\d{{1,18}})\s*[,}}]")


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
