"""The commands for the data of a project: migrate, back up, restore, erase, export and import its
records, and show who asked. No file that a command writes is ever half written."""

from __future__ import annotations

import argparse
import fcntl
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from rich.table import Table
from rich.text import Text

from codebase_mcp.app.app import App
from codebase_mcp.app.background.audit import load_entries
from codebase_mcp.app.data import Purged, Target
from codebase_mcp.cli.output import ask, local_time, picked, print_json, say, tell
from codebase_mcp.cli.shell import identity_here
from codebase_mcp.cli.terminal import console
from codebase_mcp.database.backup import BackupFacts
from codebase_mcp.database.projects import SchemaState
from codebase_mcp.database.supervisor import try_lock
from codebase_mcp.errors import InvalidInput
from codebase_mcp.printable import escaped_json
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import repository_at
from codebase_mcp.source.selection import EVERYTHING, Selection
from codebase_mcp.tools.text import counted


async def migrate(options: argparse.Namespace, settings: Settings) -> int:
    """Migrate schemas, or with ``--check`` show which are behind; 1 if any of them is."""
    async with await App.open(settings) as app:
        states = await app.data.migrate(options.project, every=options.all, check=options.check)
    if options.json:
        print_json([asdict(state) for state in states])
    else:
        table = Table("schema", "version", "state", box=None)
        for state in states:
            table.add_row(state.schema_name, str(state.version), _in_words(state))
        console.print(table)
    return 1 if any(state.behind or state.problem for state in states) else 0


def _in_words(state: SchemaState) -> Text:
    if state.problem is not None:
        return Text(state.problem, "red")
    if state.behind:
        return Text(f"{counted(state.behind, 'migration')} pending", "yellow")
    return Text(f"{counted(state.applied, 'migration')} applied" if state.applied else "up to date")


async def backup(options: argparse.Namespace, settings: Settings) -> int:
    """Write a project to a file, which appears only when it is complete."""
    async with await App.open(settings) as app:
        with appearing(options.output) as partial:
            with partial.open("wb") as file:
                facts = await app.data.backup(file, options.project, identity_here(settings))
            size = partial.stat().st_size
    content = {"file": options.output, "bytes": size, **_backup_as_json(facts)}
    text = f"{_name(facts)}: {facts.rows} rows in {options.output} ({size / 1e6:.1f} MB)"
    return tell(options, content, text)


async def restore(options: argparse.Namespace, settings: Settings) -> int:
    """Restore a project from a backup file, completely or not at all."""
    with opened(options.file) as file:
        async with await App.open(settings) as app:
            facts = await app.data.restore(
                file, options.file, options.project, replace=options.replace
            )
    return tell(options, _backup_as_json(facts), f"{_name(facts)}: {facts.rows} rows restored")


def _name(facts: BackupFacts) -> str:
    return f"Project {facts.project.project_id or '(default)'}"


def _backup_as_json(facts: BackupFacts) -> dict[str, object]:
    return picked(facts.project, "project_id schema_name") | {"rows": facts.rows}


MAX_SHOWN = 10

_READ_AGAIN = {
    "file": "It is still on disk and not ignored: the next search or index run reads it again. "
    "Name it in .mcpignore, then purge it once more.",
    "repository": "It is still on disk: the next index run of it reads it again.",
}


async def purge(options: argparse.Namespace, settings: Settings) -> int:
    """Erase the named file, repository or project; 1 if any of it is left."""
    if options.everything == (options.path is not None):
        raise InvalidInput(
            "Name a path, or --everything for the whole project",
            hint="codebase-mcp purge PATH, or codebase-mcp purge --project ID --everything",
        )
    async with await App.open(settings) as app:
        identity = identity_here(settings)
        on_disk = read_again = False
        if options.everything:
            project, _ = await app.resolver.resolve(options.project, identity)
            what = f"the whole project {project.project_id or '(default)'} with all its records"
            _confirm(what, options)
            purged = await app.data.purge_project(project.project_id, identity)
        else:
            target = await app.data.find(options.path, options.project, identity)
            what = _described(target)
            _confirm(what, options)
            purged = await app.data.purge(target)
            on_disk = await app.data.still_on_disk(target, purged)
            selection = _selection(settings, Path(target.repository.root))
            read_again = await app.data.is_read_again(target, purged, selection)
            warning = _READ_AGAIN[target.kind]
    if options.json:
        print_json(
            _purge_as_json(what, purged) | {"still_on_disk": on_disk, "read_again": read_again}
        )
    else:
        _show_purged(what, purged)
        if read_again:
            console.print(warning, style="yellow")
    return 0 if purged.is_complete else 1


def _described(target: Target) -> str:
    if target.scope is None:
        return f"the repository {target.repository.root}"
    [path] = target.scope.paths
    return f"{path} in {target.repository.root}"


