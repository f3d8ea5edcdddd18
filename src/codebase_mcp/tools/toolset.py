"""What is a tool here? Its arguments, its function, its reply, and how it is announced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from codebase_mcp.settings.table import MAX_REPLY_CHARS
from codebase_mcp.tools.clients import Replies
from codebase_mcp.tools.limits import Rule, rules_of
from codebase_mcp.tools.reply import Reply
from codebase_mcp.tools.schemas import for_models, listed_form, without_references

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from codebase_mcp.app.app import App, InProject
    from codebase_mcp.index.progress import RunProgress
    from codebase_mcp.projects.identity import Access, Identity, Scope


class Arguments(BaseModel):
    """The parameters of a tool; their JSON Schema is what clients see."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and how: what a tool may know in addition to its arguments.

    ``given`` are the parameter names as the client wrote them. ``report_progress`` takes what is
    done, the total and a message. ``replies`` is the form that the caller gets, ``reply_chars``
    what a text reply may take where the call does not say it.
    """

    app: App
    report_progress: Callable[[float, float, str], Awaitable[None]]
    given: frozenset[str]
    identity: Identity
    replies: Replies
    reply_chars: int

    def reply_budget(self, max_chars: int | None = None) -> int:
        """How many characters a text reply may take; ``max_chars`` is what the call says."""
        return min(max_chars or self.reply_chars, MAX_REPLY_CHARS)

    async def report_index_run(self, progress: RunProgress) -> None:
        """Tell the caller how far an index run is."""
        message = f"{progress.message}: {progress.done} of {progress.total} files"
        await self.report_progress(progress.done, progress.total or 1, message)

    def enter(
        self, project_id: str | None, *, readonly: bool = False
    ) -> AbstractAsyncContextManager[InProject]:
        """A transaction in the project that this call means."""
        return self.app.enter(project_id, self.identity, readonly=readonly)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What clients may know before they call a tool: only reads; may overwrite or delete; called
    again with the same arguments does nothing more."""

    reads: bool = False
    destroys: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool. Agents read its ``text``, or else the docstring of ``run``."""

    name: str
    title: str
    arguments: type[Arguments]
    run: Callable[[Caller, Any], Awaitable[Reply]]
    reply: type[Reply]
    annotations: Hints
    text: str = ""
    is_index_run: bool = False
    """Whether a call runs for as long as a repository takes; such calls have their own queue."""
    collection_maxima: Mapping[str, int] = field(default_factory=dict)
    """Upper limits for callers that name a collection, where they may ask for more."""
    scope: Scope | None = None
    """What a caller needs, where it is not to read for a tool that reads, else to write."""
    operation_scopes: Mapping[str, Scope] = field(default_factory=dict)
    """Operations that need another scope than the tool."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """What the documents say in place of an error's own message, by its code."""

    def scope_of(self, operation: str | None) -> Scope:
        """The scope that a caller needs for an operation of the tool, or for the tool."""
        own = self.scope or ("read" if self.annotations.reads else "write")
        return own if operation is None else self.operation_scopes.get(operation, own)

    def is_open_to(self, access: Access) -> bool:
        """Whether a caller may call it at all: one of its operations is enough."""
        needed = {self.scope_of(None), *self.operation_scopes.values()}
        return not access.scopes.isdisjoint(needed)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rules that its parameters are checked by, where the schema alone does not say it."""
        return rules_of(self.arguments)

    @property
    def takes_documents(self) -> bool:
        """Whether a parameter is an object of the caller's own making, which may be large."""
        parts = self.input_schema()["properties"].values()
        options = [option for part in parts for option in part.get("anyOf", [part])]
        return any(o.get("type") == "object" and "properties" not in o for o in options)

    @property
    def description(self) -> str:
        return self.text or cleandoc(self.run.__doc__ or "")

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema that arguments are held against."""
        return _input_schema(self.arguments)

    def listed_schema(self) -> dict[str, Any]:
        """The JSON Schema that programs are shown: the same in short."""
        return _listed_schema(self.arguments)

    def model_schema(self) -> dict[str, Any]:
        """The JSON Schema that coding agents are shown: without what no model needs."""
        return _model_schema(self.arguments)

    def accepted_schema(self, given: Collection[str]) -> dict[str, Any]:
        """The schema that a caller who wrote these parameter names is held against."""
        schema = self.input_schema()
        if "collection" not in given:
            return schema
        properties = dict(schema["properties"])
        for name, maximum in self.collection_maxima.items():
            properties[name] = {**properties[name], "maximum": maximum}
        return {**schema, "properties": properties}


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools that are shown or hidden together."""

    name: str
    tools: tuple[ToolSpec, ...]


@cache
def _input_schema(arguments: type[Arguments]) -> dict[str, Any]:
    schema = without_references(arguments.model_json_schema())
    schema.pop("description", None)
    return schema


@cache
def _listed_schema(arguments: type[Arguments]) -> dict[str, Any]:
    # Where defaults are not published, null is another thing than leaving a parameter out.
    has_defaults = "json_schema_extra" not in arguments.model_config
    return listed_form(_input_schema(arguments), keep_null=not has_defaults)


@cache
def _model_schema(arguments: type[Arguments]) -> dict[str, Any]:
    return for_models(_listed_schema(arguments))
