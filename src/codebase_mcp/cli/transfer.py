"""Take a project's records out, and in."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from codebase_mcp.app import App
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings import Settings
from codebase_mcp.tools.rules import check_project_id


async def export_records(options: argparse.Namespace, settings: Settings) -> int:
    """Write every record as a line; a file appears only when it is whole."""
    project_id = check_project_id(options.project)
    identity = identity_here(settings)
    target = Path(options.output) if options.output else None
    count = -1  # the header is none
    async with await App.open(settings) as app:
        if target is None:
            async for line in app.export_records(project_id, identity):
                print(line)
            return 0
        partial = target.with_name(target.name + ".partial")
        try:
            with partial.open("w", encoding="utf-8") as file:
                async for line in app.export_records(project_id, identity):
                    file.write(line + "\n")
                    count += 1
            partial.replace(target)
        except OSError as error:
            raise _bad_file(options.output, error) from None
        finally:
            partial.unlink(missing_ok=True)
    if options.json:
        print(json.dumps({"file": str(target), "records": count}))
    else:
        print(f"{count} records in {target}")
    return 0


async def import_records(options: argparse.Namespace, settings: Settings) -> int:
    """Store every record of a file, or none."""
    project_id = check_project_id(options.project)
    identity = identity_here(settings)
    with _opened(options.file) as file:
        async with await App.open(settings) as app:
            imported = await app.import_records(file, project_id, identity, dry_run=options.dry_run)
    if options.json:
        print(json.dumps({"added": imported.added, "unchanged": imported.unchanged}))
        return 0
    what = ", ".join(f"{n} {kind}" for kind, n in imported.added.items() if n) or "nothing"
    print(f"{'Would import' if options.dry_run else 'Imported'}: {what}")
    same = sum(imported.unchanged.values())
    if same:
        print(f"{same} were here already")
    return 0


def _opened(name: str) -> BinaryIO:
    """The file, as one that can be read twice."""
    if name == "-":
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.seek(0)
        return spool
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise _bad_file(name, error) from None


def _bad_file(name: str, error: OSError) -> InvalidInput:
    reason = error.strerror or str(error)
    return InvalidInput.of("file", name, f"{name}: {reason}", rule="a file that can be used")
