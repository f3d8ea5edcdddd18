"""How a tool is declared: by a function, whose annotations name its arguments and its reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from codebase_mcp.access.identity import SCOPES
from codebase_mcp.errors import PermissionDenied
from codebase_mcp.settings.table import MAX_REPLY_CHARS
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.reply import Replies, Reply
from codebase_mcp.tools.schemas import input_schema, listed_schema, model_schema

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from codebase_mcp.access.identity import Access, Identity, Scope
    from codebase_mcp.app.app import App, InProject
    from codebase_mcp.index.progress import RunProgress


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a tool.

    ``given`` are the parameter names as the client wrote them. ``report_progress`` takes the part
    that is done, the total and a message. ``replies`` is the form of the reply, ``reply_chars`` the
    default length of a text reply.
    """

    app: App
    report_progress: Callable[[float, float, str], Awaitable[None]]
    given: frozenset[str]
    identity: Identity
    replies: Replies
    reply_chars: int

    def reply_budget(self, max_chars: int | None = None) -> int:
        """The length of a text reply in characters; ``max_chars`` is the limit in the call."""
        return min(max_chars or self.reply_chars, MAX_REPLY_CHARS)

    async def report_index_run(self, progress: RunProgress) -> None:
        message = f"{progress.message}: {progress.done} of {progress.total} files"
        await self.report_progress(progress.done, progress.total or 1, message)

    def enter(
        self, project_id: str | None, *, readonly: bool = False
    ) -> AbstractAsyncContextManager[InProject]:
        """A transaction in the project of this call."""
        return self.app.enter(project_id, self.identity, readonly=readonly)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Hints for clients: the tool only reads; it may overwrite or delete; a second call with the
    same arguments changes nothing more."""

    reads: bool = False
    destroys: bool = False
    repeats: bool = False


READS = Hints(reads=True, repeats=True)
REPEATS = Hints(repeats=True)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a tool: its required and its optional parameters.

    ``scope`` replaces the scope of the tool.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    scope: Scope | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.required + self.optional


Run = Callable[[Caller, Any], Awaitable[Reply]]
DeclaredRun = TypeVar("DeclaredRun", bound=Run)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool. Agents read its ``text``, or else the docstring of ``run``."""

    name: str
    title: str
    arguments: type[Arguments]
    run: Run
    reply: type[Reply]
    annotations: Hints = field(default_factory=Hints)
    text: str = ""
    is_index_run: bool = False
    """Whether a call runs for as long as a repository takes; such calls have their own queue."""
    collection_arguments: type[Arguments] | None = None
    """The arguments for callers that name a collection, if they have other limits."""
    scope: Scope | None = None
    """The scope that callers need; by default read for a tool that only reads, else write."""
    operations: Mapping[str, Operation] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    """Messages of the original documents, by the code of the error whose message they replace."""

    @classmethod
    def of(cls, run: Run, title: str, annotations: Hints, **facts: Any) -> ToolSpec:
        """The tool that a function declares by its name, its docstring and its annotations."""
        types = get_type_hints(run)
        return cls(
            run.__name__, title, types["arguments"], run, types["return"], annotations, **facts
        )

    def scope_of(self, operation: str | None) -> Scope:
        """The scope that a caller needs for an operation of the tool, or for the tool."""
        declared = self.operations.get(operation or "", Operation()).scope
        return declared or self.scope or ("read" if self.annotations.reads else "write")

    def is_open_to(self, access: Access) -> bool:
        """Whether a caller may call it at all: the scope of any operation is enough."""
        needed = {self.scope_of(None), *map(self.scope_of, self.operations)}
        return not access.scopes.isdisjoint(needed)

    def require_scope(self, access: Access, operation: str | None = None) -> None:
        """Make sure that a caller may call the tool, or this operation of it."""
        needed = self.scope_of(operation)
        if needed in access.scopes or (operation is None and self.is_open_to(access)):
            return
        what = self.name if operation is None else f"{self.name} {operation}"
        held = [scope for scope in SCOPES if scope in access.scopes]
        raise PermissionDenied(
            f"You may not call {what}: it needs the scope {needed}",
            hint=f"Ask the operator of the server for a key with the scope {needed}; a server that"
            " is read-only gives it to no one.",
            details={"field": "scope", "value": ", ".join(held), "constraint": needed},
        )

    @property
    def takes_documents(self) -> bool:
        """Whether a parameter is an object of any form, which may be large."""
        parts = self.input_schema()["properties"].values()
        options = [option for part in parts for option in part.get("anyOf", [part])]
        return any(o.get("type") == "object" and "properties" not in o for o in options)

    @property
    def description(self) -> str:
        return self.text or cleandoc(self.run.__doc__ or "")

    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.arguments)

    def listed_schema(self) -> dict[str, Any]:
        """The JSON Schema that programs are shown: the same in short."""
        return listed_schema(self.arguments)

    def model_schema(self) -> dict[str, Any]:
        """The JSON Schema that coding agents are shown."""
        return model_schema(self.arguments)

    def arguments_for(self, given: Collection[str]) -> type[Arguments]:
        """The model for the arguments of a call with these parameter names."""
        if self.collection_arguments is not None and "collection" in given:
            return self.collection_arguments
        return self.arguments


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools shown or hidden together; ``instructions`` tell clients how to work with them."""

    name: str
    instructions: str
    tools: list[ToolSpec] = field(default_factory=list)

    def tool(
        self, title: str, annotations: Hints | None = None, **facts: Any
    ) -> Callable[[DeclaredRun], DeclaredRun]:
        """Declares that a function is a tool; ``facts`` are further fields of its `ToolSpec`."""

        def declare(run: DeclaredRun) -> DeclaredRun:
            self.tools.append(ToolSpec.of(run, title, annotations or Hints(), **facts))
            return run

        return declare
