"""Which definitions differ between two versions of some texts?

A definition is recognised by its qualified name and kind, and differs if its own lines do: those of
the definitions inside it, and spaces at line ends, do not count. One that has the same text under
another name or in another file was moved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import dedent

from codebase_mcp.chunking.lines import normalise_newlines
from codebase_mcp.chunking.split import split
from codebase_mcp.model import Symbol
from codebase_mcp.values import grouped

# Shorter definitions are alike by chance.
MIN_MOVED_CHARS = 40

# A comment, decorator or attribute that stands directly above a definition belongs to it.
_LEAD = re.compile(r"\s*(?:@|#|//|/\*|\*|--|\[)")


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file; ``key`` is equal for equal texts in the same language."""

    key: str
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class TextPair:
    """A file before and after; None where it does not exist, or cannot be read."""

    path: str
    old_path: str | None
    old: Text | None
    new: Text | None


@dataclass(frozen=True, slots=True)
class ChangedSymbol:
    """A definition that differs, by its qualified name.

    Lines are those of the newer text, of a removed one those of the older. ``old_name`` and
    ``old_path`` are those before it was moved.
    """

    name: str
    kind: str
    path: str
    start_line: int
    end_line: int
    old_name: str | None = None
    old_path: str | None = None

    @property
    def last_name(self) -> str:
        """The name without those of the definitions around it."""
        return self.name.rpartition(".")[2]


@dataclass(slots=True)
class SymbolChanges:
    """The definitions of a file that differ.

    Definitions inside an added, removed or moved definition are not listed. ``moved`` definitions
    were elsewhere before.
    """

    added: list[ChangedSymbol] = field(default_factory=list)
    changed: list[ChangedSymbol] = field(default_factory=list)
    removed: list[ChangedSymbol] = field(default_factory=list)
    moved: list[ChangedSymbol] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.added) + len(self.changed) + len(self.removed) + len(self.moved)


@dataclass(frozen=True, slots=True)
class _Definition:
    """A definition: its own lines, all its lines, and the definition around it."""

    symbol: Symbol
    own: str
    whole: Callable[[], str]
    parent: int | None

    @property
    def key(self) -> tuple[str, str]:
        return self.symbol.qualified, self.symbol.kind


@dataclass(frozen=True, slots=True)
class _Unmatched:
    """A definition of only the old or only the new text, and the changes that list it."""

    definition: _Definition
    listed: ChangedSymbol
    changes: SymbolChanges


def compare_symbols(pairs: Sequence[TextPair]) -> list[SymbolChanges]:
    """The definitions that differ, for each pair. Each distinct text is parsed once.

    Raises:
        IndexingFailed: a grammar cannot be loaded on this machine.
    """
    parsed: dict[tuple[str, str], list[_Definition]] = {}

    def definitions(text: Text | None) -> list[_Definition]:
        if text is None:
            return []
        key = text.key, text.language
        if key not in parsed:
            parsed[key] = _definitions(text)
        return parsed[key]

    results, removed, added = [], [], []
    for pair in pairs:
        changes = SymbolChanges()
        old, new = definitions(pair.old), definitions(pair.new)
        gone, fresh = _match(old, new, pair.path, changes)
        old_path = pair.old_path or pair.path
        removed += [
            _Unmatched(definition, _symbol(definition, old_path), changes)
            for definition in _outermost(old, gone)
        ]
        added += [
            _Unmatched(definition, _symbol(definition, pair.path), changes)
            for definition in _outermost(new, fresh)
        ]
        results.append(changes)
    _sort_out_moved(removed, added)
    return results


