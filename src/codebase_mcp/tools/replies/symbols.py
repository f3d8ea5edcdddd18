"""The text of an answer about a name: lines, the likeliest first, within a budget.

An entry below 0.8 has its confidence and reason in brackets; where all uses of a file share them,
they stand once, after the path.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from codebase_mcp.printable import printable, printable_line
from codebase_mcp.symbols.candidates import LIKELY, SURE
from codebase_mcp.tools.replies.rows import Row, fitted, shared_lines
from codebase_mcp.tools.text import KIND_GROUPS, counted, scope_note, shown_path, size_of

if TYPE_CHECKING:
    from codebase_mcp.app.symbols import SymbolReport
    from codebase_mcp.model import ReferenceKind, Symbol
    from codebase_mcp.symbols.answer import FileOutline
    from codebase_mcp.symbols.definition import Definition, DefinitionKey, File, FoundUse
    from codebase_mcp.symbols.hierarchy import Call
    from codebase_mcp.symbols.paths import CallPaths
    from codebase_mcp.symbols.references import References
    from codebase_mcp.symbols.steps import Step

_LINE_CHARS = 100
_SHOWN_DEFINITIONS = 3
_SHOWN_LINES = 8
_SHOWN_ENDS = 5
_BODY_LINE_CHARS = 160
# With less room for each, further definitions have a line instead of their text.
_LEAST_BODY_CHARS = 400
_GAP_CHARS = 32
_GROUPS = {kind: "more" if group == "code" else group for kind, group in KIND_GROUPS.items()}


# Who asks for the text of a definition wants it whole: its reply may be this many times as long.
BODY_TIMES = 3


def symbol_text(report: SymbolReport, max_chars: int) -> str:
    """The text of an answer, of at most ``max_chars`` characters."""
    notice = [printable_line(report.notice)] if report.notice else []
    scope = scope_note(report.scope)
    lines = [*notice, *_Text(report, max_chars - size_of([*notice, *scope])).lines(), *scope]
    text = "\n".join(lines)
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


class _Text:
    """The lines of an answer, in some room."""

    def __init__(self, report: SymbolReport, room: int) -> None:
        self._report = report
        self._room = room
        self._reasons: set[str] = set()
        self._facts = report.facts
        self._limit = report.question.limit
        self._roots = {state.id: state.root for state in report.states}
        self._subject = printable_line(report.question.subject)

    def lines(self) -> list[str]:
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
            case "path":
                return self._chains()

    def _fitted(
        self, head: Iterable[str], rows: Iterable[Row], tail: Iterable[str] = ()
    ) -> list[str]:
        """Some lines, the rows between them that have room, and how many a filter leaves out."""
        before, after = list(head), list(tail)
        if count := self._facts.elsewhere:
            after.append(f"left out by the filters: {count}")
        room = self._room - size_of([*before, *after])
        return [*before, *fitted(list(rows), room, self._limit), *after]

    def _definitions(self) -> list[str]:
        facts = self._facts
        if self._report.question.body:
            return self._bodies()
        if facts.used:
            rows = [
                self._row(0, d.file, f"{self._definition(d)} {_why(use.confidence, use.reason)}")
                for use in facts.used
                if (d := use.definition) is not None
            ]
            return self._fitted(self._used_at(), rows)
        count = len(facts.definitions)
        head = [f"{count} definitions of {self._subject}"] if count != 1 else []
        return self._fitted(
            head, (self._row(0, d.file, self._definition(d)) for d in facts.definitions)
        )

    def _used_at(self) -> list[str]:
        """The heading of what a place uses."""
        around = next((use.enclosing for use in self._facts.used), None)
        within = f" in {printable_line(around)}" if around else ""
        return [f"used at {self._subject}{within}:"] if self._facts.used else []

    def _bodies(self) -> list[str]:
        """Definitions with their texts, which share the room; those without room in a line each."""
        facts = self._facts
        definitions = facts.definitions[: self._limit]
        head = self._used_at()
        if not facts.used and len(facts.definitions) != 1:
            head = [f"{len(facts.definitions)} definitions of {self._subject}"]
        count = max(1, self._room // _LEAST_BODY_CHARS)
        others = (self._row(0, d.file, self._definition(d)) for d in facts.definitions[count:])
        room = self._room
        if len(facts.definitions) > count:
            self._room //= 4
        rest = self._fitted([], others)
        headings = [f"{self._briefly(d)} {d.kind}" for d in definitions[:count]]
        room -= size_of([*head, *headings, *rest]) + _GAP_CHARS * len(headings)
        bodies = [[*self._numbered(definition)] for definition in definitions[:count]]
        counts = shared_lines([[len(line) + 1 for line in body] for body in bodies], room)
        lines = head
        for d, heading, body, shown in zip(definitions, headings, bodies, counts, strict=False):
            lines += [heading, *body[:shown]]
            if shown < len(body):
                left = f"{d.start_line + shown}-{d.end_line}"
                lines.append(f" …   [{counted(len(body) - shown, 'line')}: {left}]")
        return [*lines, *rest]

    def _numbered(self, definition: Definition) -> Iterator[str]:
        """The lines of a definition, each after its number."""
        for number, line in enumerate(self._facts.body(definition), definition.start_line):
            text = printable(line.rstrip())
            cut = text if len(text) <= _BODY_LINE_CHARS else text[:_BODY_LINE_CHARS] + "…"
            yield f"{number}  {cut}".rstrip()

    def _references(self) -> list[str]:
        references = self._facts.references
        assert references is not None
        by_count = sorted(references.kinds.items(), key=lambda kind: (-kind[1], kind[0]))
        kinds = ", ".join(f"{count} {kind}" for kind, count in by_count)
        uses = counted(len(references.uses), "use")
        head = [f"{uses} of {self._subject}" + (f": {kinds}" if kinds else "")]
        possible = sum(use.confidence < LIKELY for use in references.uses)
        if 0 < possible < len(references.uses):
            head[0] += f"; {possible} only possible"
        head += self._meant()
        tail = list(self._unresolved())
        if references.unlikely:
            unresolved = self._facts.unresolved
            also = f", {unresolved} could not be resolved" if unresolved else ""
            tail = [f"other uses of this name: {references.unlikely} of something else{also}"]
        tail = [*self._same_text(), *tail]
        if len(references.uses) <= self._limit:
            rows = list(self._uses(references, with_text=True))
            if size_of(map(str, rows)) <= self._room - size_of([*head, *tail]):
                return self._fitted(head, rows, tail)
            self._reasons.clear()
        return self._fitted(head, self._uses(references, with_text=False), tail)

    def _uses(self, references: References, *, with_text: bool) -> Iterator[Row]:
        """The uses by file and definition, with their text or with the numbers of lines alone."""
        common = max(references.kinds, key=lambda kind: references.kinds[kind], default=None)
        by_file: dict[File, list[FoundUse]] = {}
        for use in references.uses:
            by_file.setdefault(use.use.file, []).append(use)
        has_other = any(not file.is_test for file in by_file)
        is_test = False
        for file, uses in sorted(by_file.items(), key=lambda item: item[0].rank):
            if file.is_test and not is_test and has_other:
                is_test = True
                yield Row(-1, "tests:")
            is_same = len({_meaning_of(use) for use in uses}) == 1
            shared = self._reason(uses[0]) if is_same else ""
            yield Row(0, self._path(file.snapshot_id, file.path) + shared)
            groups: dict[tuple[object, ...], list[FoundUse]] = {}
            for use in sorted(uses, key=lambda use: (-use.confidence, use.use.line)):
                groups.setdefault((use.around[-1:], *_meaning_of(use)), []).append(use)
            for group in groups.values():
                within = group[0].around[-1] if group[0].around else None
                reason = "" if is_same else self._reason(group[0])
                if with_text:
                    yield from self._with_texts(file, within, group, reason)
                else:
                    text = f"{_heading(within)}{_numbers(group, common)}{reason}"
                    yield self._row(1, file, text, group[0].confidence, len(group))

    def _with_texts(
        self, file: File, within: Symbol | None, group: Sequence[FoundUse], reason: str
    ) -> Iterator[Row]:
        """The different lines of a definition, each with its numbers and its text."""
        same: dict[str, dict[int, None]] = {}
        for use in group:
            text = _cut(self._facts.line(file.blob_id, use.use.line))
            same.setdefault(text, {})[use.use.line] = None
        heading = _heading(within)
        lines = [f"{', '.join(map(str, numbers))}  {text}" for text, numbers in same.items()]
        if heading and len(lines) > 1:
            yield self._row(1, file, heading.rstrip() + reason, group[0].confidence, 0)
            heading = reason = ""
            yield from (self._row(2, file, line, group[0].confidence) for line in lines)
        else:
            for line in lines:
                yield self._row(1, file, heading + line + reason, group[0].confidence)

    def _row(
        self, level: int, file: File, text: str, confidence: float = 1.0, count: int = 1
    ) -> Row:
        """A row of entries in a file; entries that are only possible are shown last."""
        group = "only possible" if confidence < LIKELY else _GROUPS[file.kind]
        rank = (confidence < LIKELY, file.rank, level, confidence < SURE)
        return Row(level, text, rank, self._path(file.snapshot_id, file.path), group, count)

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
        """What a use means where there are several definitions; if it is not sure, why."""
        definition, which = use.definition, ""
        if len(self._facts.definitions) > 1 and definition is not None:
            which = f" → {self._name_of(definition, use.use.file)}"
        return which + self._doubt(use.confidence, use.reason)

    def _doubt(self, confidence: float, reason: str) -> str:
        """The confidence of an entry that is not sure; each reason is given once."""
        if confidence >= SURE:
            return ""
        is_said = not reason or reason in self._reasons
        why = f"({confidence:.2f})" if is_said else _why(confidence, reason)
        self._reasons.add(reason)
        return f" {why}"

    def _name_of(self, definition: Definition, file: File) -> str:
        """The name that tells a definition from the others of the answer, or where it is.

        It is named in a line about ``file``.
        """
        same = [d for d in self._facts.definitions if d.qualified == definition.qualified]
        if len(same) < 2:
            return printable_line(definition.qualified)
        if definition.file == file:
            return f"line {definition.start_line}"
        path = self._path(definition.file.snapshot_id, definition.file.path)
        return f"{path}:{definition.start_line}"

    def _calls(self) -> list[str]:
        tree = self._facts.calls
        assert tree is not None
        is_up = self._report.question.operation == "callers"
        what = "called by" if is_up else "calls"
        is_open = is_up and self._facts.unresolved
        nothing = "nothing that is resolved" if is_open else "nothing that is indexed"
        rows: list[Row] = []
        head: list[str] = []
        for definition in tree.definitions:
            calls = tree.calls.get(definition.key)
            if len(tree.definitions) == 1:
                head += [self._definition(definition), f"{what}:" if calls else f"{what} {nothing}"]
            elif calls:
                rows.append(Row(0, f"{self._briefly(definition)} {what}:"))
            rows += self._tree(calls or (), 1, is_up=is_up)
        if not rows and len(tree.definitions) > 1:
            head.append(f"none of the {len(tree.definitions)} definitions")
        tail: list[str] = []
        if is_up:
            tail += self._unresolved()
        elif tree.unresolved:
            tail.append(f"{counted(tree.unresolved, 'other name')} called there, not found here")
        if tree.not_followed:
            tail.append(f"{tree.not_followed} not followed further")
        return self._fitted(head, rows, tail)

    def _tree(self, calls: Iterable[Call], level: int, *, is_up: bool) -> Iterator[Row]:
        for call in calls:
            name = "(top level)" if call.definition is None else call.definition.qualified
            path = self._path(call.file.snapshot_id, call.path)
            numbers = ",".join(map(str, call.lines[:5])) + ("…" if len(call.lines) > 5 else "")
            where = f"{path}:{numbers}" if is_up else f"at {numbers}"
            if not is_up and call.definition is not None:
                where = f"{path}:{call.definition.start_line} {where}"
            again = " (above)" if call.is_again else ""
            doubt = self._doubt(call.confidence, call.reason)
            text = f"{printable_line(name)} {where}{doubt}{again}"
            yield self._row(level, call.file, text, call.confidence)
            yield from self._tree(call.calls, level + 1, is_up=is_up)

    def _chains(self) -> list[str]:
        paths, goal = self._facts.paths, printable_line(self._report.question.to_subject)
        assert paths is not None
        narrow = "" if paths.chains else " A qualified name or a directory narrows it."
        bounded = [f"The search was cut short.{narrow}"] if paths.is_bounded else []
        rows: list[Row] = []
        if not paths.chains:
            head = [
                f"no chain of calls from {self._subject} to {goal}",
                f"{self._subject} reaches {counted(paths.reached, 'definition')}, {goal} is "
                f"reached from {paths.leading}"
                + ("; nothing was found that calls:" if paths.ends else ""),
            ]
            rows = [self._row(1, d.file, self._end(d, paths)) for d in paths.ends]
            room = self._room - size_of([*head, *bounded])
            return [*head, *fitted(rows, room, _SHOWN_ENDS), *bounded]
        shown: set[DefinitionKey] = set()
        for number, chain in enumerate(paths.chains, 1):
            new = next((n for n, s in enumerate(chain) if s.target.key not in shown), 0)
            start = chain[new].source
            lead = f"{printable_line(start.qualified)} (above)" if new else self._briefly(start)
            rows.append(Row(0, f"{number}. {counted(len(chain), 'step')} from {lead}"))
            for step in chain[new:]:
                path = self._path(step.file.snapshot_id, step.file.path)
                rows.append(Row(1, self._step(step, shown), (number,), path, "more steps"))
                if step.target.key in shown:
                    break
                shown.add(step.target.key)
        return [*self._fitted([], rows), *bounded]

    def _end(self, end: Definition, paths: CallPaths) -> str:
        """A definition that nothing calls, and the line that registers it."""
        line = paths.registrations.get(end.key)
        if line is None:
            return self._briefly(end)
        path = "" if line.file == end.file else self._path(line.file.snapshot_id, line.file.path)
        where = f"{path}:{line.number}" if path else line.number
        return f"{self._briefly(end)} [{where}  {_cut(line.text)}]"

    def _step(self, step: Step, shown: Collection[DefinitionKey]) -> str:
        """The line of a step, its target, and a mark if it is no call."""
        source, target = step.source, step.target
        name = f"{printable_line(target.qualified)} (above)"
        name = name if target.key in shown else self._briefly(target)
        is_inside = source.file == step.file and source.start_line <= step.line <= source.end_line
        where = f"line {step.line}"
        if step.file != target.file:
            where = f"{self._path(step.file.snapshot_id, step.file.path)}:{step.line}"
        reason = printable_line(step.reason)
        way = {
            "call": "",
            "override": " [override]",
            "table": " [table]",
            "callback": " [handed on]" if is_inside else f" [handed to {reason}, {where}]",
            "decorator": f" [decorated {reason}, {where}]",
        }[step.kind]
        doubt = self._doubt(step.confidence, step.reason if is_inside else "")
        return f"{f'{step.line} → ' if is_inside else '→ '}{name}{way}{doubt}"

    def _implementations(self) -> list[str]:
        implementations = self._facts.implementations
        head = [f"{counted(len(implementations), 'implementation')} of {self._subject}"]
        rows = []
        for i in implementations:
            if i.definition is None:
                where = f"{self._path(i.file.snapshot_id, i.path)}:{i.line}"
            else:
                where = self._definition(i.definition)
            text = where + self._doubt(i.confidence, i.reason)
            rows.append(self._row(i.level, i.file, text, i.confidence))
        return self._fitted([*head, *self._meant()], rows, self._unresolved())

    def _unresolved(self) -> Iterator[str]:
        """The number of uses that may belong to the answer as well."""
        if count := self._facts.unresolved:
            yield f"{counted(count, 'more use')} of this name could not be resolved"

    def _outline(self) -> list[str]:
        outline = self._facts.outline
        assert outline is not None
        files = outline.files
        if len(files) == 1 and files[0].file.path.endswith(outline.path):
            return self._outline_of_file(files[0])
        head = f"{counted(len(files), 'file')} with definitions in {self._subject}"
        rows = []
        for in_file in files:
            brief = (f"{printable_line(s.name)} {_lines(s)}" for s in in_file.definitions)
            path = self._path(in_file.file.snapshot_id, in_file.file.path)
            rows.append(Row(0, f"{path}: {', '.join(brief)}", (0,), path, "more files"))
        return self._fitted([head], rows)

    def _outline_of_file(self, outline: FileOutline) -> list[str]:
        file, symbols = outline.file, outline.definitions
        path = self._path(file.snapshot_id, file.path)
        rows = []
        for symbol in symbols:
            signature = self._facts.signature_at(file.blob_id, symbol)
            name = _cut(signature) if symbol.name in signature else printable_line(symbol.name)
            depth = symbol.depth
            rows.append(Row(depth, f"{_lines(symbol)} {name}", (depth,), path, "more definitions"))
        head = f"{path} {file.language}, {counted(len(symbols), 'definition')}"
        return [head, *fitted(rows, self._room - size_of([head]), len(rows))]

    def _meant(self) -> Iterator[str]:
        """The definitions that an answer is about."""
        definitions = self._facts.definitions
        shown = definitions[:_SHOWN_DEFINITIONS]
        describe = self._definition if len(definitions) == 1 else self._briefly
        yield from (f"defined {describe(definition)}" for definition in shown)
        if len(definitions) > _SHOWN_DEFINITIONS:
            yield f"… {counted(len(definitions) - _SHOWN_DEFINITIONS, 'more definition')}"

    def _briefly(self, definition: Definition) -> str:
        """The name, path and lines of a definition."""
        path = self._path(definition.file.snapshot_id, definition.file.path)
        return f"{printable_line(definition.qualified)} {path}:{_lines(definition)}"

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


def _meaning_of(use: FoundUse) -> tuple[object, ...]:
    """What a use means, and how sure that is."""
    return use.definition and use.definition.key, use.confidence < SURE and use.confidence


def _heading(definition: Symbol | None) -> str:
    if definition is None:
        return ""
    return f"{printable_line(definition.qualified)} {_lines(definition)}: "


def _numbers(uses: Sequence[FoundUse], common: ReferenceKind | None) -> str:
    """The lines of some uses, each with the kind where it is not the most common."""
    lines: dict[int, str] = {}
    for use in uses:
        kind = use.use.kind
        lines.setdefault(use.use.line, "" if kind is common else f" {kind}")
    shown = [f"{number}{kind}" for number, kind in list(lines.items())[:_SHOWN_LINES]]
    more = len(lines) - len(shown)
    return ", ".join(shown) + (f" +{more}" if more else "")


def _lines(symbol: Symbol) -> str:
    first, last = symbol.start_line, symbol.end_line
    return str(first) if first == last else f"{first}-{last}"


def _cut(line: str) -> str:
    line = printable_line(" ".join(line.split()))
    return line if len(line) <= _LINE_CHARS else line[: _LINE_CHARS - 1] + "…"
