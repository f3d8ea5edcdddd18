"""HTTP responses for results and errors."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.errors import CodebaseError, InvalidInput, NotFound, Overloaded

STATUSES = {
    "VALIDATION_ERROR": 400,
    "PERMISSION_DENIED": 403,
    "PROJECT_NOT_FOUND": 404,
    "NOT_FOUND": 404,
    "CONFLICT": 409,
    "DATABASE_ERROR": 503,
    "EMBEDDING_ERROR": 503,
    "INDEXING_ERROR": 500,
    "RUNTIME_ERROR": 500,
}
UNAVAILABLE = 503
# An embedded server restarts within this time.
RETRY_AFTER_S = 5
_COMPACT: Any = {"separators": (",", ":"), "allow_nan": False}


class Json(Response):
    """Compact JSON without escaping of non-ASCII text."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, ensure_ascii=False, **_COMPACT).encode()
        except UnicodeEncodeError:  # a lone surrogate from a client's input
            return json.dumps(content, **_COMPACT).encode()


def error_answer(error: CodebaseError, status: int | None = None) -> Json:
    """An error in the contract's shape, with its status."""
    if status is None:
        status = UNAVAILABLE if error.type == "Unavailable" else STATUSES[error.code]
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == UNAVAILABLE else {}
    if isinstance(error, Overloaded):
        headers["Retry-After"] = str(error.retry_after_s)
    return Json({"error": error.as_reply()}, status, headers)


async def refuse(request: Request, error: Exception) -> Json:
    """The response to a request without a route, in the contract's shape."""
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    if error.status_code == 404:
        answer = error_answer(NotFound(f"No such path: {path}", hint="GET /openapi.json names all"))
    else:
        reason = f"{method} {path}: {error.detail}"
        answer = error_answer(InvalidInput(reason), error.status_code)
    answer.headers.update(error.headers or {})
    return answer
