"""Writes replies as text: short lines, whole ids, no empty values, paths that can be opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebase_mcp.model import WORKTREE
from codebase_mcp.printable import printable_line

if TYPE_CHECKING:
    from codebase_mcp.app.scopes import CallScope

INDENT = "  "

# Names of the kinds of files in replies. Files of the first group that has any are shown with
# lines, the others by their counts.
KIND_GROUPS = {
    "code": "code",
    "config": "code",
    "test": "tests",
    "docs": "docs",
    "generated": "generated and vendored",
    "vendored": "generated and vendored",
}
_EMPTY: tuple[object, ...] = (None, "", [], {}, ())


def moment(at: datetime) -> str:
    """A time, to the minute, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def compact(value: Any) -> str:
    """A value as JSON in as few characters as it takes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def body(label: str, text: str | None) -> Iterator[str]:
    """A text under its label, as it is; several lines begin on a line of their own."""
    if text:
        yield f"{label}:\n{text}" if "\n" in text else f"{label}: {text}"


def joined(*parts: str | None, by: str = "  ") -> str:
    """The parts on a line, without the empty parts."""
    return by.join(part for part in parts if part)


def size_of(lines: Iterable[str]) -> int:
    """The number of characters of some lines, with their ends."""
    return sum(len(line) + 1 for line in lines)


def folders_of(counts: Iterable[tuple[str, int]], most: int) -> dict[str, tuple[int, int]]:
    """How many there are in how many files, by folder, the most first.

    ``counts`` are the path and the number of each file. The folders are as deep as it
    takes to have half of ``most``, which may give more.
    """
    every = [(path.split("/")[:-1], count) for path, count in counts]
    depth, deepest = 1, max((len(steps) for steps, _ in every), default=0)
    while True:
        totals: Counter[str] = Counter()
        numbers: Counter[str] = Counter()
        for steps, count in every:
            folder = "/".join(steps[:depth]) or "."
            totals[folder] += count
            numbers[folder] += 1
        if 2 * len(totals) > most or depth >= deepest:
            return {folder: (count, numbers[folder]) for folder, count in totals.most_common()}
        depth += 1


def by_folder(counts: Iterable[tuple[str, int]], most: int) -> str:
    """How many there are by folder, of at most ``most`` folders; see `folders_of`."""
    folders = list(folders_of(counts, most).items())
    parts = [
        f"{count} in {printable_line(folder)}/ ({counted(number, 'file')})"
        for folder, (count, number) in folders[:most]
    ]
    others = sum(count for _, (count, _) in folders[most:])
    return ", ".join([*parts, f"{others} elsewhere"] if others else parts)


def by_file(counts: Iterable[tuple[str, int]], most_files: int, most_folders: int) -> str:
    """How many there are, by file, or by folder where there are more files than ``most_files``."""
    every = list(counts)
    if len(every) > most_files:
        return by_folder(every, most_folders)
    return ", ".join(f"{count} in {path}" for path, count in every)


def page(count: int, total: int, kind: str, next_cursor: str | None) -> str:
    """The first line of a page of records: their number, and the cursor of the next page."""
    shown = f"{count} of {total}" if count < total else str(total)
    after = f'; next page: cursor="{next_cursor}"' if next_cursor else ""
    return f"{shown} {kind}{after}" if total else f"no {kind}"


def lines_of(fields: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Fields, a line each; nested fields are indented, and each record of a list has a line."""
    for name, value in fields.items():
        if value in _EMPTY:
            continue
        lead = f"{indent}{name}:"
        if isinstance(value, Mapping) and any(
            v and isinstance(v, dict | list) for v in value.values()
        ):
            yield lead
            yield from lines_of(value, indent + INDENT)
        elif isinstance(value, Mapping):
            yield f"{lead} {_inline(value)}"
        elif isinstance(value, Sequence) and any(isinstance(part, Mapping) for part in value):
            yield lead
            yield from (f"{indent}{INDENT}{_inline(part)}" for part in value)
        else:
            text = _scalar(value)
            yield f"{lead}\n{text}" if "\n" in text else f"{lead} {text}"


def _inline(fields: Mapping[str, Any]) -> str:
    present = ((name, value) for name, value in fields.items() if value not in _EMPTY)
    return ", ".join(f"{name} {_scalar(value)}" for name, value in present)


def _scalar(value: Any) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return compact(value)
    if isinstance(value, list | tuple):
        return ", ".join(_scalar(part) for part in value)
    return str(value)


def error_text(error: Mapping[str, Any]) -> str:
    """An error of the contract's shape: what went wrong, where, and what to do next."""
    message, hint = error["message"], error.get("hint") or ""
    lines = [f"Error {error['code']}: {message}"]
    lines += _where(dict(error.get("details") or {}), message + hint)
    return "\n".join([*lines, f"Try: {hint}"] if hint else lines)


def _where(details: dict[str, Any], shown: str) -> Iterator[str]:
    """The details that message and hint do not say."""
    details.pop("jsonrpc_code", None)
    problems = details.pop("fields", None)
    for problem in problems if isinstance(problems, list) else ():
        reason = problem.get("message") or f"{problem.get('value')}: {problem.get('constraint')}"
        yield joined(f"{problem.get('field')}: {reason}", problem.get("hint"), by=". ")
    name, value = details.pop("field", None), details.pop("value", None)
    rule = details.pop("constraint", None)
    if name and rule != "required":
        given = "" if value is None else f" = {compact(value)}"
        yield joined(f"{name}{given}", f"rule: {rule}" if rule else None, by="; ")
    further = {k: v for k, v in details.items() if v not in _EMPTY and str(v) not in shown}
    if further:
        yield _inline(further)


def shown_path(scope: CallScope, root: str, path: str) -> str:
    """The path of a file of the repository at ``root``, for a reader who wants to open it.

    It is relative to the directory of the caller; outside of it, or where the caller has several
    directories, it is absolute. A caller over HTTP has no directory: the path is relative to the
    root, or absolute where there are several repositories.
    """
    whole = f"{root.rstrip('/')}/{path}"
    if not scope.directories:
        return printable_line(whole if len(scope.trees) > 1 else path)
    if len(scope.directories) == 1:
        whole = whole.removeprefix(_lead_of(scope.directories[0]))
    return printable_line(whole)


def path_with_ref(
    scope: CallScope, refs: Mapping[str, str], root: str, path: str, view: str
) -> str:
    """The path as `shown_path` has it, with its ref where several commits were searched."""
    path = shown_path(scope, root, path)
    if view == WORKTREE or len(refs) < 2:
        return path
    return f"{path} @{printable_line(refs.get(view, view[:12]))}"


@lru_cache(maxsize=16)
def _lead_of(directory: Path) -> str:
    """How the paths of the files in a directory begin."""
    return f"{str(directory.resolve()).rstrip('/')}/"


def scope_note(scope: CallScope) -> tuple[str, ...]:
    """A line on the repositories that a call meant; nothing where its caller knows them.

    A caller knows the repository that they stand in, and a project that they named.
    """
    count = len(scope.trees)
    name = scope.project.project_id
    parts = [f"{count} repositories"] if count > 1 else []
    if name is not None and scope.source != "explicit":
        parts.append(f"project {name} ({scope.source})")
    return (f"[in {' of '.join(parts)}]",) if parts else ()
