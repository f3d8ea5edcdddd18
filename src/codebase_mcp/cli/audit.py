"""Show the audit log: who called what, when, and how it ended."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.table import Table

from codebase_mcp.app.app import App
from codebase_mcp.background.audit import AuditEntry, load_entries
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.showing import console, local_time
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MOST = 1_000_000


async def audit(options: argparse.Namespace, settings: Settings) -> int:
    """The newest entries since a time, the oldest of them first."""
    since = datetime.now(UTC) - age_of(options.since)
    limit = int(options.limit) if options.limit.isdecimal() else 0
    if not 1 <= limit <= _MOST:
        raise InvalidInput.of("limit", options.limit, "Invalid limit", rule=f"1 to {_MOST}")
    project_id = check_project_id(options.project)
    async with await App.open(settings, only_once=True) as app:
        entries = await load_entries(
            app.database, since=since, owner=options.owner, project_id=project_id, limit=limit
        )
    if options.json:
        return print_json({"entries": [_as_json(entry) for entry in entries]})
    if not entries:
        console.print("There are no entries. Servers over HTTP make them.")
        return 0
    table = Table("at", "who", "tool", "project", "outcome", "ms", box=None)
    for entry in entries:
        who = " ".join(filter(None, (entry.owner or "-", entry.key_id, entry.peer)))
        tool = " ".join(filter(None, (entry.tool, entry.operation)))
        at, took = local_time(entry.at.isoformat()), f"{entry.duration_ms:.0f}"
        table.add_row(at, who, tool, entry.project_id or "-", entry.outcome, took)
    console.print(table)
    return 0


def age_of(text: str) -> timedelta:
    """A span of time such as ``90m``, ``12h``, ``7d`` or ``2w``.

    Raises:
        InvalidInput: it is not one.
    """
    found = re.fullmatch(r"([0-9]{1,4})([mhdw])", text)
    if found is None:
        rule = "a number and m, h, d or w, such as 90m, 12h, 7d, 2w"
        raise InvalidInput.of("since", text, f"Invalid since: {text}", rule=rule)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _as_json(entry: AuditEntry) -> dict[str, Any]:
    return {**asdict(entry), "at": entry.at.isoformat(), "duration_ms": round(entry.duration_ms, 2)}
