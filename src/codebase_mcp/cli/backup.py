"""Take a whole project out, and in."""

from __future__ import annotations

import argparse

from codebase_mcp.app.app import App
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.cli.files import appearing, opened
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.database.backup import BackupFacts
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id


async def backup(options: argparse.Namespace, settings: Settings) -> int:
    """Write a project into a file, which appears only when it is whole."""
    project_id = check_project_id(options.project)
    async with await App.open(settings) as app:
        with appearing(options.output) as partial:
            with partial.open("wb") as file:
                facts = await app.transfers.backup(file, project_id, identity_here(settings))
            size = partial.stat().st_size
    if options.json:
        print_json({"file": options.output, "bytes": size, **_as_json(facts)}, indent=None)
    else:
        say(f"{_name(facts)}: {facts.rows} rows in {options.output} ({size / 1e6:.1f} MB)")
    return 0


async def restore(options: argparse.Namespace, settings: Settings) -> int:
    """Make a project of such a file, whole or not at all."""
    project_id = check_project_id(options.project)
    with opened(options.file) as file:
        async with await App.open(settings) as app:
            facts = await app.transfers.restore(
                file, options.file, project_id, replace=options.replace
            )
    if options.json:
        print_json(_as_json(facts), indent=None)
    else:
        say(f"{_name(facts)}: {facts.rows} rows restored")
    return 0


def _name(facts: BackupFacts) -> str:
    return f"Project {facts.project.project_id or '(default)'}"


def _as_json(facts: BackupFacts) -> dict[str, object]:
    return {
        "project_id": facts.project.project_id,
        "schema_name": facts.project.schema_name,
        "rows": facts.rows,
    }
