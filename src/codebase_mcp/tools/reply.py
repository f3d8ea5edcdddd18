"""Replies and errors: JSON, as structured content and as text; or a text for reading."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PrivateAttr

from codebase_mcp.errors import CodebaseError, InternalError
from codebase_mcp.telemetry.stopwatch import bound
from codebase_mcp.tools.schemas import without_references
from codebase_mcp.tools.text import error_text, lines_of

if TYPE_CHECKING:
    from fastmcp.tools.base import ToolResult

    from codebase_mcp.settings.loading import Settings

_log = logging.getLogger(__name__)

Replies = Literal["json", "text"]

IsoTime = Annotated[str, BeforeValidator(datetime.isoformat)]
"""A time in ISO 8601."""


def rounded(digits: int) -> AfterValidator:
    return AfterValidator(partial(round, ndigits=digits))


class Extended:
    """A value with further attributes, which come first."""

    def __init__(self, value: object, further: Mapping[str, object]) -> None:
        self._value = value
        self.__dict__.update(further)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._value, name)


class ReplyPart(BaseModel):
    """A part of a reply; it can be made of any value that has its fields as attributes."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def made_from(cls, value: object, **further: object) -> Self:
        """The part with the attributes of a value, and further attributes.

        Optional fields that are as by default are left out.
        """
        part = cls.model_validate(Extended(value, further) if further else value)
        for name in [*part.model_fields_set]:
            field = cls.model_fields[name]
            if not field.is_required() and getattr(part, name) == field.default:
                part.model_fields_set.discard(name)
        return part


class ErrorShape(BaseModel):
    """Why a call failed, and the way out."""

    code: str
    type: str
    message: str
    details: dict[str, Any] | None = None
    hint: str | None = None


class Reply(ReplyPart):
    """The result of a tool. No field is required, and an error may take the place of all fields.

    Clients of the official TypeScript library throw away an error whose content does not fit the
    output schema, so the schema includes ``error``.
    """

    model_config = ConfigDict(extra="forbid")

    error: ErrorShape | None = None

    # Fields that the general text leaves out, because it shows them in another way.
    _not_listed: ClassVar[frozenset[str]] = frozenset({"error"})

    def as_json(self) -> dict[str, Any]:
        """The reply for programs: the fields that were set, as JSON values."""
        return self.model_dump(mode="json", exclude_unset=True)

    def as_text(self) -> str:
        errors = [] if self.error is None else [error_text(self.error.model_dump())]
        return "\n".join([*errors, *self.text_lines()])

    def text_lines(self) -> Iterator[str]:
        """The text after an error: every field, unless a reply has a better form."""
        yield from lines_of(self.model_dump(exclude_unset=True, exclude=set(self._not_listed)))


class TextReply(Reply):
    """A reply that may be only a text."""

    _text: str | None = PrivateAttr(None)

    @classmethod
    def of_text(cls, text: str) -> Self:
        reply = cls()
        reply._text = text
        return reply

    def as_text(self) -> str:
        return super().as_text() if self._text is None else self._text


@cache
def output_schema(model: type[Reply]) -> dict[str, Any]:
    """A reply's JSON Schema: an object without required fields at its root."""
    schema = without_references(model.model_json_schema(mode="serialization"))
    schema.pop("required", None)
    return schema


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call over MCP: a text and, for programs, the same as structured content."""

    text: str
    content: dict[str, Any] | None = None
    is_error: bool = False
    meta: dict[str, Any] | None = None

    def as_message(self, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The result as the protocol has it, with further metadata."""
        message: dict[str, Any] = {
            "content": [{"type": "text", "text": self.text}],
            "isError": self.is_error,
        }
        if self.content is not None:
            message["structuredContent"] = self.content
        if self.meta is not None or meta is not None:
            message["_meta"] = {**(self.meta or {}), **(meta or {})}
        return message

    def for_fastmcp(self) -> ToolResult:
        from fastmcp.tools.base import ToolResult  # noqa: PLC0415 - for a server alone
        from mcp_types import TextContent  # noqa: PLC0415

        block = TextContent(type="text", text=self.text)
        return ToolResult([block], self.content, self.meta, self.is_error)


def success(reply: Reply, replies: Replies, meta: dict[str, Any] | None = None) -> Result:
    """A result: as structured content and as text, or as a text to read alone."""
    if replies == "text":
        return Result(reply.as_text(), meta=meta)
    content = reply.as_json()
    return Result(as_text(content), content, meta=meta)


def failure(error: CodebaseError, replies: Replies) -> Result:
    """An error: as structured content and as text, or as a text to read alone."""
    shape = error.as_reply()
    if replies == "text":
        return Result(error_text(shape), is_error=True)
    content = {"error": shape}
    return Result(as_text(content), content, is_error=True)


def unexpected(error: BaseException) -> InternalError:
    """The error for an unhandled exception: logged in full, shown by its id alone."""
    error_id = str(uuid4())
    with bound(error_id=error_id):
        _log.error("unexpected error %s", error_id, exc_info=error)
    return InternalError(
        "An unexpected error occurred",
        hint="Find the error_id in the server's log, and report it.",
        details={"error_id": error_id},
    )


def as_text(content: dict[str, Any]) -> str:
    """A reply of JSON as it is sent, compact."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


# What replaces a folder of the server in an error for a remote caller.
HIDDEN = "…"


def private_folders(settings: Settings) -> list[str]:
    """Folders of the server: of its data and model, and where it was started; the longest first."""
    from codebase_mcp.database.placement import SYSTEM_FOLDER  # noqa: PLC0415 - for errors alone

    data, model = settings.data_dir, Path(settings.embedding_model or "").expanduser()
    folders = {data, Path(os.path.realpath(data)), SYSTEM_FOLDER, Path.cwd()}
    if model.is_absolute():
        folders.add(model)
    named = (str(folder) for folder in folders if folder.parent != folder)
    return sorted(named, key=len, reverse=True)


def redacted(
    error: CodebaseError, arguments: Mapping[str, Any], folders: Collection[str]
) -> CodebaseError:
    """The error as a remote caller sees it; the log has it whole.

    It has no lines of the database's log, and none of these folders unless the caller named them.
    """
    sent = json.dumps(arguments, ensure_ascii=False, default=str)
    private = [folder for folder in folders if folder not in sent]
    shown = copy(error)
    shown.message, shown.hint = _without(private, error.message), _without(private, error.hint)
    shown.details = _without(private, {k: v for k, v in error.details.items() if k != "log"})
    # Invalid input is no fault of the server, and holds what the caller sent.
    if shown.as_dict() != error.as_dict() and error.type != "InvalidInput":
        _log.warning("details withheld from a remote caller: %s", error.as_dict())
    return shown


def _without(private: Collection[str], value: Any) -> Any:
    if isinstance(value, str):
        for folder in private:
            value = value.replace(folder, HIDDEN)
    elif isinstance(value, dict):
        return {key: _without(private, inner) for key, inner in value.items()}
    elif isinstance(value, list):
        return [_without(private, inner) for inner in value]
    return value
