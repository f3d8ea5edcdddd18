"""What does the tool ``symbol`` reply?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, PrivateAttr

from codebase_mcp.tools.fields import ProjectReply, ScopeReply, scope_reply
from codebase_mcp.tools.reply import as_text

if TYPE_CHECKING:
    from codebase_mcp.app.symbols import SymbolReport
    from codebase_mcp.symbols.calls import Call
    from codebase_mcp.symbols.definition import Definition
    from codebase_mcp.symbols.references import FoundUse

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


class SymbolReply(ProjectReply):
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

    _text: str = PrivateAttr("")

    def text_lines(self) -> Iterator[str]:
        """The text that was made for reading."""
        yield self._text

    @classmethod
    def of_text(cls, text: str) -> SymbolReply:
        """A reply that is this text."""
        reply = cls()
        reply._text = text
        return reply


def symbol_reply(report: SymbolReport, max_chars: int | None) -> SymbolReply:
    """An answer for programs: at most ``limit`` entries, as many as fit."""
    name, entries, counts = _entries(report)
    shown = entries[: report.question.limit]
    total = counts.setdefault("total", len(entries))

    def reply(count: int) -> SymbolReply:
        fields: dict[str, Any] = {**counts, name: shown[:count]}
        if report.notice:
            fields["notice"] = report.notice
        return SymbolReply(
            operation=report.question.operation,
            left_out=total - count,
            latency_ms=round(report.latency_ms, 2),
            scope=scope_reply(report.scope),
            **fields,
        )

    if max_chars is None or _chars(reply(len(shown))) <= max_chars:
        return reply(len(shown))
    low, high = 0, len(shown)
    while low < high:  # the most entries that fit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _chars(reply(middle)) <= max_chars else (low, middle - 1)
    return reply(low)


def _chars(reply: SymbolReply) -> int:
    return len(as_text(reply.as_json()))


def _entries(report: SymbolReport) -> tuple[str, list[Any], dict[str, Any]]:
    """The field that an operation fills, its entries, and the fields beside it."""
    facts = report.facts
    if report.question.operation == "references":
        assert facts.references is not None
        beside: dict[str, Any] = {
            "definitions": _definitions(report, facts.definitions[: report.question.limit]),
            "unlikely": facts.references.unlikely,
            "unresolved": facts.unresolved,
        }
        uses = facts.references.uses
        beside["total"] = len(uses)
        return "references", _references(report, uses[: report.question.limit]), beside
    if facts.calls is not None:
        beside = {"unresolved": facts.unresolved, "not_followed": facts.calls.not_followed}
        nodes = [entry for one in facts.calls.definitions
                 for entry in _tree(one, facts.calls.calls.get(one.key, ()))]  # fmt: skip
        return "calls", nodes, beside
    if report.question.operation == "implementations":
        beside = {
            "definitions": _definitions(report, facts.definitions[: report.question.limit]),
            "unresolved": facts.unresolved,
        }
        return "implementations", _implementations(report), beside
    if facts.outline is not None:
        return "files", _files(report), {}
    if facts.used:
        beside = {"definitions": _definitions(report, facts.definitions)}
        return "references", _references(report, facts.used), beside
    return "definitions", _definitions(report, facts.definitions), {}


def _definitions(report: SymbolReport, found: Iterable[Definition]) -> list[DefinitionEntry]:
    repositories = {one.snapshot_id: str(one.repository_id) for one in report.states}
    return [
        DefinitionEntry(
            file_path=one.path,
            symbol=one.qualified,
            kind=one.kind,
            start_line=one.start_line,
            end_line=one.end_line,
            signature=report.facts.signature(one),
            file_kind=one.file_kind,
            repository_id=repositories[one.snapshot_id],
        )
        for one in found
    ]


def _references(report: SymbolReport, uses: Iterable[FoundUse]) -> list[ReferenceEntry]:
    return [
        ReferenceEntry(
            file_path=one.path,
            line=one.line,
            text=report.facts.line(one.resolved.use.blob_id, one.line),
            kind=one.kind.value,
            enclosing=one.resolved.enclosing.qualified if one.resolved.enclosing else None,
            file_kind=one.resolved.use.file_kind,
            confidence=one.confidence,
            reason=one.reason,
            definition=_place(one.definition),
        )
        for one in uses
    ]


def _place(one: Definition | None) -> str | None:
    return None if one is None else f"{one.path}:{one.start_line}"


def _tree(root: Definition, calls: Iterable[Call]) -> Iterator[CallEntry]:
    yield CallEntry(
        level=0,
        symbol=root.qualified,
        file_path=root.path,
        start_line=root.start_line,
        lines=[],
        confidence=1.0,
        reason="asked about",
    )
    yield from _below(calls, 1)


def _below(calls: Iterable[Call], level: int) -> Iterator[CallEntry]:
    for one in calls:
        entry = CallEntry(
            level=level,
            symbol=one.definition.qualified if one.definition else None,
            file_path=one.path,
            start_line=one.definition.start_line if one.definition else None,
            lines=one.lines,
            confidence=one.confidence,
            reason=one.reason,
        )
        if one.is_again:
            entry.is_again = True
        yield entry
        yield from _below(one.calls, level + 1)


def _implementations(report: SymbolReport) -> list[ImplementationEntry]:
    return [
        ImplementationEntry(
            level=one.level,
            symbol=one.definition.qualified if one.definition else None,
            kind=one.definition.kind if one.definition else None,
            file_path=one.path,
            start_line=one.definition.start_line if one.definition else one.line,
            end_line=one.definition.end_line if one.definition else one.line,
            of=one.of,
            confidence=one.confidence,
            reason=one.reason,
        )
        for one in report.facts.implementations
    ]


def _files(report: SymbolReport) -> list[FileEntry]:
    assert report.facts.outline is not None
    return [
        FileEntry(
            file_path=one.file.path,
            language=one.file.language,
            definitions=[
                OutlineEntry(
                    symbol=symbol.qualified,
                    kind=symbol.kind,
                    start_line=symbol.start_line,
                    end_line=symbol.end_line,
                    depth=symbol.depth,
                )
                for symbol in one.definitions
            ],
        )
        for one in report.facts.outline.files
    ]
