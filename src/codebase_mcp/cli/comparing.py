"""Branches and tags, and what differs between them: by git alone, without an index."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codebase_mcp.cli.output import print_json, say
from codebase_mcp.errors import InvalidInput
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.git_changes import ahead_behind_of_refs
from codebase_mcp.source.git_directory import GitRepository, git_repository_at
from codebase_mcp.source.git_refs import Ref, list_refs

if TYPE_CHECKING:
    from codebase_mcp.changes.compare import Comparison, Difference
    from codebase_mcp.cli.terminal import Terminal

_LEADS = {"branch": "refs/heads/", "remote": "refs/remotes/", "tag": "refs/tags/"}
# Where there are several, the first is the branch that others are measured by.
_DEFAULTS = ("main", "master", "trunk")
_STYLES = {"+": "green", "~": "yellow", ">": "cyan", "-": "red"}
_FILE_STYLES = {"added": "green", "removed": "red", "renamed": "cyan"}


async def branches(options: argparse.Namespace, settings: Settings) -> int:
    """The branches and tags of a repository, the newest first."""
    repository = _repository(options.path)
    refs, base, distances = await asyncio.to_thread(_refs, repository)
    if options.json:
        return print_json([_as_json(ref, distances) for ref in refs])
    if not sys.stdout.isatty():
        for ref in refs:
            say("\t".join([*_cells(ref), *_distance(ref, distances)]))
        return 0
    from rich.table import Column, Table  # noqa: PLC0415 - on a terminal alone

    from codebase_mcp.cli.terminal import Terminal  # noqa: PLC0415

    columns: list[Column | str] = [Column("name", overflow="fold"), "kind", "commit", "date"]
    if distances and base is not None:
        columns += [f"ahead of {base}", "behind"]
    table = Table(*columns, box=None)
    for ref in refs:
        cells = [*_cells(ref), *_distance(ref, distances)]
        table.add_row(*cells, style="bold" if ref.is_head else None)
    Terminal().print(table)
    return 0


async def compare_branches(options: argparse.Namespace, settings: Settings) -> int:
    """What differs between two branches, tags or commits, or from one to the files on disk."""
    from codebase_mcp.changes.compare import compare  # noqa: PLC0415 - parses code

    repository = _repository(options.path)
    found = await asyncio.to_thread(
        compare, repository, options.a, options.b, direct=options.direct, symbols=options.symbols
    )
    if options.json:
        from codebase_mcp.tools.vcs import comparison_reply  # noqa: PLC0415 - for JSON alone

        return print_json(comparison_reply(found, found.differences.total).as_json())
    if not sys.stdout.isatty():
        from codebase_mcp.replies.changes import comparison_text  # noqa: PLC0415

        say(comparison_text(found, sys.maxsize))
        return 0
    from codebase_mcp.cli.terminal import Terminal  # noqa: PLC0415 - not into a pipe

    show_comparison(found, Terminal(), with_symbols=options.symbols)
    return 0


def show_comparison(found: Comparison, console: Terminal, *, with_symbols: bool) -> None:
    """Print a comparison for a person: a table of files, or the definitions of each."""
    from codebase_mcp.replies.changes import comparison_heading, left_out_line  # noqa: PLC0415

    console.print(comparison_heading(found), style="bold")
    for notice in found.notices:
        console.print(notice, style="yellow")
    if with_symbols:
        for one in found.differences.files:
            _show_symbols(one, console)
    elif found.differences.files:
        _show_table(found, console)
    left_out = found.differences.total - len(found.differences.files)
    if left_out:
        console.print(f"… {left_out} more files", style="dim")
    if with_symbols and (line := left_out_line(found.differences)):
        console.print(line, style="dim")


def _show_table(found: Comparison, console: Terminal) -> None:
    from rich.table import Column, Table  # noqa: PLC0415 - on a terminal alone

    numbers = [Column("+", justify="right"), Column("-", justify="right")]
    table = Table("status", Column("file", overflow="fold"), *numbers, box=None)
    for one in found.differences.files:
        file = one.file
        path = printable_line(file.path)
        if file.old_path is not None:
            path = f"{printable_line(file.old_path)} → {path}"
        lines = (
            "" if count is None else str(count) for count in (file.lines_added, file.lines_removed)
        )
        table.add_row(file.status, path, *lines, style=_FILE_STYLES.get(file.status))
    console.print(table)


def _show_symbols(one: Difference, console: Terminal) -> None:
    from codebase_mcp.replies.changes import file_line, symbol_lines  # noqa: PLC0415

    console.print(file_line(one), style=_FILE_STYLES.get(one.file.status, "bold"))
    for sign, text in symbol_lines(one):
        console.print(f"    {sign} {text}", style=_STYLES[sign])


def _repository(path: str) -> GitRepository:
    found = git_repository_at(Path(path).expanduser().resolve())
    if found is None:
        raise InvalidInput.of(
            "path", path, f"{path} is not in a git repository", rule="a git repository"
        )
    return found


def _refs(repository: GitRepository) -> tuple[list[Ref], str | None, dict[str, tuple[int, int]]]:
    """The refs, the newest first; the default branch, and how far each is from it."""
    refs = sorted(list_refs(repository), key=lambda ref: (-ref.committed_at, ref.kind, ref.name))
    own = {ref.name: ref for ref in refs if ref.kind == "branch"}
    head = next((ref.name for ref in refs if ref.is_head), None)
    base = next((name for name in (*_DEFAULTS, head) if name in own), None)
    distances = {} if base is None else ahead_behind_of_refs(repository, own[base].commit)
    return refs, base, distances


def _cells(ref: Ref) -> list[str]:
    at = datetime.fromtimestamp(ref.committed_at, UTC).astimezone()
    mark = " *" if ref.is_head else ""
    return [ref.name + mark, ref.kind, ref.commit[:12], at.strftime("%Y-%m-%d %H:%M")]


def _distance(ref: Ref, distances: dict[str, tuple[int, int]]) -> list[str]:
    return [str(count) for count in distances.get(_LEADS[ref.kind] + ref.name, ())]


def _as_json(ref: Ref, distances: dict[str, tuple[int, int]]) -> dict[str, Any]:
    content = {
        "name": ref.name,
        "kind": ref.kind,
        "commit": ref.commit,
        "committed_at": datetime.fromtimestamp(ref.committed_at, UTC).isoformat(),
        "is_head": ref.is_head,
    }
    known = distances.get(_LEADS[ref.kind] + ref.name)
    return content if known is None else content | {"ahead": known[0], "behind": known[1]}
