"""What can go wrong, in words a client can act on.

    CodebaseError
    ├── InvalidInput          VALIDATION_ERROR   a bad parameter: field, value, rule
    ├── ProjectNotFound       PROJECT_NOT_FOUND  unknown, never indexed, or not this caller's
    ├── NotFound              NOT_FOUND          a record that is not there
    │   └── UnknownTool       NOT_FOUND          a tool that is not there
    ├── PermissionDenied      PERMISSION_DENIED  no right to create, read or call
    ├── Conflict              CONFLICT           a stale version, a name that is taken
    ├── DatabaseUnavailable   DATABASE_ERROR     away, too old, without pgvector
    │   └── StandbyLost       DATABASE_ERROR     a standby failed, which the primary replaces
    ├── EmbeddingUnavailable  EMBEDDING_ERROR    away, model missing, wrong dimension
    ├── IndexingFailed        INDEXING_ERROR     a run failed for another reason
    │   └── SnapshotDropped   INDEXING_ERROR     what it wrote to, or was searched, is gone
    ├── ShuttingDown          RUNTIME_ERROR      the server ends; call again when it is back
    ├── Overloaded            RUNTIME_ERROR      too many calls, at once or from this caller
    ├── TimeLimitExceeded     RUNTIME_ERROR      a search took longer than it may
    └── InternalError         RUNTIME_ERROR      unexpected, with an id that is in the log too

Every error carries what the contract's error shape needs: ``message`` for people, ``details`` for
programs and ``hint``, the way out. What a client gets of it is bounded: it goes into a model's
context, and a caller that sends megabytes must not get them back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import accumulate, takewhile
from math import isfinite
from traceback import clear_frames
from typing import Any, ClassVar

# Together below 4 KB.
_MAX_TEXT_CHARS = 600
_MAX_DETAILS_CHARS = 2_000


class CodebaseError(Exception):
    """The base of every error that may reach a client; its text is safe to show."""

    code: ClassVar[str] = "RUNTIME_ERROR"
    type: ClassVar[str] = "InternalError"
    jsonrpc_code: ClassVar[int] = -32603
    """The number that the first version of this server used, for clients that still look at it."""

    def __init__(
        self, message: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})

    def as_dict(self) -> dict[str, Any]:
        """The error shape of the contract, without its outer ``error`` key, below 4 KB."""
        shape: dict[str, Any] = {"code": self.code, "type": self.type}
        shape["message"] = _short(self.message)
        if self.details:
            shape["details"] = _bounded(self.details)
        if self.hint:
            shape["hint"] = _short(self.hint)
        return shape

    def as_reply(self) -> dict[str, Any]:
        """The error shape as MCP and HTTP reply with it: with the old number."""
        shape = self.as_dict()
        shape["details"] = {**shape.get("details", {}), "jsonrpc_code": self.jsonrpc_code}
        return shape


class InvalidInput(CodebaseError):
    """A parameter breaks its rule; nothing was done."""

    code = "VALIDATION_ERROR"
    type = "InvalidInput"
    jsonrpc_code = -32602

    @classmethod
    def of(
        cls,
        field: str,
        value: object,
        message: str,
        *,
        rule: str,
        hint: str | None = None,
        **more: object,
    ) -> InvalidInput:
        """Name the field, its value and the rule that it breaks, and ``more`` details."""
        details = {"field": field, "value": value, "constraint": rule, **more}
        return cls(message, hint=hint, details=details)


class ProjectNotFound(CodebaseError):
    """The project is unknown, was never indexed, or is not this caller's to see."""

    code = "PROJECT_NOT_FOUND"
    type = "NotFound"
    jsonrpc_code = -32000


class NotFound(CodebaseError):
    """A record named by its id is not there."""

    code = "NOT_FOUND"
    type = "NotFound"
    jsonrpc_code = -32000


class UnknownTool(NotFound):
    """No tool of this name is shown here."""

    jsonrpc_code = -32601


class PermissionDenied(CodebaseError):
    """The caller, or the role that we connect as, lacks a right."""

    code = "PERMISSION_DENIED"
    type = "InvalidInput"


class Conflict(CodebaseError):
    """A version is stale, or a name is taken."""

    code = "CONFLICT"
    type = "InvalidInput"


class DatabaseUnavailable(CodebaseError):
    """PostgreSQL is away, too old, or lacks pgvector."""

    code = "DATABASE_ERROR"
    type = "Unavailable"


class StandbyLost(DatabaseUnavailable):
    """A read failed on a standby; the search that made it is made again on the primary."""


class EmbeddingUnavailable(CodebaseError):
    """The embedder is away, its model is missing, or its vectors do not fit the index."""

    code = "EMBEDDING_ERROR"
    type = "Unavailable"


class IndexingFailed(CodebaseError):
    """An index run failed; what was committed before stays searchable."""

    code = "INDEXING_ERROR"


class SnapshotDropped(IndexingFailed):
    """A snapshot was dropped while it was written to or searched, as by a rebuild."""

    def __init__(self) -> None:
        super().__init__(
            "The index of a commit was dropped meanwhile", hint="Call again: it is made anew."
        )


class ShuttingDown(CodebaseError):
    """The server is about to end; the call was not begun, or was broken off."""

    type = "Unavailable"


class Overloaded(CodebaseError):
    """Too many calls, of all callers at once or of this one in a minute; nothing was done."""

    type = "Unavailable"

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: int = 1) -> None:
        super().__init__(message, hint=hint, details={"retry_after_seconds": retry_after_s})
        self.retry_after_s = retry_after_s


class TimeLimitExceeded(CodebaseError):
    """The database stopped a statement that took longer than the limit of searches."""

    type = "Unavailable"


class InternalError(CodebaseError):
    """An unexpected error; ``details.error_id`` is in the log with the traceback."""


def forget_locals(error: BaseException) -> None:
    """Empty the frames that an error came through; they hold the call's arguments, and the error.

    Without it a refused call stays in memory until the garbage collector looks for such cycles.
    """
    chain: list[BaseException] = []
    part: BaseException | None = error
    while part is not None and part not in chain:  # an error can be its own cause
        chain.append(part)
        clear_frames(part.__traceback__)
        part = part.__cause__ or part.__context__


def _bounded(details: Mapping[str, Any]) -> dict[str, Any]:
    """What fits of some details: of a long list the first entries and how many are left out."""
    fitting: dict[str, Any] = {}
    room = _MAX_DETAILS_CHARS
    for name, whole in details.items():
        value = _with_short_texts(whole)
        if isinstance(value, list):
            ends = accumulate(map(_size, value))
            value = value[: sum(1 for _ in takewhile(room.__gt__, ends))]
            if len(value) < len(whole):
                fitting[f"{name}_left_out"] = len(whole) - len(value)
        if _size(value) <= room:
            fitting[name] = value
            room -= _size(value)
    return fitting


def _with_short_texts(value: Any) -> Any:
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, list):
        return [_with_short_texts(entry) for entry in value]
    if isinstance(value, dict):
        return {_short(name): _with_short_texts(part) for name, part in value.items()}
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no such numbers
    return value


def _short(text: str) -> str:
    """A text that is not long, and that UTF-8 can hold."""
    cut = text if len(text) <= _MAX_TEXT_CHARS else text[: _MAX_TEXT_CHARS - 3] + "..."
    return cut.encode(errors="backslashreplace").decode()


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))
