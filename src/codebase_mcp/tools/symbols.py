"""The toolset ``symbols``: who defines and uses a name, and what a file defines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import ProjectId, ReplyBudget, RepositoryChoice, named_repository
from codebase_mcp.tools.rules import REF, text
from codebase_mcp.tools.symbol_reply import SymbolReply, symbol_reply
from codebase_mcp.tools.toolset import READS, Caller, Operation, Toolset

if TYPE_CHECKING:
    from codebase_mcp.symbols.answer import SymbolQuestion

TOOLSET = Toolset(
    "symbols",
    "symbol says who defines, uses, calls and implements a name: instead of grep for callers, and "
    "before you change it.",
)

MAX_SYMBOL_CHARS = 500
MAX_DEPTH = 3

_BY_NAME = ("name", "place", "ref", "repository_id", "limit", "max_chars")
_DEEP = (*_BY_NAME, "depth")
OPERATIONS = {
    "definition": Operation(optional=_BY_NAME),
    "references": Operation(optional=_BY_NAME),
    "callers": Operation(optional=_DEEP),
    "callees": Operation(optional=_DEEP),
    "implementations": Operation(optional=_DEEP),
    "outline": Operation(optional=("path", "ref", "repository_id", "limit", "max_chars")),
}


class SymbolArguments(Arguments):
    operation: Annotated[
        Literal["definition", "references", "callers", "callees", "implementations", "outline"],
        Field(description="What to do."),
    ] = "definition"
    name: Annotated[
        str | None,
        text(MAX_SYMBOL_CHARS),
        Field(description="A name, or qualified: Shop.sell, Shop::sell, shop.sell."),
    ] = None
    place: Annotated[
        str | None,
        text(MAX_SYMBOL_CHARS),
        Field(description="Instead of name: path:line, such as src/shop.py:12."),
    ] = None
    path: Annotated[
        str | None, text(MAX_SYMBOL_CHARS), Field(description="outline: a file or directory.")
    ] = None
    ref: Annotated[
        str | None, REF, Field(description="A branch, tag or commit instead of the files on disk.")
    ] = None
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH, description="Levels of a tree.")] = 1
    limit: Annotated[int, Field(ge=1, le=500, description="Entries at most.")] = 50
    max_chars: ReplyBudget = None
    project_id: ProjectId = None
    repository_id: RepositoryChoice = None


@TOOLSET.tool("Definitions and uses of a name", READS, operations=OPERATIONS)
async def symbol(caller: Caller, arguments: SymbolArguments) -> SymbolReply:
    """Who defines and uses a name. Use it after search_code has found a name, before you change it.

    - definition (name or place): where it is defined; a place: what is used or defined there.
    - references: every use, by file, with its line, the definition around it and a confidence.
    - callers, callees (depth 1-3): a tree of who calls it, or what it calls.
    - implementations (depth): classes that inherit from it; of a method, those that override it.
    - outline (path): what a file defines, or each file of a directory.

    Uses are resolved by scope, imports and receiver, without types: a confidence of 0.8 and above
    is resolved, below 0.5 only possible.
    """
    report = await caller.app.symbols.ask(
        question_of(arguments),
        arguments.project_id,
        caller.identity,
        repository=named_repository(arguments.repository_id),
        report=caller.report_index_run,
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.symbols import symbol_text  # noqa: PLC0415 - seldom needed

        budget = caller.reply_budget(arguments.max_chars)
        return SymbolReply.of_text(symbol_text(report, budget))
    reply = symbol_reply(report, arguments.max_chars)
    reply.project_id = report.project.project_id
    reply.project_source = report.project_source
    return reply


def question_of(arguments: SymbolArguments) -> SymbolQuestion:
    """The question that some arguments ask.

    Raises:
        InvalidInput: they name nothing, or a name and a place.
    """
    from codebase_mcp.symbols.lookup import parse_place  # noqa: PLC0415 - not for the handshake
    from codebase_mcp.tools.answers import symbol_question  # noqa: PLC0415

    if arguments.operation == "outline":
        target = arguments.path or ""
    else:
        if (arguments.name is None) == (arguments.place is None):
            message = f"{arguments.operation} takes a name or a place"
            raise InvalidInput.of("name", arguments.name, message, rule="one of: name, place")
        target = arguments.place or arguments.name or ""
        if arguments.place is not None and parse_place(target) is None:
            message = f"Not a place: {target[:200]!r}"
            raise InvalidInput.of("place", target, message, rule="PATH:LINE")
    return symbol_question(
        arguments.operation,
        target,
        ref=arguments.ref,
        depth=arguments.depth,
        limit=arguments.limit,
    )
