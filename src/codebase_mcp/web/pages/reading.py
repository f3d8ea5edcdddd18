"""The pages of a file and of a symbol: indexed text, definitions, uses, and records about them."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp.app.history import changes_of
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.model import WORKTREE, Symbol
from codebase_mcp.records.anchors import Note, notes_in_file
from codebase_mcp.search.history import LastChange
from codebase_mcp.source.commit_log import Lines
from codebase_mcp.symbols.answer import SymbolQuestion, TreeOutline
from codebase_mcp.symbols.definition import File
from codebase_mcp.symbols.lookup import clean_path
from codebase_mcp.tools.callers import identity_in
from codebase_mcp.tools.rules import check_repository_id
from codebase_mcp.web.pages.html import Line, coloured
from codebase_mcp.web.pages.site import Site, projects_of, require

_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")
# A longer file is shown in parts.
LINES_SHOWN = 3_000
# The most definitions whose last change git looks up.
_MOST_BLAMED = 60
OPERATIONS = ("references", "callers", "callees", "implementations")
_DEPTH = 2
# Below this confidence a use may mean something else of the same name.
_POSSIBLE = 0.5


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory of the shown directory; ``files`` counts the files inside."""

    name: str
    path: str
    files: int
    language: str = ""


async def file(site: Site, request: Request) -> Response:
    """A file, or a directory with its entries."""
    require(request, "read")
    projects = await projects_of(site, request)
    repository = _repository(request, projects.repositories)
    path = clean_path(request.query_params.get("path", ""))
    ref = request.query_params.get("ref", "").strip() or None
    question = SymbolQuestion("outline", path=path, ref=ref, limit=1)
    report = await site.run(
        request,
        "symbol",
        lambda app, user: app.symbols.ask(question, projects.chosen, user, repository=repository),
    )
    frame: dict[str, Any] = {
        "projects": projects,
        "path": path,
        "crumbs": _crumbs(path),
        "ref": ref or "",
        "repository": str(repository),
        "name": report.states[0].name,
    }
    outline = report.facts.outline
    assert outline is not None
    exact = _exact(outline, path)
    if exact is None:
        entries = _below(outline, path)
        return site.page(request, "directory.html", **frame, entries=entries, is_cut=outline.is_cut)
    shown, symbols = exact
    lines = (report.facts.texts or {}).get(shown.blob_id, [])
    app = await site.holder.get()
    async with app.enter(projects.chosen, identity_in(request), readonly=True) as project:
        notes = await notes_in_file(project.tx, repository, path)
    changes: dict[int, LastChange] = {}
    if request.query_params.get("changes"):
        root = Path(report.states[0].root)
        changes = await asyncio.to_thread(_changes, root, path, ref or WORKTREE, symbols, lines)
    values = await asyncio.to_thread(_shown, request, shown, lines, notes)
    return site.page(
        request,
        "file.html",
        **frame,
        **values,
        shown=shown,
        symbols=symbols,
        notes=notes,
        changes=changes,
        total=len(lines),
        most_blamed=_MOST_BLAMED,
    )


def _repository(request: Request, repositories: Sequence[dict[str, Any]]) -> UUID:
    """The repository that the address names, or the only repository of the project."""
    named = request.query_params.get("repository", "").strip()
    if named:
        return UUID(check_repository_id(named, "repository"))
    if len(repositories) == 1:
        return UUID(repositories[0]["id"])
    raise NotFound("Which repository? The address names none", hint="Open a file from the search.")


def _exact(outline: TreeOutline, path: str) -> tuple[File, tuple[Symbol, ...]] | None:
    """The file at the path, unless a directory is there."""
    for outlined in outline.files:
        if outlined.file.path == path:
            return outlined.file, outlined.definitions
    files = _files(outline)
    if path and not any(file.path.startswith(f"{path}/") for file in files):
        near = files[0].path if files else ""
        hint = f"Did you mean {near}?" if near else "It may not be indexed: see the index page."
        raise NotFound(f"No file or directory {path[:200]!r} is indexed", hint=hint)
    return None


def _files(outline: TreeOutline) -> list[File]:
    """All files of an outline, by path."""
    files = [*(outlined.file for outlined in outline.files), *outline.others]
    return sorted(files, key=lambda file: file.path)


