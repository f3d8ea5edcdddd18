"""What is a line answered with that no message of the protocol can be read from?

The library drops such lines, and a client that sent a request in one would wait for ever.
"""

from __future__ import annotations

import json
import re

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCNotification,
    RequestId,
    jsonrpc_message_adapter,
)

NOT_JSON = "Parse error: the line is not JSON"
NO_MESSAGE = (
    "Invalid request: a line must be one JSON-RPC 2.0 message, its id a text or a whole number, its"
    " params an object, its text valid Unicode, and nothing nested more than 200 deep"
)

_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(rf"{_TEXT}|[\[\]{{}}]")
_ID = re.compile(rf"\s*:\s*({_TEXT}|-?\d{{1,18}})\s*[,}}]")


def refusal_of(line: str) -> JSONRPCError | None:
    """The error for a line without a message; None if there is one, or nothing at all."""
    if not line.strip():
        return None
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return _refusal(line)
    # A request with an invalid id would pass for a notification, and those get no reply.
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
        return _refusal(line)
    return None


def _refusal(line: str) -> JSONRPCError:
    """The reply to a line that is no request: under its id if that can be read, else under null."""
    try:
        message = json.loads(line)
    except json.JSONDecodeError:
        return _error(None, PARSE_ERROR, NOT_JSON)
    except (ValueError, RecursionError):  # a number too long to be read, or nested too deeply
        return _error(_id_in(line), INVALID_REQUEST, NO_MESSAGE)
    # A response that cannot be read has the id of a request of ours, not of its sender's.
    is_request = isinstance(message, dict) and "method" in message
    return _error(message.get("id") if is_request else None, INVALID_REQUEST, NO_MESSAGE)


def _id_in(line: str) -> RequestId | None:
    """The id in an object that cannot be parsed as a whole."""
    depth = 0
    for found in _TOKEN.finditer(line):
        token = found[0]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif depth == 1 and token == '"id"' and (value := _ID.match(line, found.end())):
            request_id: RequestId = json.loads(value[1])
            return request_id
    return None


def _error(request_id: object, code: int, message: str) -> JSONRPCError:
    body = {"jsonrpc": "2.0", "error": {"code": code, "message": message}}
    try:
        return JSONRPCError.model_validate_json(json.dumps({**body, "id": request_id}))
    except ValueError:  # no id, or one that cannot be written
        return JSONRPCError.model_validate({**body, "id": None})
