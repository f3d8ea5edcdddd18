"""Refuses calls at the door while the queue of calls is full.

A refusal by the queue itself comes after authentication, sessions and checks: under a thousand
clients these take more time than all searches together. New connections are accepted a few at a
time, so closing the connections of refused calls leaves time for the remaining calls.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request

from codebase_mcp.tools.reply import failure
from codebase_mcp.web.answers import UNAVAILABLE, Json, error_answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from codebase_mcp.errors import CodebaseError
    from codebase_mcp.tools.running import CallQueue

# A larger request is refused unread.
_MAX_READ_BYTES = 65_536


class LoadShedding:
    """Answers for an app whose queue of calls is full; requests other than calls pass."""

    def __init__(self, app: ASGIApp, queue: CallQueue) -> None:
        self._app = app
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["method"] == "POST" and self._queue.is_full:
            app = await self._refusal(Request(scope, receive))
        await app(scope, receive, send)

    async def _refusal(self, request: Request) -> Json:
        """503; for a tool called over MCP an error result, which a model gets to see."""
        error = self._queue.overloaded()
        call_id = await _call_id(request) if request.url.path.endswith("/mcp") else None
        answer = error_answer(error, UNAVAILABLE)
        if call_id is not None:
            answer = Json({"jsonrpc": "2.0", "id": call_id, "result": _result(error)})
        answer.headers["Connection"] = "close"
        return answer


def _result(error: CodebaseError) -> dict[str, Any]:
    """The result of a call over MCP that fails with an error."""
    shown = failure(error, "json")
    return {
        "resultType": "complete",
        "content": [block.model_dump(mode="json", exclude_none=True) for block in shown.content],
        "structuredContent": shown.structured_content,
        "isError": True,
    }


async def _call_id(request: Request) -> Any:
    """The id of a request that calls a tool over MCP; None for other requests."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > _MAX_READ_BYTES:
                return None
        message = json.loads(body)
        return message["id"] if message["method"] == "tools/call" else None
    except (ClientDisconnect, ValueError, RecursionError, TypeError, KeyError):
        return None
