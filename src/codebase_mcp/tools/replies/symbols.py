"""The text of an answer about a name: lines, the likeliest first, within a budget.

After a path with lines, a confidence and its reason stand in brackets; a reason that all uses of a
file have in common stands once, after the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from codebase_mcp.printable import printable_line
from codebase_mcp.tools.text import counted, scope_note, shown_path, size_of

if TYPE_CHECKING:
    from codebase_mcp.app.symbols import SymbolReport
    from codebase_mcp.model import Symbol
    from codebase_mcp.symbols.definition import Definition, FoundUse
    from codebase_mcp.symbols.hierarchy import Call

_INDENT = "  "
_LINE_CHARS = 100
# A call with this confidence or more is shown without it.
_SURE = 0.8
_SHOWN_DEFINITIONS = 3
# Kept free for the number of lines that are left out.
_TAIL_CHARS = 80


def symbol_text(report: SymbolReport, max_chars: int) -> str:
    """The text of an answer, of at most ``max_chars`` characters."""
    notice = [printable_line(report.notice)] if report.notice else []
    lines, scope = [*notice, *_Text(report).lines()], scope_note(report.scope)
    room = max_chars - size_of(scope)
    for index, line in enumerate(lines):
        room -= len(line) + 1
        if room < (_TAIL_CHARS if index < len(lines) - 1 else 0) and index:
            lines[index:] = [f"… {counted(len(lines) - index, 'more line')}"]
            break
    return "\n".join([*lines, *scope])[:max_chars]


class _Text:
    """The lines of an answer."""

    def __init__(self, report: SymbolReport) -> None:
        self._report = report
        self._facts = report.facts
        self._limit = report.question.limit
        self._roots = {state.snapshot_id: state.root for state in report.states}
        self._subject = printable_line(report.question.subject)

    def lines(self) -> Iterator[str]:
        """The answer to the question's operation."""
        match self._report.question.operation:
            case "references":
                return self._references()
            case "outline":
                return self._outline()
            case "implementations":
                return self._implementations()
            case "definition":
                return self._definitions()
            case "callers" | "callees":
                return self._calls()

    def _definitions(self) -> Iterator[str]:
        facts = self._facts
        if facts.used:
            yield f"used at {self._subject}:"
            for use in facts.used[: self._limit]:
                if use.definition is not None:
                    yield f"{self._definition(use.definition)} {_why(use.confidence, use.reason)}"
            return
        count = len(facts.definitions)
        if count > 1:
            yield f"{count} definitions of {self._subject}"
        yield from map(self._definition, facts.definitions[: self._limit])
        if count > self._limit:
            yield f"… {count - self._limit} more"

    def _references(self) -> Iterator[str]:
        references = self._facts.references
        assert references is not None
        by_count = sorted(references.kinds.items(), key=lambda kind: (-kind[1], kind[0]))
        kinds = ", ".join(f"{count} {kind}" for kind, count in by_count)
        uses = counted(len(references.uses), "use")
        yield f"{uses} of {self._subject}" + (f": {kinds}" if kinds else "")
        yield from self._meant()
        common = max(references.kinds, key=lambda kind: references.kinds[kind], default=None)
        shown = references.uses[: self._limit]
        is_test = False
        for (snapshot_id, path), group in groupby(
            shown, key=lambda use: (use.use.file.snapshot_id, use.use.file.path)
        ):
            in_file = list(group)
            if in_file[0].use.file.is_test and not is_test:
                is_test = True
                yield "tests:"
            reasons = {self._reason(use) for use in in_file}
            reason = f" {reasons.pop()}" if len(reasons) == 1 else ""
            yield f"{self._path(snapshot_id, path)}{reason}"
            for use in in_file:
                kind = "" if use.use.kind is common else f"{use.use.kind} "
                line = self._facts.line(use.use.file.blob_id, use.use.line)
                within = f"{printable_line(use.enclosing)}: " if use.enclosing else ""
                after = "" if reason else f" {self._reason(use)}"
                yield f"{_INDENT}{use.use.line} {kind}{within}{_cut(line)}{after}"
        if len(references.uses) > len(shown):
            yield f"… {counted(len(references.uses) - len(shown), 'more use')}"
        yield from self._same_text()
        if references.unlikely:
            unresolved = self._facts.unresolved
            also = f", {unresolved} could not be resolved" if unresolved else ""
            yield f"other uses of this name: {references.unlikely} of something else{also}"
        else:
            yield from self._unresolved()

    def _same_text(self) -> Iterator[str]:
        """The strings that equal the name, in a line."""
        same = self._report.same_text
        if same is None or not same.count:
            return
        files = groupby(same.lines, key=lambda line: (line.snapshot_id, line.path))
        shown = (
            f"{self._path(*file)}:{','.join(str(line.line) for line in lines)}"
            for file, lines in files
        )
        more = f", … {same.count - len(same.lines)} more" if same.count > len(same.lines) else ""
        yield f"same text: {same.count} in {', '.join(shown)}{more}"

    def _reason(self, use: FoundUse) -> str:
        """The confidence and reason of a use, with its definition where there are several."""
        which = ""
        if len(self._facts.definitions) > 1 and use.definition is not None:
            which = f" → {self._path(use.definition.file.snapshot_id, use.definition.file.path)}"
            which += f":{use.definition.start_line}"
        return _why(use.confidence, use.reason + which)

    def _calls(self) -> Iterator[str]:
        tree = self._facts.calls
        assert tree is not None
        is_up = self._report.question.operation == "callers"
        what = "called by" if is_up else "calls"
        is_open = is_up and self._facts.unresolved
        nothing = "nothing that is resolved" if is_open else "nothing that is indexed"
        for definition in tree.definitions:
            calls = tree.calls.get(definition.key)
            if calls is None or (not calls and len(tree.definitions) > 1):
                continue
            yield self._definition(definition)
            yield f"{what}:" if calls else f"{what} {nothing}"
            yield from self._tree(calls, 1, definition.file.snapshot_id, is_up=is_up)
        if not any(tree.calls.values()) and len(tree.definitions) > 1:
            yield f"none of the {len(tree.definitions)} definitions"
        if is_up:
            yield from self._unresolved()
        elif tree.unresolved:
            yield f"{counted(tree.unresolved, 'other name')} called there, not found here"
        if tree.not_followed:
            yield f"{tree.not_followed} not followed further"

    def _tree(
        self, calls: Iterable[Call], level: int, snapshot_id: int, *, is_up: bool
    ) -> Iterator[str]:
        for call in calls:
            name = "(top level)" if call.definition is None else call.definition.qualified
            path = self._path(snapshot_id, call.path)
            numbers = ",".join(map(str, call.lines[:5])) + ("…" if len(call.lines) > 5 else "")
            where = f"{path}:{numbers}" if is_up else f"at {numbers}"
            if not is_up and call.definition is not None:
                where = f"{path}:{call.definition.start_line} {where}"
            why = "" if call.confidence >= _SURE else f" {_why(call.confidence, call.reason)}"
            again = " (above)" if call.is_again else ""
            yield f"{_INDENT * level}{printable_line(name)} {where}{why}{again}"
            yield from self._tree(call.calls, level + 1, snapshot_id, is_up=is_up)

    def _implementations(self) -> Iterator[str]:
        implementations = self._facts.implementations
        yield f"{counted(len(implementations), 'implementation')} of {self._subject}"
        yield from self._meant()
        for implementation in implementations[: self._limit]:
            if implementation.definition is None:
                snapshot_id = self._facts.definitions[0].file.snapshot_id
                where = f"{self._path(snapshot_id, implementation.path)}:{implementation.line}"
            else:
                where = self._definition(implementation.definition)
            why = _why(implementation.confidence, implementation.reason)
            yield f"{_INDENT * implementation.level}{where} {why}"
        if len(implementations) > self._limit:
            yield f"… {len(implementations) - self._limit} more"
        yield from self._unresolved()

    def _unresolved(self) -> Iterator[str]:
        """The number of uses that may belong to the answer as well."""
        if count := self._facts.unresolved:
            yield f"{counted(count, 'more use')} of this name could not be resolved"

    def _outline(self) -> Iterator[str]:
        outline = self._facts.outline
        assert outline is not None
        files = outline.files
        is_file = len(files) == 1 and files[0].file.path.endswith(outline.path)
        if not is_file:
            yield f"{counted(len(files), 'file')} with definitions in {self._subject}"
        for in_file in files[: self._limit]:
            path = self._path(in_file.file.snapshot_id, in_file.file.path)
            symbols = in_file.definitions
            if is_file:
                yield f"{path} {in_file.file.language}, {counted(len(symbols), 'definition')}"
                for symbol in symbols:
                    signature = self._facts.signature_at(in_file.file.blob_id, symbol)
                    has_name = symbol.name in signature
                    text = _cut(signature) if has_name else printable_line(symbol.name)
                    yield f"{_INDENT * symbol.depth}{_lines(symbol)} {text}"
            else:
                brief = (f"{printable_line(symbol.name)} {_lines(symbol)}" for symbol in symbols)
                yield f"{path}: {', '.join(brief)}"
        if len(files) > self._limit:
            yield f"… {counted(len(files) - self._limit, 'more file')}"

    def _meant(self) -> Iterator[str]:
        """The definitions that an answer is about."""
        definitions = self._facts.definitions
        for definition in definitions[:_SHOWN_DEFINITIONS]:
            yield f"defined {self._definition(definition)}"
        if len(definitions) > _SHOWN_DEFINITIONS:
            yield f"… {counted(len(definitions) - _SHOWN_DEFINITIONS, 'more definition')}"

    def _definition(self, definition: Definition) -> str:
        """The path, lines, kind and signature of a definition."""
        signature, name = self._facts.signature(definition), printable_line(definition.qualified)
        path = self._path(definition.file.snapshot_id, definition.file.path)
        where = f"{path}:{_lines(definition)} {definition.kind}"
        if definition.name not in signature:
            return f"{where} {name}"
        member = f" {name}" if definition.container else ""
        return f"{where}{member}: {_cut(signature)}"

    def _path(self, snapshot_id: int, path: str) -> str:
        return shown_path(self._report.scope, self._roots[snapshot_id], path)


def _why(confidence: float, reason: str) -> str:
    return f"({confidence:.2f} {printable_line(reason)})"


def _lines(symbol: Symbol) -> str:
    first, last = symbol.start_line, symbol.end_line
    return str(first) if first == last else f"{first}-{last}"


def _cut(line: str) -> str:
    line = printable_line(" ".join(line.split()))
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"
