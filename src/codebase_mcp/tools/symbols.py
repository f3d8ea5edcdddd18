"""The toolset ``symbols``: who defines and uses a name, and what a file defines."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasPath, Field

from codebase_mcp.errors import InvalidInput
from codebase_mcp.tools.arguments import Arguments
from codebase_mcp.tools.fields import (
    FileKinds,
    ProjectId,
    ProjectReply,
    ReplyBudget,
    RepositoryChoice,
    ScopeReply,
    named_repository,
)
from codebase_mcp.tools.reply import ReplyPart, TextReply, as_text
from codebase_mcp.tools.rules import DIRECTORY, REF, text
from codebase_mcp.tools.text import folders_of
from codebase_mcp.tools.toolset import READS, Caller, Operation, Toolset

if TYPE_CHECKING:
    from codebase_mcp.app.symbols import SymbolReport
    from codebase_mcp.symbols.answer import SymbolQuestion
    from codebase_mcp.symbols.definition import Definition, FoundUse
    from codebase_mcp.symbols.hierarchy import Call, Implementation
    from codebase_mcp.symbols.paths import CallPaths
    from codebase_mcp.symbols.steps import Step

TOOLSET = Toolset(
    "symbols",
    "symbol says who defines, uses, calls and implements a name: instead of grep for callers, and "
    "before you change it.",
)

MAX_SYMBOL_CHARS = 500
MAX_DEPTH = 3
_MOST_FOLDERS = 20
# Of the names of the fields with a definition's text.
_BODY_FIELDS_CHARS = 40

_BY_NAME = (
    "name", "place", "directory", "kinds", "tests", "ref", "repository_id", "limit", "max_chars"
)  # fmt: skip
_DEEP = (*_BY_NAME, "depth")
OPERATIONS = {
    "definition": Operation(optional=(*_BY_NAME, "body")),
    "references": Operation(optional=_BY_NAME),
    "callers": Operation(optional=_DEEP),
    "callees": Operation(optional=_DEEP),
    "path": Operation(("to",), tuple(name for name in _BY_NAME if name != "limit")),
    "implementations": Operation(optional=_DEEP),
    "outline": Operation(optional=("path", "ref", "repository_id", "limit", "max_chars")),
}


class SymbolArguments(Arguments):
    operation: Annotated[
        Literal[
            "definition", "references", "callers", "callees", "path", "implementations", "outline"
        ],
        Field(description="What to do."),
    ] = "definition"
    name: Annotated[
        str | None, text(MAX_SYMBOL_CHARS), Field(description="Also Shop.sell, Shop::sell.")
    ] = None
    place: Annotated[
        str | None, text(MAX_SYMBOL_CHARS), Field(description="Or src/shop.py:12.")
    ] = None
    path: Annotated[str | None, text(MAX_SYMBOL_CHARS), Field(description="Of outline.")] = None
    to: Annotated[
        str | None, text(MAX_SYMBOL_CHARS), Field(description="Of path: the other name.")
    ] = None
    body: Annotated[bool, Field(description="definition: with its text.")] = False
    directory: Annotated[str | None, DIRECTORY, Field(description="Below it.")] = None
    kinds: FileKinds = None
    tests: Annotated[bool, Field(description="false: without tests.")] = True
    ref: Annotated[str | None, REF, Field(description="Branch, tag or commit.")] = None
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH, description="Levels.")] = 1
    limit: Annotated[int, Field(ge=1, le=500, description="Entries at most.")] = 50
    max_chars: ReplyBudget = None
    project_id: ProjectId = None
    repository_id: RepositoryChoice = None


Confidence = Field(ge=0, le=1, description="0.8 and above: resolved; below 0.5: only possible.")


class DefinitionEntry(ReplyPart):
    """A definition; lines are 1-based and inclusive."""

    file_path: str = Field(validation_alias=AliasPath("file", "path"))
    symbol: str = Field(validation_alias="qualified")
    kind: str
    start_line: int
    end_line: int
    signature: str
    file_kind: str = Field(validation_alias=AliasPath("file", "kind"))
    repository_id: str
    registered: str | None = Field(default=None, description="Among ends: the line that does it.")
    body: str | None = Field(default=None, description="With body: its text.")
    body_left: int = Field(default=0, description="Lines of it that max_chars leaves out.")


class ReferenceEntry(ReplyPart):
    """A use of a name."""

    file_path: str = Field(validation_alias=AliasPath("use", "file", "path"))
    line: int = Field(validation_alias=AliasPath("use", "line"))
    text: str
    kind: Literal["call", "import", "inherit", "new", "type", "use"]
    enclosing: str | None = Field(description="The innermost definition around it.")
    file_kind: str = Field(validation_alias=AliasPath("use", "file", "kind"))
    confidence: float = Confidence
    reason: str
    definition: str | None = Field(description="path:line of what it most likely means.")


class TextEntry(ReplyPart):
    """A line with a string that equals the name."""

    file_path: str = Field(validation_alias="path")
    line: int
    text: str


class CallEntry(ReplyPart):
    """A node of a tree in depth-first order; its parent is the last one with a lower level."""

    level: int = Field(description="0 is a definition that was asked about.")
    symbol: str | None = Field(description="null: outside of any definition.")
    file_path: str = Field(validation_alias="path")
    start_line: int | None
    lines: list[int] = Field(description="Of the calls.")
    confidence: float = Confidence
    reason: str
    is_again: bool = Field(default=False, description="Its own calls are elsewhere in the tree.")


class StepEntry(ReplyPart):
    """A step of a chain of calls: the definition that it leads to, and the line that does it."""

    symbol: str = Field(validation_alias=AliasPath("target", "qualified"))
    file_path: str = Field(validation_alias=AliasPath("target", "file", "path"))
    start_line: int = Field(validation_alias=AliasPath("target", "start_line"))
    kind: Literal["call", "override", "callback", "table", "decorator"]
    line: int
    line_in: str = Field(validation_alias=AliasPath("file", "path"))
    confidence: float = Confidence
    reason: str


class ChainEntry(ReplyPart):
    """A chain of calls from a definition."""

    symbol: str
    file_path: str
    start_line: int
    steps: list[StepEntry]


class ImplementationEntry(ReplyPart):
    """A class that inherits, or a method that overrides."""

    level: int
    symbol: str | None
    kind: str | None
    file_path: str = Field(validation_alias="path")
    start_line: int
    end_line: int
    of: str
    confidence: float = Confidence
    reason: str


class OutlineEntry(ReplyPart):
    """A definition of a file; depth counts those around it."""

    symbol: str = Field(validation_alias="qualified")
    kind: str
    start_line: int
    end_line: int
    depth: int


class FileEntry(ReplyPart):
    """A file with its definitions, by line."""

    file_path: str = Field(validation_alias=AliasPath("file", "path"))
    language: str = Field(validation_alias=AliasPath("file", "language"))
    definitions: list[OutlineEntry]


class SymbolReply(TextReply, ProjectReply):
    operation: str = ""
    definitions: list[DefinitionEntry] = Field(default=[], description="Best first.")
    references: list[ReferenceEntry] = Field(
        default=[], description="By file, those of the product first, the only possible last."
    )
    same_text: list[TextEntry] = Field(
        default=[], description="references: strings that equal the name, the first."
    )
    same_text_count: int = Field(default=0, description="Lines with such a string.")
    calls: list[CallEntry] = Field(default=[], description="Callers or callees.")
    chains: list[ChainEntry] = Field(default=[], description="path: the shortest first.")
    reached: int = Field(default=0, description="path: definitions that calls get to.")
    leading: int = Field(default=0, description="path: definitions that get to the other name.")
    ends: list[DefinitionEntry] = Field(default=[], description="Of these, those without callers.")
    is_bounded: bool = Field(default=False, description="path: the search ended at its limit.")
    implementations: list[ImplementationEntry] = Field(default=[])
    files: list[FileEntry] = Field(default=[], description="outline: files that define something.")
    total: int = Field(default=0, description="Before limit and max_chars.")
    left_out: int = Field(default=0, description="Beyond limit or max_chars.")
    left_out_by_folder: dict[str, int] = Field(default={}, description="The same, by folder.")
    filtered_out: int = Field(default=0, description="By directory, kinds or tests.")
    unlikely: int = Field(default=0, description="Uses of the name that mean something else.")
    unresolved: int = Field(
        default=0, description="More uses of the name that may mean it; callees: names not found."
    )
    not_followed: int = Field(default=0, description="Definitions of a tree not expanded.")
    latency_ms: float = 0.0
    scope: ScopeReply | None = Field(default=None, description="What was asked about.")
    notice: str = Field(default="", description="Present when some files are not indexed yet.")


@TOOLSET.tool("Definitions and uses of a name", READS, operations=OPERATIONS)
async def symbol(caller: Caller, arguments: SymbolArguments) -> SymbolReply:
    """Who defines and uses a name; ask before you change it.

    - definition: where it is defined (body: with its text); of a place, what is used there.
    - references: every use. callers, callees: who calls it, what it calls.
    - path: how calls get from it to another name.
    - implementations: subclasses; of a method, what overrides it.
    - outline: what a file or directory defines.

    A confidence of 0.8 and above is sure, below 0.5 only possible.
    """
    report = await caller.app.symbols.ask(
        question_of(arguments),
        arguments.project_id,
        caller.identity,
        repository=named_repository(arguments.repository_id),
        report=caller.report_index_run,
    )
    if caller.replies == "text":
        from codebase_mcp.tools.replies.symbols import (  # noqa: PLC0415 - seldom needed
            BODY_TIMES,
            symbol_text,
        )

        times = BODY_TIMES if arguments.body else 1
        budget = caller.reply_budget(arguments.max_chars or times * caller.reply_chars)
        return SymbolReply.of_text(symbol_text(report, budget))
    reply = symbol_reply(report, arguments.max_chars)
    reply.project_id = report.project.project_id
    reply.project_source = report.project_source
    return reply


def question_of(arguments: SymbolArguments) -> SymbolQuestion:
    """The question that some arguments ask."""
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
        body=arguments.body,
        to=arguments.to,
        directory=arguments.directory,
        kinds=arguments.kinds,
        tests=arguments.tests,
    )


def symbol_reply(report: SymbolReport, max_chars: int | None) -> SymbolReply:
    """An answer for programs: at most ``limit`` entries, as many as fit."""
    name, entries, fields = _entries(report)
    references = report.facts.references
    paths: list[str] = [entry.file_path for entry in entries]
    if references is not None:
        paths = [use.use.file.path for use in references.uses]
    shown = entries[: report.question.limit]
    total = fields.setdefault("total", len(entries))
    if report.notice:
        fields["notice"] = report.notice
    if report.facts.elsewhere:
        fields["filtered_out"] = report.facts.elsewhere
    if report.same_text is not None:
        fields["same_text"] = [*map(TextEntry.model_validate, report.same_text.lines)]
        fields["same_text_count"] = report.same_text.count

    def reply(count: int) -> SymbolReply:
        folders = folders_of(Counter(paths[count:]).items(), _MOST_FOLDERS)
        if count < total:
            fields["left_out_by_folder"] = {name: number for name, (number, _) in folders.items()}
        return SymbolReply(
            operation=report.question.operation,
            left_out=total - count,
            latency_ms=round(report.latency_ms, 2),
            scope=ScopeReply.model_validate(report.scope),
            **{**fields, name: shown[:count]},
        )

    def is_too_long(count: int) -> bool:
        return max_chars is not None and len(as_text(reply(count).as_json())) > max_chars

    count = bisect_left(range(1, len(shown) + 1), True, key=is_too_long)
    if report.question.body:
        room = None if max_chars is None else max_chars - len(as_text(reply(count).as_json()))
        entries = shown[:count] if name == "definitions" else fields["definitions"]
        _add_bodies(report, entries, room)
    return reply(count)


def _add_bodies(report: SymbolReport, entries: Sequence[DefinitionEntry], room: int | None) -> None:
    """Give definitions their texts, as much as there is room for."""
    from codebase_mcp.tools.replies.rows import shared_lines  # noqa: PLC0415 - seldom needed

    bodies = [report.facts.body(d) for d in report.facts.definitions[: len(entries)]]
    counts = [*map(len, bodies)]
    if room is not None:
        costs = [[len(as_text({"": line})) for line in body] for body in bodies]
        counts = shared_lines(costs, room - _BODY_FIELDS_CHARS * len(entries))
    for entry, body, count in zip(entries, bodies, counts, strict=True):
        if count:
            entry.body = "".join(body[:count]).rstrip("\r\n")
        if count < len(body):
            entry.body_left = len(body) - count


def _entries(report: SymbolReport) -> tuple[str, list[Any], dict[str, Any]]:
    """The field that the operation fills, its entries, and further fields."""
    facts, operation, limit = report.facts, report.question.operation, report.question.limit
    definitions = {"definitions": _definitions(report, facts.definitions[:limit])}
    if operation == "references":
        assert facts.references is not None
        uses = facts.references.uses
        return "references", _references(report, uses[:limit]), {
            **definitions,
            "unlikely": facts.references.unlikely,
            "unresolved": facts.unresolved,
            "total": len(uses),
        }  # fmt: skip
    if facts.calls is not None:
        nodes = [
            entry
            for definition in facts.calls.definitions
            for entry in _tree(definition, facts.calls.calls.get(definition.key, ()))
        ]
        counts = {"unresolved": facts.unresolved, "not_followed": facts.calls.not_followed}
        return "calls", nodes, counts
    if facts.paths is not None:
        return "chains", [*map(_chain, facts.paths.chains)], {
            **definitions,
            "reached": facts.paths.reached,
            "leading": facts.paths.leading,
            "is_bounded": facts.paths.is_bounded,
            "ends": _ends(report, facts.paths),
        }  # fmt: skip
    if operation == "implementations":
        fields = {**definitions, "unresolved": facts.unresolved}
        return "implementations", [*map(_implementation, facts.implementations)], fields
    if facts.outline is not None:
        return "files", [*map(FileEntry.model_validate, facts.outline.files)], {}
    every = _definitions(report, facts.definitions)
    used = "references", _references(report, facts.used), {"definitions": every}
    return used if facts.used else ("definitions", every, {})


def _definitions(report: SymbolReport, definitions: Iterable[Definition]) -> list[DefinitionEntry]:
    repositories = {state.id: str(state.repository_id) for state in report.states}
    return [
        DefinitionEntry.made_from(
            definition,
            signature=report.facts.signature(definition),
            repository_id=repositories[definition.file.snapshot_id],
        )
        for definition in definitions
    ]


def _references(report: SymbolReport, uses: Iterable[FoundUse]) -> list[ReferenceEntry]:
    return [
        ReferenceEntry.made_from(
            match,
            text=report.facts.line(match.use.file.blob_id, match.use.line),
            kind=match.use.kind.value,
            definition=_place(match.definition),
        )
        for match in uses
    ]


def _place(definition: Definition | None) -> str | None:
    return None if definition is None else f"{definition.file.path}:{definition.start_line}"


def _tree(root: Definition, calls: Iterable[Call]) -> Iterator[CallEntry]:
    yield CallEntry.made_from(
        root,
        level=0,
        symbol=root.qualified,
        path=root.file.path,
        lines=[],
        confidence=1.0,
        reason="asked about",
    )
    yield from _below(calls, 1)


def _below(calls: Iterable[Call], level: int) -> Iterator[CallEntry]:
    for call in calls:
        yield CallEntry.made_from(
            call,
            level=level,
            symbol=call.definition.qualified if call.definition else None,
            start_line=call.definition.start_line if call.definition else None,
        )
        yield from _below(call.calls, level + 1)


def _ends(report: SymbolReport, paths: CallPaths) -> list[DefinitionEntry]:
    """Where the nearest chains begin, if no chain begins at the name in the question."""
    ends = () if paths.chains else paths.ends[: report.question.limit]
    entries = _definitions(report, ends)
    for entry, end in zip(entries, ends, strict=True):
        if line := paths.registrations.get(end.key):
            entry.registered = f"{line.file.path}:{line.number} {line.text}"
    return entries


def _chain(steps: Sequence[Step]) -> ChainEntry:
    start = steps[0].source
    return ChainEntry(
        symbol=start.qualified,
        file_path=start.file.path,
        start_line=start.start_line,
        steps=[StepEntry.made_from(step) for step in steps],
    )


def _implementation(implementation: Implementation) -> ImplementationEntry:
    definition = implementation.definition
    return ImplementationEntry.made_from(
        implementation,
        symbol=definition.qualified if definition else None,
        kind=definition.kind if definition else None,
        start_line=definition.start_line if definition else implementation.line,
        end_line=definition.end_line if definition else implementation.line,
    )