def _confirm(what: str, options: argparse.Namespace) -> None:
    """Ask a person for confirmation; a program passes ``--yes``."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"This erases {what} and needs confirmation", hint="Pass --yes to confirm."
        )
    ask(f"Erase {what} permanently? [yes/no]")
    if sys.stdin.readline().strip().lower() != "yes":
        raise InvalidInput("Nothing was erased", hint="Answer yes, or pass --yes.")


def _selection(settings: Settings, root: Path) -> Selection:
    """What the settings exclude in a repository; an invalid context file there is ignored."""
    try:
        return repository_at(settings, root).selection
    except InvalidInput:
        return EVERYTHING


def _purge_as_json(what: str, purged: Purged) -> dict[str, object]:
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


def _show_purged(what: str, purged: Purged) -> None:
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


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


async def audit(options: argparse.Namespace, settings: Settings) -> int:
    """The newest entries since a time, the oldest of them first."""
    since = datetime.now(UTC) - age_of(options.since)
    async with await App.open(settings, only_once=True) as app:
        entries = await load_entries(
            app.database,
            since=since,
            owner=options.owner,
            project_id=options.project,
            limit=options.limit,
        )
    if options.json:
        content = [asdict(e) | {"duration_ms": round(e.duration_ms, 2)} for e in entries]
        return print_json({"entries": content})
    if not entries:
        console.print("There are no entries. Servers over HTTP make them.")
        return 0
    table = Table("at", "who", "tool", "project", "outcome", "ms", box=None)
    for entry in entries:
        who = " ".join(filter(None, (entry.owner or "-", entry.key_id, entry.peer)))
        tool = " ".join(filter(None, (entry.tool, entry.operation)))
        at, took = local_time(entry.at), f"{entry.duration_ms:.0f}"
        table.add_row(at, who, tool, entry.project_id or "-", entry.outcome, took)
    console.print(table)
    return 0


def age_of(text: str) -> timedelta:
    """A span of time such as ``90m``, ``12h``, ``7d`` or ``2w``."""
    span = re.fullmatch(r"([0-9]{1,4})([mhdw])", text)
    if span is None:
        rule = "a number and m, h, d or w, such as 90m, 12h, 7d, 2w"
        raise InvalidInput.of("since", text, f"Invalid since: {text}", rule=rule)
    return timedelta(**{_UNITS[span[2]]: int(span[1])})


async def export_records(options: argparse.Namespace, settings: Settings) -> int:
    """Write every record as a line; a file appears only when it is whole."""
    identity = identity_here(settings)
    count = -1  # the header is not a record
    async with await App.open(settings) as app:
        if not options.output:
            async for line in app.data.export_records(options.project, identity):
                say(escaped_json(line))
            return 0
        with appearing(options.output) as partial, partial.open("w", encoding="utf-8") as file:
            async for line in app.data.export_records(options.project, identity):
                file.write(line + "\n")
                count += 1
    content = {"file": options.output, "records": count}
    return tell(options, content, f"{counted(count, 'record')} in {options.output}")


async def import_records(options: argparse.Namespace, settings: Settings) -> int:
    """Store every record of a file, or none."""
    identity = identity_here(settings)
    with _rewindable(options.file) as file:
        async with await App.open(settings) as app:
            imported = await app.data.import_records(
                file, options.project, identity, dry_run=options.dry_run
            )
    if options.json:
        return print_json({"added": imported.added, "unchanged": imported.unchanged}, indent=None)
    what = ", ".join(f"{n} {kind}" for kind, n in imported.added.items() if n) or "nothing"
    say(f"{'Would import' if options.dry_run else 'Imported'}: {what}")
    same = sum(imported.unchanged.values())
    if same:
        say(f"{same} already existed")
    return 0


def _rewindable(name: str) -> BinaryIO:
    """The file, in a form that can be read twice."""
    file = opened(name)
    if name != "-":
        return file
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(file, spool)
    spool.seek(0)
    return spool


# What a name ends with until the file is whole. A lock says that somebody writes it.
_PARTIAL = ".codebase-mcp-partial"


@contextmanager
def appearing(name: str) -> Iterator[Path]:
    """Where to write meanwhile; the file of this name appears once the block has ended well.

    What processes that were killed have left in its folder is removed.

    Raises:
        InvalidInput: it cannot be written.
    """
    target = Path(name)
    partial = target.with_name(f".{token_hex(8)}{_PARTIAL}")
    try:
        _remove_leftovers(target.parent)
        with partial.open("xb") as file:
            with suppress(OSError):  # a network drive without locks
                try_lock(file.fileno(), fcntl.LOCK_EX)
            yield partial
        partial.replace(target)
    except OSError as error:
        raise _bad_file(name, error) from None
    finally:
        partial.unlink(missing_ok=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the files that nobody writes any more."""
    for leftover in folder.glob(f".*{_PARTIAL}"):
        with suppress(OSError), leftover.open("rb") as file:
            if try_lock(file.fileno(), fcntl.LOCK_EX):
                leftover.unlink()


def opened(name: str) -> BinaryIO:
    """The file of this name; ``-`` is the standard input, which can be read once."""
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise _bad_file(name, error) from None


def _bad_file(name: str, error: OSError) -> InvalidInput:
    reason = error.strerror or str(error)
    return InvalidInput.of("file", name, f"{name}: {reason}", rule="a file that can be used")
