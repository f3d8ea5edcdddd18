"""The text of what a task needs: a line for each file, and code of those most probably needed.

The files come in the order of the report. The others share a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from codebase_mcp.chunking.lines import split_lines
from codebase_mcp.printable import printable_line
from codebase_mcp.search.help import state_note
from codebase_mcp.tools.replies.excerpts import numbered, shown_lines
from codebase_mcp.tools.text import counted, path_with_ref, scope_note, size_of

if TYPE_CHECKING:
    from codebase_mcp.app.context import ContextReport
    from codebase_mcp.context.answer import NeededDefinition, NeededFile

# A task needs several files: its reply is this many times as long as that of a search.
SIZE = 2

# From this probability on the cause counts as outside of the repository.
LEAST_OUTSIDE = 0.5

# Files below it share a line, except for the first ones; so do those whose own lines would take
# more than half of the reply.
LIKELY = 0.1
FIRST = 3

# Code is shown of files with at least this share of the highest probability, if they are this
# likely: below it most of the lines would be read for nothing.
_SIMILAR_SHARE = 0.4
_LEAST_WITH_CODE = 0.2
_MOST_WITH_CODE = 6

# The characters of code of a file: about, and at most; and its lines at most.
_CODE_CHARS, _MOST_CHARS = 400, 1_400
_MOST_LINES = 40
# Kept free for the marks of lines that are left out.
_MARK_CHARS = 40

# Reasons are named until they have about this number of characters.
_REASON_CHARS = 120
_MOST_ALSO = 4
_MOST_GIVEN = 5

# Kept free for how many files are left out.
_REST_CHARS = 40

_LINES = re.compile(r":\d+(?:-\d+)?$")


def context_text(report: ContextReport, max_chars: int) -> str:
    """The text of a report, of at most ``max_chars`` characters."""
    head, scope = list(_head(report)), scope_note(report.scope)
    room = max_chars - size_of([*head, *scope])
    text = "\n".join([*head, *_files(report, room), *scope])
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def unknown_given(report: ContextReport) -> list[str]:
    """What the caller has given and the index does not know."""
    paths = [f"/{_LINES.sub('', path)}" for path in report.context.given]
    unknown = []
    for text in report.question.given or ():
        path = "/" + _LINES.sub("", text).removeprefix("./").lstrip("/")
        if not any(path.endswith(other) or other.endswith(path) for other in paths):
            unknown.append(text)
    return unknown


def outside_note(report: ContextReport) -> str | None:
    """The sentence on a cause that is probably outside of the repository."""
    outside = report.context.outside
    if outside is None or outside.probability < LEAST_OUTSIDE:
        return None
    return (
        "Nothing here: probably the cause is outside this repository "
        f"({outside.probability:.2f}): {printable_line(outside.reason)}"
    )


def _head(report: ContextReport) -> Iterator[str]:
    """What limits the answer."""
    index, given = report.index, report.context.given
    note = state_note(index.state, index.files_pending, index.percent, index.seconds_left)
    if note and index.state != "unchecked":
        yield note
    if report.question.given is None and given:
        yield f"Not listed, as uncommitted: {_some(given)}."
    if unknown := unknown_given(report):
        yield f"Not in the index: {_some(unknown)}."
    if note := outside_note(report):
        yield note
    elif not report.context.files:
        yield "Nothing here seems to be needed."


def _some(paths: Sequence[str]) -> str:
    rest = len(paths) - _MOST_GIVEN
    shown = ", ".join(map(printable_line, paths[:_MOST_GIVEN]))
    return f"{shown} and {rest} more" if rest > 0 else shown


def _files(report: ContextReport, room: int) -> list[str]:
    """The files, as many as there is room for, and how many are left out."""
    files, is_outside = report.context.files, outside_note(report) is not None
    likely = [file for rank, file in enumerate(files) if stands_alone(rank, file)]
    headings = [_heading(report, rank, file) for rank, file in enumerate(likely, 1)]
    shown = _fitting(headings, room - _REST_CHARS if is_outside else room // 2)
    blocks = [[heading] for heading in shown]
    listed, room = likely[: len(shown)], room - size_of(shown)
    others = [_path(report, file) for file in files if file not in listed]
    line, count = _in_a_line(others, min(room // 3, room - _REST_CHARS))
    if count < len(others):
        line.append(f"more (max_chars): {counted(len(others) - count, 'file')}")
    if not is_outside:
        _add_code(blocks, listed, room - size_of(line))
    return [*(text for block in blocks for text in block), *line]


def stands_alone(rank: int, file: NeededFile) -> bool:
    """Whether a file at a rank (from 0) has a line, or on a page a box, of its own."""
    return rank < FIRST or file.probability >= LIKELY


def _heading(report: ContextReport, rank: int, file: NeededFile) -> str:
    lines, name = "", ""
    if file.definitions:
        first = file.definitions[0]
        lines = f":{first.start_line}-{first.end_line}"
        name = f"  {printable_line(first.name)}" if first.name else ""
    why = ""
    for reason in map(printable_line, file.reasons):
        if why and len(why) + len(reason) > _REASON_CHARS:
            break
        why += f"; {reason}" if why else reason
    why = f"  ({why})" if why else ""
    path = _path(report, file)
    return f"{rank}. {path}{lines}  {file.probability:.2f} {file.role}{name}{why}"


def _path(report: ContextReport, file: NeededFile) -> str:
    roots = {tree.repository_id: str(tree.root) for tree in report.scope.trees}
    root = roots.get(file.repository_id, "")
    return path_with_ref(report.scope, report.refs, root, file.path, file.view)


def _fitting(lines: Sequence[str], room: int) -> Sequence[str]:
    """The first lines that have room, at least one of them."""
    sizes = accumulate(len(line) + 1 for line in lines)
    return lines[: max(sum(1 for size in sizes if size <= room), 1)]


def _in_a_line(paths: Sequence[str], room: int) -> tuple[list[str], int]:
    """The first paths that have room, those of a folder together, and their number."""
    for count in range(len(paths), 0, -1):
        names: dict[str, list[str]] = {}
        for path in paths[:count]:
            folder, slash, name = path.rpartition("/")
            names.setdefault(folder + slash, []).append(name)
        groups = (
            f"{folder}{{{', '.join(inside)}}}"
            if folder and inside[1:]
            else folder + ", ".join(inside)
            for folder, inside in names.items()
        )
        line = f"also: {', '.join(groups)}"
        if len(line) < room:
            return [line], count
    return [], 0


def _add_code(blocks: Sequence[list[str]], files: Sequence[NeededFile], room: int) -> None:
    """Add lines of code below the headings of the most probable files, as many as have room.

    Each gets a share of the room by its probability. Lines are those of files to change; of files
    to read only if there is nothing to change, and of tests, which are run, if there is nothing
    else.
    """
    roles = {file.role for file in files}
    role = next((role for role in ("change", "read", "test") if role in roles), "")
    read = [file for file in files if file.role == role]
    most = max((file.probability for file in read), default=0)
    least = max(_SIMILAR_SHARE * most, _LEAST_WITH_CODE)
    chosen = [
        (block, file)
        for block, file in zip(blocks, files, strict=True)
        if file in read and file.probability >= least
    ][: min(max(room // _CODE_CHARS, 1), _MOST_WITH_CODE)]
    total = sum(file.probability for _, file in chosen)
    for block, file in chosen:
        share = round(room * file.probability / total) if total else 0
        code = list(_code(file.definitions, min(share, _MOST_CHARS)))
        block.extend(code)
        room, total = room - size_of(code), total - file.probability


def _code(definitions: Sequence[NeededDefinition], room: int) -> Iterator[str]:
    """Lines of a file's definitions, as many as have room; the other definitions are named."""
    others = []
    for number, definition in enumerate(definitions):
        name = f" {printable_line(definition.name)}" if definition.name else ""
        label = f"{definition.start_line}-{definition.end_line}{name}"
        lines = [f"   also {label}"] if number else []
        code = _excerpt(definition, room) if definition.matching_lines or not number else []
        if code and size_of([*lines, *code]) <= room:
            yield from (*lines, *code)
            room -= size_of([*lines, *code])
        elif number:
            others.append(label)
    line = f"   also {', '.join(others[:_MOST_ALSO])}"
    if others and len(line) < room:
        yield line


def _excerpt(definition: NeededDefinition, room: int) -> list[str]:
    if definition.content is None:
        return []
    code = shown_lines(
        split_lines(definition.content),
        definition.start_line,
        definition.matching_lines,
        most_lines=_MOST_LINES,
        most_chars=room - _MARK_CHARS,
    )
    return numbered(code, definition.end_line)
