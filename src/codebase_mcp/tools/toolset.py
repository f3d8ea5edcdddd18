"""What is a tool here? Its arguments, its function, its reply, and how it is announced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict

from codebase_mcp.tools.arguments import Rule
from codebase_mcp.tools.reply import Reply

if TYPE_CHECKING:
    from codebase_mcp.app import App


class Arguments(BaseModel):
    """The parameters of a tool; their JSON Schema is what clients see."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and how: what a tool may know beside its arguments.

    ``given`` are the parameter names as the client wrote them. ``report_progress`` takes what is
    done, the total and a message.
    """

    app: App
    report_progress: Callable[[float, float, str], Awaitable[None]]
    given: frozenset[str]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool. The docstring of ``run`` is the description that agents read."""

    name: str
    title: str
    arguments: type[Arguments]
    run: Callable[[Caller, Any], Awaitable[Reply]]
    reply: type[Reply]
    annotations: ToolAnnotations
    rules: Mapping[str, Rule] = field(default_factory=dict)
    collection_maxima: Mapping[str, int] = field(default_factory=dict)
    """Upper limits for callers that name a collection, where they may ask for more."""

    @property
    def description(self) -> str:
        return cleandoc(self.run.__doc__ or "")

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, without the titles that repeat their names."""
        schema = self.arguments.model_json_schema()
        return {key: _untitled(part) for key, part in schema.items() if key in _SCHEMA_KEYS}


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools that are shown or hidden together."""

    name: str
    tools: tuple[ToolSpec, ...]


_SCHEMA_KEYS = ("type", "properties", "required", "additionalProperties", "$defs")


def _untitled(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _untitled(part)
            for key, part in schema.items()
            if key != "title" or not isinstance(part, str)
        }
    return [_untitled(part) for part in schema] if isinstance(schema, list) else schema
