"""Which lines of a text differ from another version of it? Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Literal

from codebase_mcp.chunking.lines import split_lines

Change = Literal["added", "changed", "removed"]

# Above this number of line pairs, everything between the first and the last difference counts as
# changed: comparing takes time by the square of the number of lines.
_MAX_PAIRS = 4_000_000

Span = tuple[int, int]
"""The first and the last of some lines, counted from 1."""


@dataclass(frozen=True, slots=True)
class LineChanges:
    """Lines that differ: ``added`` and ``changed`` in the new text, ``removed`` from the old one.

    ``cuts`` are the lines of the new text that follow on removed ones, in the same order.
    """

    added: tuple[Span, ...] = ()
    changed: tuple[Span, ...] = ()
    removed: tuple[Span, ...] = ()
    cuts: tuple[int, ...] = ()

    def within(self, chunks: Iterable[Sequence[int]]) -> LineChanges:
        """The same, where a piece of the old text that lost only some lines counts as changed."""
        gone = [(first, last) for first, last in chunks if self.of_old(first, last)]
        inside = [
            (line, line)
            for span, line in zip(self.removed, self.cuts, strict=True)
            if not any(_shared(span, one) for one in gone)
        ]
        return replace(self, changed=(*self.changed, *inside))

    def of_new(self, first: int, last: int) -> Change | None:
        """How some lines of the new text came about; None if they were there before."""
        new = sum(_shared(span, (first, last)) for span in self.added)
        if new == last - first + 1:
            return "added"
        if new or any(_shared(span, (first, last)) for span in self.changed):
            return "changed"
        return None

    def of_old(self, first: int, last: int) -> Change | None:
        """Whether most of some lines of the old text are gone."""
        gone = sum(_shared(span, (first, last)) for span in self.removed)
        return "removed" if 2 * gone > last - first + 1 else None


def line_changes(old: str | None, new: str | None) -> LineChanges:
    """What differs between two versions of a text; None for a version that is absent."""
    before = split_lines(old) if old is not None else []
    after = split_lines(new) if new is not None else []
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    middle = before[first : len(before) - last], after[first : len(after) - last]
    added: list[Span] = []
    changed: list[Span] = []
    removed: list[Span] = []
    cuts: list[int] = []
    for kind, a, a_end, b, b_end in _differences(*middle):
        if kind == "insert":
            added.append((first + b + 1, first + b_end))
        elif kind == "delete":
            removed.append((first + a + 1, first + a_end))
            cuts.append(min(first + b + 1, len(after)))
        elif kind == "replace":
            changed.append((first + b + 1, first + b_end))
    return LineChanges(tuple(added), tuple(changed), tuple(removed), tuple(cuts))


def _differences(
    before: Sequence[str], after: Sequence[str]
) -> list[tuple[str, int, int, int, int]]:
    if not before or not after or len(before) * len(after) > _MAX_PAIRS:
        kind = "insert" if not before else "delete" if not after else "replace"
        return [(kind, 0, len(before), 0, len(after))] if before or after else []
    return list(SequenceMatcher(None, before, after, autojunk=False).get_opcodes())


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines two texts have in common at their beginning."""
    count = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        count += 1
    return count


def _shared(a: Span, b: Span) -> int:
    return max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1)
