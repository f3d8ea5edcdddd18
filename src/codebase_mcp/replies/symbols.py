"""What does a reader get of an answer about a name? Lines, the likeliest first, within a budget.

A place is a path with lines; what is in brackets after it is a confidence and its reason. Where the
reason is the same for all uses of a file, it stands once, after the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from codebase_mcp.printable import printable_line
from codebase_mcp.replies.changes import counted
from codebase_mcp.replies.paths import scope_note, shown_path

if TYPE_CHECKING:
    from codebase_mcp.app.symbols import SymbolReport
    from codebase_mcp.model import Symbol
    from codebase_mcp.symbols.calls import Call
    from codebase_mcp.symbols.definition import Definition
    from codebase_mcp.symbols.outline import FileOutline
    from codebase_mcp.symbols.references import FoundUse

_INDENT = "  "
_LINE_CHARS = 100
# From here on a call is shown without its confidence.
_SURE = 0.8
_SHOWN_DEFINITIONS = 3
# Kept free for what is left out.
_TAIL_CHARS = 80


def symbol_text(report: SymbolReport, max_chars: int) -> str:
    """The text of an answer, of at most ``max_chars`` characters."""
    notice = [printable_line(report.notice)] if report.notice else []
    lines, scope = [*notice, *_Text(report).lines()], scope_note(report.scope)
    room = max_chars - sum(len(line) + 1 for line in scope)
    for place, line in enumerate(lines):
        room -= len(line) + 1
        if room < (_TAIL_CHARS if place < len(lines) - 1 else 0) and place:
            lines[place:] = [f"… {counted(len(lines) - place, 'more line')}"]
            break
    return "\n".join([*lines, *scope])[:max_chars]


class _Text:
    """The lines of an answer."""

    def __init__(self, report: SymbolReport) -> None:
        self._report = report
        self._facts = report.facts
        self._limit = report.question.limit
        self._roots = {one.snapshot_id: one.root for one in report.states}

    def lines(self) -> Iterator[str]:
        """What was asked, and the answer."""
        operation = self._report.question.operation
        if operation == "references":
            return self._references()
        if operation == "outline":
            return self._outline()
        if operation == "implementations":
            return self._implementations()
        return self._definitions() if operation == "definition" else self._calls()

    def _definitions(self) -> Iterator[str]:
        facts = self._facts
        if facts.used:
            yield f"used at {self._subject()}:"
            for one in facts.used[: self._limit]:
                if one.definition is not None:
                    yield f"{self._definition(one.definition)} {_why(one.confidence, one.reason)}"
            return
        count = len(facts.definitions)
        if count > 1:
            yield f"{count} definitions of {self._subject()}"
        for definition in facts.definitions[: self._limit]:
            yield self._definition(definition)
        if count > self._limit:
            yield f"… {count - self._limit} more"

    def _references(self) -> Iterator[str]:
        found = self._facts.references
        assert found is not None
        kinds = ", ".join(
            f"{count} {kind}"
            for kind, count in sorted(found.kinds.items(), key=lambda one: (-one[1], one[0]))
        )
        uses = counted(len(found.uses), "use")
        yield f"{uses} of {self._subject()}" + (f": {kinds}" if kinds else "")
        yield from self._meant()
        common = max(found.kinds, key=lambda kind: found.kinds[kind], default=None)
        shown = found.uses[: self._limit]
        is_test = False
        for (snapshot_id, path), group in groupby(
            shown, key=lambda one: (one.resolved.use.snapshot_id, one.path)
        ):
            in_file = list(group)
            if in_file[0].is_test and not is_test:
                is_test = True
                yield "tests:"
            whys = {self._why(one) for one in in_file}
            reason = f" {whys.pop()}" if len(whys) == 1 else ""
            yield f"{self._path(snapshot_id, path)}{reason}"
            for one in in_file:
                kind = "" if one.kind is common else f"{one.kind} "
                line = self._facts.line(one.resolved.use.blob_id, one.line)
                around = one.resolved.enclosing
                within = f"{printable_line(around.qualified)}: " if around else ""
                after = "" if reason else f" {self._why(one)}"
                yield f"{_INDENT}{one.line} {kind}{within}{_cut(line)}{after}"
        if len(found.uses) > len(shown):
            yield f"… {counted(len(found.uses) - len(shown), 'more use')}"
        if found.unlikely:
            also = f", {found.unresolved} could not be resolved" if found.unresolved else ""
            yield f"other uses of this name: {found.unlikely} of something else{also}"
        else:
            yield from self._unresolved()

    def _why(self, one: FoundUse) -> str:
        which = ""
        if len(self._facts.definitions) > 1 and one.definition is not None:
            which = f" → {self._path(one.definition.snapshot_id, one.definition.path)}"
            which += f":{one.definition.start_line}"
        return _why(one.confidence, one.reason + which)

    def _calls(self) -> Iterator[str]:
        found = self._facts.calls
        assert found is not None
        is_up = self._report.question.operation == "callers"
        for one in found.definitions:
            calls = found.calls.get(one.key)
            if calls is None or (not calls and len(found.definitions) > 1):
                continue
            what = "called by" if is_up else "calls"
            yield f"{self._definition(one)}"
            is_open = is_up and self._facts.unresolved
            nothing = "nothing that is resolved" if is_open else "nothing that is indexed"
            yield f"{what}:" if calls else f"{what} {nothing}"
            yield from self._tree(calls, 1, one.snapshot_id, is_up=is_up)
        if not any(found.calls.values()) and len(found.definitions) > 1:
            yield f"none of the {len(found.definitions)} definitions"
        if is_up:
            yield from self._unresolved()
        elif found.unresolved:
            yield f"{counted(found.unresolved, 'other name')} called there, not found here"
        if found.not_followed:
            yield f"{found.not_followed} not followed further"

    def _tree(
        self, calls: Iterable[Call], level: int, snapshot_id: int, *, is_up: bool
    ) -> Iterator[str]:
        for one in calls:
            name = "(top level)" if one.definition is None else one.definition.qualified
            path = self._path(snapshot_id, one.path)
            numbers = ",".join(map(str, one.lines[:5])) + ("…" if len(one.lines) > 5 else "")
            where = f"{path}:{numbers}" if is_up else f"at {numbers}"
            if not is_up and one.definition is not None:
                where = f"{path}:{one.definition.start_line} {where}"
            why = "" if one.confidence >= _SURE else f" {_why(one.confidence, one.reason)}"
            again = " (above)" if one.is_again else ""
            yield f"{_INDENT * level}{printable_line(name)} {where}{why}{again}"
            yield from self._tree(one.calls, level + 1, snapshot_id, is_up=is_up)

    def _implementations(self) -> Iterator[str]:
        found = self._facts.implementations
        yield f"{counted(len(found), 'implementation')} of {self._subject()}"
        yield from self._meant()
        for one in found[: self._limit]:
            why = _why(one.confidence, one.reason)
            if one.definition is None:
                where = f"{self._path(self._facts.definitions[0].snapshot_id, one.path)}:{one.line}"
            else:
                where = self._definition(one.definition)
            yield f"{_INDENT * one.level}{where} {why}"
        if len(found) > self._limit:
            yield f"… {len(found) - self._limit} more"
        yield from self._unresolved()

    def _unresolved(self) -> Iterator[str]:
        """How many uses may belong to the answer as well."""
        if count := self._facts.unresolved:
            yield f"{counted(count, 'more use')} of this name could not be resolved"

    def _outline(self) -> Iterator[str]:
        found = self._facts.outline
        assert found is not None
        one_file = len(found.files) == 1 and found.files[0].file.path.endswith(found.path)
        if not one_file:
            yield f"{counted(len(found.files), 'file')} with definitions in {self._subject()}"
        for one in found.files[: self._limit]:
            path = self._path(one.file.snapshot_id, one.file.path)
            if one_file:
                yield f"{path} {one.file.language}, {counted(len(one.definitions), 'definition')}"
                yield from self._nested(one)
            else:
                yield f"{path}: {', '.join(map(_brief, one.definitions))}"
        if len(found.files) > self._limit:
            yield f"… {counted(len(found.files) - self._limit, 'more file')}"

    def _nested(self, one: FileOutline) -> Iterator[str]:
        for symbol in one.definitions:
            signature = self._facts.signature_at(one.file.blob_id, symbol)
            text = _cut(signature) if symbol.name in signature else printable_line(symbol.name)
            yield f"{_INDENT * symbol.depth}{_lines(symbol)} {text}"

    def _meant(self) -> Iterator[str]:
        """The definitions that an answer is about."""
        definitions = self._facts.definitions
        for one in definitions[:_SHOWN_DEFINITIONS]:
            yield f"defined {self._definition(one)}"
        if len(definitions) > _SHOWN_DEFINITIONS:
            yield f"… {counted(len(definitions) - _SHOWN_DEFINITIONS, 'more definition')}"

    def _definition(self, one: Definition) -> str:
        signature = self._facts.signature(one)
        where = f"{self._path(one.snapshot_id, one.path)}:{_lines(one)}"
        if one.name not in signature:
            return f"{where} {one.kind} {printable_line(one.qualified)}"
        member = f" {printable_line(one.qualified)}" if one.container else ""
        return f"{where} {one.kind}{member}: {_cut(signature)}"

    def _path(self, snapshot_id: int, path: str) -> str:
        return shown_path(self._report.scope, self._roots[snapshot_id], path)

    def _subject(self) -> str:
        return printable_line(self._report.question.subject)


def _why(confidence: float, reason: str) -> str:
    return f"({confidence:.2f} {printable_line(reason)})"


def _lines(one: Definition | Symbol) -> str:
    first, last = one.start_line, one.end_line
    return str(first) if first == last else f"{first}-{last}"


def _brief(one: Symbol) -> str:
    return f"{printable_line(one.name)} {_lines(one)}"


def _cut(line: str) -> str:
    line = printable_line(" ".join(line.split()))
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"
