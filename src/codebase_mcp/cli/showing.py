"""What the commands for records have in common: calling, ids that people can type, printing."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from codebase_mcp.cli.calling import Shell, open_shell
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.records.ids import Shown, whole_id
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id

console = Terminal()

_COLOURS = {
    "complete": "green", "completed": "green", "in-progress": "yellow", "active": "yellow",
    "blocked": "red", "needs_review": "red",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProjectTools:
    """Calls the tools for one command, in the project that it names."""

    shell: Shell
    project: str | None

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's reply; arguments that are None are left out."""
        return await self.call_with(tool, {k: v for k, v in arguments.items() if v is not None})

    async def call_with(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's reply; None is passed on."""
        given = arguments if self.project is None else {**arguments, "project_id": self.project}
        return await self.shell.call(tool, given)

    async def find(self, kind: Shown, beginning: str) -> str:
        """The whole id of the record whose id has this beginning."""
        app, project_id = await self.shell.app(), check_project_id(self.project)
        async with app.enter(project_id, self.shell.identity, readonly=True) as here:
            return str(await whole_id(here.tx, kind, beginning))


@asynccontextmanager
async def open_tools(
    options: argparse.Namespace, settings: Settings
) -> AsyncIterator[ProjectTools]:
    """The tools, opened for one command."""
    async with open_shell(settings) as shell:
        yield ProjectTools(shell, options.project)


def anchors_from(given: list[str] | None) -> list[dict[str, str]] | None:
    """``src/a.py:Session.close`` as an anchor."""
    if given is None:
        return None
    found = []
    for text in given:
        file, _, symbol = text.partition(":")
        found.append({"file": file} | ({"symbol": symbol} if symbol else {}))
    return found


def encoding_counts(encodings: Mapping[str, int]) -> str:
    """How many files are not in UTF-8, by encoding."""
    counts = ", ".join(f"{number} in {name}" for name, number in encodings.items())
    return f"not UTF-8: {counts}"


def counted(count: int, noun: str) -> str:
    """How many there are: 1 file, 2 files."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def short_id(identity: str) -> str:
    """The first digits of an id, enough to distinguish records."""
    return identity[:8]


def local_time(time: str | None) -> str:
    """A time in the local time zone."""
    if time is None:
        return ""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def coloured(status: str) -> Text:
    """A status, in its colour."""
    return Text(status, style=_COLOURS.get(status, ""))


def show_anchors(anchors: list[dict[str, Any]]) -> None:
    """The places in the code that a record is about."""
    for anchor in anchors:
        name = ":".join(part for part in (anchor["file"], anchor["symbol"]) if part)
        line = f" line {anchor['start_line']}" if anchor["start_line"] else ""
        text = Text(f"  at {name or anchor['commit']}{line}")
        if anchor["state"] != "current":
            text.append(f"  needs review: {anchor['reason']}", style="red")
        console.print(text)