def _below(outline: TreeOutline, path: str) -> list[Entry]:
    """The entries of a directory, directories first."""
    start = len(path) + 1 if path else 0
    files: list[Entry] = []
    inside: dict[str, int] = defaultdict(int)
    for file in _files(outline):
        name, _, rest = file.path[start:].partition("/")
        if rest:
            inside[name] += 1
        else:
            files.append(Entry(name, file.path, 1, file.language))
    folders = [Entry(name, f"{path}/{name}".lstrip("/"), n) for name, n in sorted(inside.items())]
    return [*folders, *files]


def _crumbs(path: str) -> list[tuple[str, str]]:
    """The directories around a path, each with its name and path, and the path itself."""
    parts = path.split("/") if path else []
    return [(name, "/".join(parts[:depth])) for depth, name in enumerate(parts, 1)]


def _shown(
    request: Request, shown: File, lines: Sequence[str], notes: Sequence[Note]
) -> dict[str, Any]:
    """The lines to show, as HTML, with the notes that begin at each."""
    first, last = _range(request.query_params.get("lines", ""))
    start = max(first - LINES_SHOWN // 2, 0) if len(lines) > LINES_SHOWN else 0
    part = lines[start : start + LINES_SHOWN]
    html = coloured(part, shown.language, shown.path)
    at: dict[int, list[Note]] = defaultdict(list)
    for note in notes:
        at[note.start_line or 1].append(note)
    return {
        "lines": [Line(start + n, text, first <= start + n <= last)
                  for n, text in enumerate(html, 1)],
        "notes_at": at,
        "start": start + 1,
        "end": start + len(part),
        "first": first,
        "step": LINES_SHOWN,
    }  # fmt: skip


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return 0, -1
    first = int(match[1])
    return first, int(match[2] or first)


def _changes(
    root: Path, path: str, view: str, symbols: Sequence[Symbol], lines: Sequence[str]
) -> dict[int, LastChange]:
    """The last change of each definition, by its first line."""
    top = [symbol for symbol in symbols if symbol.depth <= 1][:_MOST_BLAMED]
    definitions = [
        Lines(path, symbol.start_line,
              tuple(line.rstrip("\r\n") for line in lines[symbol.start_line - 1 : symbol.end_line]))
        for symbol in top
    ]  # fmt: skip
    changes = changes_of(root, definitions, "HEAD" if view == WORKTREE else view)
    return {
        symbol.start_line: change for symbol, change in zip(top, changes, strict=True) if change
    }


async def symbol(site: Site, request: Request) -> Response:
    """A name with its definitions, and its uses, callers, callees or implementations."""
    params = request.query_params
    projects = await projects_of(site, request)
    operation = params.get("operation") or OPERATIONS[0]
    if operation not in OPERATIONS:
        rule = ", ".join(OPERATIONS)
        raise InvalidInput.of("operation", operation, "No such question", rule=rule)
    about: dict[str, Any] = {
        name: params.get(name, "").strip() or None for name in ("name", "place", "ref")
    }
    about |= {"project_id": projects.chosen, "repository_id": params.get("repository") or None}
    meant = await site.call(request, "symbol", operation="definition", **about)
    deep = {} if operation == "references" else {"depth": _DEPTH}
    answer = await site.call(request, "symbol", operation=operation, limit=200, **about, **deep)
    return site.page(
        request,
        "symbol.html",
        projects=projects,
        subject=about["name"] or about["place"],
        definitions=meant.get("definitions", []),
        operation=operation,
        operations=OPERATIONS,
        answer=answer,
        uses=_by_file(answer, resolved=True),
        possible=_by_file(answer, resolved=False),
    )


def _by_file(answer: dict[str, Any], *, resolved: bool) -> list[tuple[str, list[dict[str, Any]]]]:
    """The uses that are resolved, or those that are only possible, with their files."""
    uses = [use for use in answer.get("references", [])
            if (use["confidence"] >= _POSSIBLE) == resolved]  # fmt: skip
    return [(path, list(group)) for path, group in groupby(uses, lambda use: use["file_path"])]
