"""What does a client get back? Structured content, and the same JSON, compact, as text."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict

from codebase_mcp.errors import CodebaseError, InternalError
from codebase_mcp.telemetry.logs import bound
from codebase_mcp.tools.schemas import in_one_piece

if TYPE_CHECKING:
    from fastmcp.tools.base import ToolResult

_log = logging.getLogger(__name__)

# The numbers that the first version of this server used, for clients that still look at them.
_JSONRPC_CODES = {"VALIDATION_ERROR": -32602, "NOT_FOUND": -32000, "PROJECT_NOT_FOUND": -32000}


class ErrorShape(BaseModel):
    """Why a call failed, and the way out."""

    code: str
    type: str
    message: str
    details: dict[str, Any] | None = None
    hint: str | None = None


class Reply(BaseModel):
    """What every tool's result is made of: nothing required, and an error in place of the rest.

    Clients of the official TypeScript library throw away an error whose content does not fit the
    output schema, so the schema has room for one.
    """

    model_config = ConfigDict(extra="forbid")

    error: ErrorShape | None = None


def output_schema(model: type[Reply]) -> dict[str, Any]:
    """A reply's JSON Schema: an object without required fields at its root."""
    schema = in_one_piece(model.model_json_schema(mode="serialization"))
    schema.pop("required", None)
    return schema


def success(content: dict[str, Any]) -> ToolResult:
    """A result, as structured content and as text."""
    return _result(content)


def failure(error: CodebaseError) -> ToolResult:
    """An error, as structured content and as text."""
    shape = error.as_dict()
    number = _JSONRPC_CODES.get(error.code, -32603)
    shape["details"] = {**shape.get("details", {}), "jsonrpc_code": number}
    content = {"error": shape}
    return _result(content, is_error=True)


def unforeseen(error: BaseException) -> InternalError:
    """An error that nobody named: logged in full, shown by its id alone."""
    error_id = str(uuid4())
    with bound(error_id=error_id):
        _log.error("unforeseen error %s", error_id, exc_info=error)
    return InternalError(
        "Something unforeseen went wrong",
        hint="Look for the error_id in the server's log and report it.",
        details={"error_id": error_id},
    )


def as_text(content: dict[str, Any]) -> str:
    """A reply as it is sent, compact."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _result(content: dict[str, Any], *, is_error: bool = False) -> ToolResult:
    from fastmcp.tools.base import ToolResult  # noqa: PLC0415 - for a server alone
    from mcp_types import TextContent  # noqa: PLC0415

    text = TextContent(type="text", text=as_text(content))
    return ToolResult(content=[text], structured_content=content, is_error=is_error)