def _definitions(text: Text) -> list[_Definition]:
    lines = [line.rstrip() for line in normalise_newlines(text.text).split("\n")]
    symbols = split(text.text, text.language).symbols
    first_rows: list[int] = []
    parents: list[int | None] = []
    owners: list[int | None] = [None] * len(lines)
    for number, symbol in enumerate(symbols):
        row = symbol.start_line - 1
        parent = owners[row]
        if parent is None or symbols[parent].start_line != symbol.start_line:
            row = _with_lead(lines, owners, row)
        owners[row : symbol.end_line] = [number] * (symbol.end_line - row)
        first_rows.append(row)
        parents.append(parent)
    own: list[list[str]] = [[] for _ in symbols]
    for line, owner in zip(lines, owners, strict=True):
        if owner is not None and line:
            own[owner].append(line)
    return [
        _Definition(
            symbol,
            # The last of several definitions in a line owns it; each of them has it as its text.
            "\n".join(own[number] or lines[symbol.start_line - 1 : symbol.end_line]),
            _whole(lines, first_rows[number], symbol.end_line),
            parents[number],
        )
        for number, symbol in enumerate(symbols)
    ]


def _with_lead(lines: Sequence[str], owners: Sequence[int | None], row: int) -> int:
    """The first row of the comments and decorators that stand directly above a row."""
    around = owners[row]
    while row > 0 and owners[row - 1] == around and _LEAD.match(lines[row - 1]):
        row -= 1
    return row


def _whole(lines: Sequence[str], first_row: int, end: int) -> Callable[[], str]:
    return lambda: dedent("\n".join(lines[first_row:end]))


def _match(
    old: Sequence[_Definition], new: Sequence[_Definition], path: str, changes: SymbolChanges
) -> tuple[set[int], set[int]]:
    """Note what changed; the numbers of the definitions that only the older, the newer text has."""
    gone, fresh = set(range(len(old))), set(range(len(new)))
    # Equal definitions first; what is left under the same name then matches.
    for key in (
        (lambda definition: (definition.key, definition.own)),
        (lambda definition: definition.key),
    ):
        waiting = grouped((key(old[number]), number) for number in sorted(gone, reverse=True))
        for number in sorted(fresh):
            if candidates := waiting.get(key(new[number])):
                before = candidates.pop()
                gone.discard(before)
                fresh.discard(number)
                if old[before].own != new[number].own:
                    changes.changed.append(_symbol(new[number], path))
    return gone, fresh


def _outermost(definitions: Sequence[_Definition], chosen: set[int]) -> Iterator[_Definition]:
    """The chosen definitions that lie in no other chosen definition."""
    inside: set[int] = set()
    for number, definition in enumerate(definitions):
        if definition.parent is not None and (
            definition.parent in chosen or definition.parent in inside
        ):
            inside.add(number)
        elif number in chosen:
            yield definition


def _sort_out_moved(removed: Sequence[_Unmatched], added: Sequence[_Unmatched]) -> None:
    """List moved definitions as moved, and the rest as removed and added."""
    before = grouped((_fingerprint(each.definition), each) for each in removed if added)
    moved_away: set[int] = set()
    for unmatched in added:
        candidates = before.get(_fingerprint(unmatched.definition), []) if before else []
        named = unmatched.definition.symbol.name
        candidates.sort(key=lambda other: other.definition.symbol.name != named)
        if not candidates or len("".join(unmatched.definition.whole().split())) < MIN_MOVED_CHARS:
            unmatched.changes.added.append(unmatched.listed)
            continue
        origin = candidates.pop(0)
        moved_away.add(id(origin))
        unmatched.changes.moved.append(
            replace(unmatched.listed, old_name=origin.listed.name, old_path=origin.listed.path)
        )
    for unmatched in removed:
        if id(unmatched) not in moved_away:
            unmatched.changes.removed.append(unmatched.listed)


def _fingerprint(definition: _Definition) -> str:
    """The text of a definition without its name and its indentation."""
    name = re.escape(definition.symbol.name)
    return re.sub(rf"(?<!\w){name}(?!\w)", "\0", definition.whole())


def _symbol(definition: _Definition, path: str) -> ChangedSymbol:
    symbol = definition.symbol
    return ChangedSymbol(symbol.qualified, symbol.kind, path, symbol.start_line, symbol.end_line)
