"""The reply of the tool ``symbol``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from codebase_mcp.tools.fields import ProjectReply, ScopeReply, scope_reply
from codebase_mcp.tools.reply import as_text
from codebase_mcp.tools.search_reply import TextReply

if TYPE_CHECKING:
    from codebase_mcp.app.symbols import SymbolReport
    from codebase_mcp.symbols.answer import FileOutline
    from codebase_mcp.symbols.definition import Definition, FoundUse
    from codebase_mcp.symbols.hierarchy import Call, Implementation

Confidence = Field(ge=0, le=1, description="0.8 and above: resolved; below 0.5: only possible.")


class DefinitionEntry(BaseModel):
    """A definition; lines are 1-based and inclusive."""

    file_path: str
    symbol: str
    kind: str
    start_line: int
    end_line: int
    signature: str
    file_kind: str
    repository_id: str


class ReferenceEntry(BaseModel):
    """A use of a name."""

    file_path: str
    line: int
    text: str
    kind: Literal["call", "import", "inherit", "new", "type", "use"]
    enclosing: str | None = Field(description="The innermost definition around it.")
    file_kind: str
    confidence: float = Confidence
    reason: str
    definition: str | None = Field(description="path:line of what it most likely means.")


class CallEntry(BaseModel):
    """A node of a tree in depth-first order; its parent is the last one with a lower level."""

    level: int = Field(description="0 is a definition that was asked about.")
    symbol: str | None = Field(description="null: outside of any definition.")
    file_path: str
    start_line: int | None
    lines: list[int] = Field(description="Of the calls.")
    confidence: float = Confidence
    reason: str
    is_again: bool = Field(default=False, description="Its own calls are elsewhere in the tree.")


class ImplementationEntry(BaseModel):
    """A class that inherits, or a method that overrides."""

    level: int
    symbol: str | None
    kind: str | None
    file_path: str
    start_line: int
    end_line: int
    of: str
    confidence: float = Confidence
    reason: str


class OutlineEntry(BaseModel):
    """A definition of a file; depth counts those around it."""

    symbol: str
    kind: str
    start_line: int
    end_line: int
    depth: int


class FileEntry(BaseModel):
    """A file with its definitions, by line."""

    file_path: str
    language: str
    definitions: list[OutlineEntry]


class SymbolReply(TextReply, ProjectReply):
    operation: str = ""
    definitions: list[DefinitionEntry] = Field(default=[], description="Best first.")
    references: list[ReferenceEntry] = Field(default=[], description="By file, tests last.")
    calls: list[CallEntry] = Field(default=[], description="Callers or callees.")
    implementations: list[ImplementationEntry] = Field(default=[])
    files: list[FileEntry] = Field(default=[], description="outline: files that define something.")
    total: int = Field(default=0, description="Before limit and max_chars.")
    left_out: int = Field(default=0, description="Beyond limit or max_chars.")
    unlikely: int = Field(default=0, description="Uses of the name that mean something else.")
    unresolved: int = Field(
        default=0, description="More uses of the name that may mean it; callees: names not found."
    )
    not_followed: int = Field(default=0, description="Definitions of a tree not expanded.")
    latency_ms: float = 0.0
    scope: ScopeReply | None = Field(default=None, description="What was asked about.")
    notice: str = Field(default="", description="Present when some files are not indexed yet.")


def symbol_reply(report: SymbolReport, max_chars: int | None) -> SymbolReply:
    """An answer for programs: at most ``limit`` entries, as many as fit."""
    name, entries, fields = _entries(report)
    shown = entries[: report.question.limit]
    total = fields.setdefault("total", len(entries))
    if report.notice:
        fields["notice"] = report.notice

    def reply(count: int) -> SymbolReply:
        return SymbolReply(
            operation=report.question.operation,
            left_out=total - count,
            latency_ms=round(report.latency_ms, 2),
            scope=scope_reply(report.scope),
            **{**fields, name: shown[:count]},
        )

    def is_too_long(count: int) -> bool:
        return max_chars is not None and len(as_text(reply(count).as_json())) > max_chars

    count = bisect_left(range(1, len(shown) + 1), True, key=is_too_long)
    return reply(count)


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
    if operation == "implementations":
        fields = {**definitions, "unresolved": facts.unresolved}
        return "implementations", [*map(_implementation, facts.implementations)], fields
    if facts.outline is not None:
        return "files", [*map(_file, facts.outline.files)], {}
    every = _definitions(report, facts.definitions)
    if facts.used:
        return "references", _references(report, facts.used), {"definitions": every}
    return "definitions", every, {}


def _definitions(report: SymbolReport, definitions: Iterable[Definition]) -> list[DefinitionEntry]:
    repositories = {state.snapshot_id: str(state.repository_id) for state in report.states}
    return [
        DefinitionEntry(
            file_path=definition.file.path,
            symbol=definition.qualified,
            kind=definition.kind,
            start_line=definition.start_line,
            end_line=definition.end_line,
            signature=report.facts.signature(definition),
            file_kind=definition.file.kind,
            repository_id=repositories[definition.file.snapshot_id],
        )
        for definition in definitions
    ]


def _references(report: SymbolReport, uses: Iterable[FoundUse]) -> list[ReferenceEntry]:
    return [
        ReferenceEntry(
            file_path=match.use.file.path,
            line=match.use.line,
            text=report.facts.line(match.use.file.blob_id, match.use.line),
            kind=match.use.kind.value,
            enclosing=match.enclosing,
            file_kind=match.use.file.kind,
            confidence=match.confidence,
            reason=match.reason,
            definition=_place(match.definition),
        )
        for match in uses
    ]


def _place(definition: Definition | None) -> str | None:
    return None if definition is None else f"{definition.file.path}:{definition.start_line}"


def _tree(root: Definition, calls: Iterable[Call]) -> Iterator[CallEntry]:
    yield CallEntry(
        level=0,
        symbol=root.qualified,
        file_path=root.file.path,
        start_line=root.start_line,
        lines=[],
        confidence=1.0,
        reason="asked about",
    )
    yield from _below(calls, 1)


def _below(calls: Iterable[Call], level: int) -> Iterator[CallEntry]:
    for call in calls:
        entry = CallEntry(
            level=level,
            symbol=call.definition.qualified if call.definition else None,
            file_path=call.path,
            start_line=call.definition.start_line if call.definition else None,
            lines=call.lines,
            confidence=call.confidence,
            reason=call.reason,
        )
        if call.is_again:
            entry.is_again = True
        yield entry
        yield from _below(call.calls, level + 1)


def _implementation(found: Implementation) -> ImplementationEntry:
    definition = found.definition
    return ImplementationEntry(
        level=found.level,
        symbol=definition.qualified if definition else None,
        kind=definition.kind if definition else None,
        file_path=found.path,
        start_line=definition.start_line if definition else found.line,
        end_line=definition.end_line if definition else found.line,
        of=found.of,
        confidence=found.confidence,
        reason=found.reason,
    )


def _file(outline: FileOutline) -> FileEntry:
    return FileEntry(
        file_path=outline.file.path,
        language=outline.file.language,
        definitions=[
            OutlineEntry(
                symbol=symbol.qualified,
                kind=symbol.kind,
                start_line=symbol.start_line,
                end_line=symbol.end_line,
                depth=symbol.depth,
            )
            for symbol in outline.definitions
        ],
    )
