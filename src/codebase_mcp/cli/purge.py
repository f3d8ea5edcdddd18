"""Erase a file, a repository or a whole project from the database, and prove it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.table import Table

from codebase_mcp.app.app import App
from codebase_mcp.app.erasure import Target
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.cli.output import ask, print_json
from codebase_mcp.cli.showing import counted
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.errors import InvalidInput
from codebase_mcp.index.purge import Purged
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import repository_at
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.tools.rules import check_project_id

MAX_SHOWN = 10

_READ_AGAIN = {
    "file": "It is still on disk and not ignored: the next search or index run reads it again. "
    "Name it in .mcpignore, then purge it once more.",
    "repository": "It is still on disk: the next index run of it reads it again.",
}


async def purge(options: argparse.Namespace, settings: Settings) -> int:
    """Erase what is named; the exit status is 1 if anything of it is left."""
    project_id = check_project_id(options.project)
    if options.everything == (options.place is not None):
        raise InvalidInput(
            "Name a path, or --everything for the whole project",
            hint="codebase-mcp purge PATH, or codebase-mcp purge --project ID --everything",
        )
    async with await App.open(settings) as app:
        identity = identity_here(settings)
        on_disk = read_again = False
        if options.everything:
            project, _ = await app.resolver.resolve(project_id, identity)
            what = f"the whole project {project.project_id or '(default)'} with all its records"
            _confirm(what, options)
            purged = await app.erasure.purge_project(project.project_id, identity)
        else:
            target = await app.erasure.find(options.place, project_id, identity)
            what = _described(target)
            _confirm(what, options)
            purged = await app.erasure.purge(target)
            on_disk = await app.erasure.still_on_disk(target, purged)
            selection = _selection(settings, Path(target.repository.root))
            read_again = await app.erasure.is_read_again(target, purged, selection)
            warning = _READ_AGAIN[target.kind]
    if options.json:
        print_json(_as_json(what, purged) | {"still_on_disk": on_disk, "read_again": read_again})
    else:
        _show(what, purged)
        if read_again:
            Terminal().print(warning, style="yellow")
    return 0 if purged.is_complete else 1


def _described(target: Target) -> str:
    if target.scope is None:
        return f"the repository {target.repository.root}"
    [path] = target.scope.paths
    return f"{path} in {target.repository.root}"


def _confirm(what: str, options: argparse.Namespace) -> None:
    """Ask a person for confirmation; a program passes ``--yes``.

    Raises:
        InvalidInput: there is no terminal to ask at, or the answer is not yes.
    """
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"This erases {what} and needs confirmation",
            hint="Pass --yes to confirm.",
        )
    ask(f"Erase {what} permanently? [yes/no]")
    if sys.stdin.readline().strip().lower() != "yes":
        raise InvalidInput("Nothing was erased", hint="Answer yes, or pass --yes.")


def _selection(settings: Settings, root: Path) -> Selection:
    """What the settings leave out at a place; an invalid context file there is ignored."""
    try:
        return repository_at(settings, root).selection
    except InvalidInput:
        return EVERYTHING


def _as_json(what: str, purged: Purged) -> dict[str, object]:
    return {
        "purged": what,
        "complete": purged.is_complete,
        "rows": {
            table: {"before": count, "after": purged.after[table]}
            for table, count in purged.before.items()
        },
        "files": list(purged.paths),
        "same_text_kept_at": list(purged.kept),
    }


def _show(what: str, purged: Purged) -> None:
    console = Terminal()
    console.print(f"Purged {what}")
    table = Table("table", "rows before", "rows after", box=None)
    for name, before in purged.before.items():
        if before or purged.after[name]:
            table.add_row(name, str(before), str(purged.after[name]))
    console.print(table)
    empty = sum(not before for before in purged.before.values())
    if empty:
        console.print(f"{counted(empty, 'more table')} had no rows", style="dim")
    if purged.kept:
        console.print("The same text is kept for other files that contain it:", style="yellow")
        for path in purged.kept[:MAX_SHOWN]:
            console.print(f"  {path}")
        if len(purged.kept) > MAX_SHOWN:
            console.print(f"  and {len(purged.kept) - MAX_SHOWN} more (--json lists all)")
