"""Take a project's records out, and in."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from typing import BinaryIO

from codebase_mcp.app.app import App
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.cli.files import appearing, opened
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.cli.showing import counted
from codebase_mcp.printable import escaped_json
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id


async def export_records(options: argparse.Namespace, settings: Settings) -> int:
    """Write every record as a line; a file appears only when it is whole."""
    project_id = check_project_id(options.project)
    identity = identity_here(settings)
    count = -1  # the header is not a record
    async with await App.open(settings) as app:
        if not options.output:
            async for line in app.data.export_records(project_id, identity):
                say(escaped_json(line))
            return 0
        with appearing(options.output) as partial, partial.open("w", encoding="utf-8") as file:
            async for line in app.data.export_records(project_id, identity):
                file.write(line + "\n")
                count += 1
    if options.json:
        print_json({"file": options.output, "records": count}, indent=None)
    else:
        say(f"{counted(count, 'record')} in {options.output}")
    return 0


async def import_records(options: argparse.Namespace, settings: Settings) -> int:
    """Store every record of a file, or none."""
    project_id = check_project_id(options.project)
    identity = identity_here(settings)
    with _rewindable(options.file) as file:
        async with await App.open(settings) as app:
            imported = await app.data.import_records(
                file, project_id, identity, dry_run=options.dry_run
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
