"""Bring the database up to date now, not when it is next used."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from codebase_mcp.app import App
from codebase_mcp.cli.showing import counted
from codebase_mcp.database.upgrade import SchemaState
from codebase_mcp.settings import Settings
from codebase_mcp.tools.rules import check_project_id


async def migrate(options: argparse.Namespace, settings: Settings) -> int:
    """Migrate schemas, or with ``--check`` say which are behind: then 1 if there are any."""
    project_id = check_project_id(options.project)
    async with await App.open(settings) as app:
        states = await app.transfers.migrate(project_id, every=options.all, check=options.check)
    if options.json:
        print(json.dumps([asdict(state) for state in states], ensure_ascii=False, indent=2))
    else:
        table = Table("schema", "version", "state", box=None)
        for state in states:
            table.add_row(state.schema_name, str(state.version), _in_words(state))
        Console(highlight=False).print(table)
    return 1 if any(state.behind or state.problem for state in states) else 0


def _in_words(state: SchemaState) -> str:
    if state.problem is not None:
        return f"[red]{state.problem}[/]"
    if state.behind:
        return f"[yellow]{counted(state.behind, 'migration')} pending[/]"
    return f"{counted(state.applied, 'migration')} applied" if state.applied else "up to date"
