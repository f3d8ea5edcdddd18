"""What does a reader get of a comparison, or of a change's impact? Files, and definitions below.

``+`` was added, ``~`` changed, ``-`` removed, ``>`` moved or renamed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from codebase_mcp.model import FileKind
from codebase_mcp.printable import printable_line

if TYPE_CHECKING:
    from codebase_mcp.changes.compare import Comparison, Difference, Differences
    from codebase_mcp.changes.impact import Impact
    from codebase_mcp.changes.symbols import ChangedSymbol

LETTERS = {
    "added": "A", "removed": "D", "changed": "M", "renamed": "R", "mode": "M", "type": "T"
}  # fmt: skip

_INDENT = "    "
# A full hash is cut to its first digits.
_HASH = re.compile("[0-9a-f]{40,64}")
# Definitions of tests and documents are not listed.
_PRODUCT = (FileKind.CODE, FileKind.CONFIG)
# Of files that are less likely concerned and use nothing that changed, only the names are given.
_LIKELY = 0.1
# How many tests are named that use what changed.
_TESTS = 5
# Kept free for what is left out.
_TAIL_CHARS = 120


def comparison_text(
    found: Comparison, max_chars: int, *, limit: int | None = None, note: Sequence[str] = ()
) -> str:
    """The text of a comparison with at most ``limit`` files, of about ``max_chars`` characters.

    A ``note`` comes last.
    """
    head = [comparison_heading(found), *found.notices]
    room = max_chars - _size([*head, *note])
    return "\n".join([*head, *_fitting(found.differences, room, limit), *note])


def comparison_heading(found: Comparison) -> str:
    """Both states, and how far they are from each other, in a line."""
    a, b = printable_line(found.a), printable_line(found.b)
    ahead = counted(found.commits_ahead, "commit")
    return f"{a}...{b}: {ahead} ahead, {found.commits_behind} behind; {totals(found.differences)}"


def totals(found: Differences) -> str:
    """How many files and lines differ."""
    files = counted(found.total, "file")
    if not found.has_details:
        return f"{files} changed"
    return f"{files} changed, +{found.lines_added} -{found.lines_removed}"


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def file_line(one: Difference) -> str:
    """What happened to a file, in a line."""
    file = one.file
    text = f"{LETTERS[file.status]} {printable_line(file.path)}"
    if file.old_path is not None:
        text += f" (was {printable_line(file.old_path)})"
    if file.status == "mode" and file.old and file.new:
        text += f" (mode {file.old.mode} to {file.new.mode})"
    elif file.is_submodule:
        hashes = (side.object_id[:12] if side else "none" for side in (file.old, file.new))
        text += f" (submodule {' to '.join(hashes)})"
    lines = [(file.lines_added, "+"), (file.lines_removed, "-")]
    return " ".join([text, *(f"{sign}{count}" for count, sign in lines if count)])


def symbol_lines(one: Difference) -> Iterator[tuple[str, str]]:
    """The definitions of a file that differ, each with its sign."""
    changes = one.symbols
    if changes is None:
        return
    for sign, listed in (("+", changes.added), ("~", changes.changed), (">", changes.moved)):
        for symbol in listed:
            lines = f"{symbol.start_line}-{symbol.end_line}"
            yield sign, f"{printable_line(symbol.name)} {lines}{_origin(symbol, one)}"
    for symbol in changes.removed:
        yield "-", printable_line(symbol.name)


def left_out_line(found: Differences) -> str:
    """How many files were not compared by their definitions, and why; empty if all were."""
    reasons = (f"{count} {reason.replace('_', ' ')}" for reason, count in found.left_out.items())
    listed = ", ".join(reasons)
    return f"definitions not compared: {listed}" if listed else ""


def impact_text(
    found: Impact, max_chars: int, *, limit: int | None = None, note: Sequence[str] = ()
) -> str:
    """The text of an impact, of about ``max_chars`` characters, each list with at most ``limit``
    entries.

    A ``note`` comes last.
    """
    label = found.change.label
    short = label[:12] if _HASH.fullmatch(label) else printable_line(label)
    head = [
        f"impact {found.score:.2f} of {short}; {totals(found.change.differences)}",
        *found.change.notices,
        *(f"  {reason.points:.2f} {printable_line(reason.text)}" for reason in found.reasons),
    ]
    head += _left_alone(found, limit)
    if not found.history_commits:
        head.append("no history is stored: index_codebase with depth, or index --history, reads it")
    if found.change.differences.files:
        head.append("changed:")
    room = max_chars - _size([*head, *note])
    listed = _fitting(found.change.differences, room, limit, _PRODUCT)
    return "\n".join([*head, *listed, *note])


def _left_alone(found: Impact, limit: int | None) -> Iterator[str]:
    """The files that a change left alone and probably concerns; what is unlikely is only named."""
    concerned = [place for place in found.places if place.likelihood is not None]
    places = concerned[:limit]
    shown = [one for one in places if (one.likelihood or 0) >= _LIKELY or one.line is not None]
    if shown:
        yield "left alone, with how likely it concerns them:"
    for one in shown:
        line = f":{one.line}" if one.line is not None else ""
        symbol = f" {printable_line(one.symbol)}" if one.symbol else ""
        where = f"{printable_line(one.path)}{line}{symbol}"
        yield f"  {one.likelihood:.2f} {where}: {printable_line(one.why)}"
    if rest := [printable_line(one.path) for one in places if one not in shown]:
        yield f"less likely: {', '.join(rest)}"
    if more := len(concerned) - len(places):
        yield f"… {counted(more, 'more file')}"
    named = {one.path for one in concerned}
    if tests := sorted({one.path for one in found.users if one.is_test} - named):
        listed = [printable_line(path) for path in tests[: min(limit or _TESTS, _TESTS)]]
        more = len(tests) - len(listed)
        yield f"tests that use it: {', '.join(listed)}" + (f" (+{more})" if more else "")


def _fitting(
    found: Differences,
    max_chars: int,
    limit: int | None,
    of_kinds: Collection[FileKind] = tuple(FileKind),
) -> list[str]:
    """The first files, those of some kinds with their definitions, as far as they fit; then how
    much is left out."""
    tail = left_out_line(found)
    room = max_chars - len(tail) - _TAIL_CHARS
    lines: list[str] = []
    shown = without = 0
    for one in found.files[:limit]:
        heading = file_line(one)
        listed = symbol_lines(one) if one.kind in of_kinds else ()
        below = [f"{_INDENT}{sign} {text}" for sign, text in listed]
        size = _size([heading])
        if size > room:
            break
        shown += 1
        if size + _size(below) > room:
            below, without = [], without + bool(below)
        lines += [heading, *below]
        room -= size + _size(below)
    if without:
        lines.append(f"… definitions of {counted(without, 'file')} left out for length")
    if shown < found.total:
        lines.append(f"… {counted(found.total - shown, 'more file')}")
    return [*lines, tail] if tail else lines


def _size(lines: Sequence[str] | Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _origin(symbol: ChangedSymbol, one: Difference) -> str:
    """Where a definition was before it moved."""
    if symbol.old_name is None or symbol.old_path is None:
        return ""
    name = printable_line(symbol.old_name) if symbol.old_name != symbol.name else ""
    place = printable_line(symbol.old_path) if symbol.old_path != one.file.path else ""
    parts = (name, f"in {place}" if place else "")
    return f" (was {' '.join(part for part in parts if part)})"
