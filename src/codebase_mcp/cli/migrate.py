"""Bring the database up to date now, not when it is next used."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from codebase_mcp.app.app import App
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.showing import counted
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.database.upgrade import SchemaState
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id


async def migrate(options: argparse.Namespace, settings: Settings) -> int:
    """Migrate schemas, or with ``--check`` say which are behind: then 1 if there are any."""
    project_id = check_project_id(options.project)
    async with await App.open(settings) as app:
        states = await app.transfers.migrate(project_id, every=options.all, check=options.check)
    if options.json:
        print_json([asdict(state) for state in states])
    else:
        table = Table("schema", "version", "state", box=None)
        for state in states:
            table.add_row(state.schema_name, str(state.version), _in_words(state))
        Terminal().print(table)
    return 1 if any(state.behind or state.problem for state in states) else 0


def _in_words(state: SchemaState) -> Text:
    if state.problem is not None:
        return Text(state.problem, "red")
    if state.behind:
        return Text(f"{counted(state.behind, 'migration')} pending", "yellow")
    return Text(f"{counted(state.applied, 'migration')} applied" if state.applied else "up to date")
