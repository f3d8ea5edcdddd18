"""Tasks, as a person sees them."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.showing import (
    anchors_from,
    coloured,
    console,
    local_time,
    open_tools,
    short_id,
    show_anchors,
)
from codebase_mcp.settings.loading import Settings


async def list_tasks(options: argparse.Namespace, settings: Settings) -> int:
    """A table of tasks, newest first."""
    wanted = {name: getattr(options, name, None) for name in ("status", "branch", "limit")}
    async with open_tools(options, settings) as tools:
        reply = await tools.call("list_tasks", **wanted)
    if options.json:
        return print_json(reply)
    tasks = reply["tasks"]
    if not tasks:
        console.print("No tasks. Add one: codebase-mcp tasks add TITLE")
        return 0
    table = Table("id", "status", Column("title", overflow="fold"), "branch", "changed", box=None)
    for task in tasks:
        table.add_row(
            short_id(task["id"]),
            coloured(task["status"]),
            Text(task["title"]),
            Text(task["branch"] or ""),
            local_time(task["updated_at"]),
        )
    console.print(table)
    if reply["total_count"] > len(tasks):
        console.print(f"{len(tasks)} of {reply['total_count']}", style="dim")
    return 0


async def add_task(options: argparse.Namespace, settings: Settings) -> int:
    """Add one and show it."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call(
            "create_task",
            title=" ".join(options.title),
            description=options.description,
            notes=options.notes,
            planning_references=options.reference,
            anchors=anchors_from(options.at),
        )
    return _show(reply, options)


async def show_task(options: argparse.Namespace, settings: Settings) -> int:
    """One task, whole."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call("get_task", task_id=await tools.find("task", options.id))
    return _show(reply, options)


async def update_task(options: argparse.Namespace, settings: Settings) -> int:
    """Change what is given; an empty text clears an optional field."""
    given: dict[str, Any] = {}
    for name in ("status", "title", "description", "notes", "branch", "commit"):
        value = getattr(options, name, None)
        if value is not None:
            given[name] = value if value or name in ("status", "title") else None
    anchors = anchors_from(getattr(options, "at", None))
    if anchors is not None:
        given["anchors"] = anchors
    async with open_tools(options, settings) as tools:
        given["task_id"] = await tools.find("task", options.id)
        reply = await tools.call_with("update_task", given)
    return _show(reply, options)


def _show(task: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        return print_json(task)
    console.print(Text.assemble((task["title"], "bold"), "  ", coloured(task["status"])))
    console.print(f"  {task['id']}  created {local_time(task['created_at'])}", style="dim")
    for name in ("branch", "commit", "description", "notes"):
        if task[name]:
            console.print(Text(f"  {name}: {task[name]}"))
    for reference in task["planning_references"]:
        console.print(Text(f"  see {reference}"))
    show_anchors(task["anchors"])
    for event in task.get("history") or ():
        line = Text(f"  {local_time(event['at'])}  {event['field']}: {_change(event)}")
        console.print(line, style="dim")
    return 0


def _change(event: dict[str, Any]) -> str:
    """What was changed to what."""
    if event["from"] is None:
        return str(event["to"])
    return f"{event['from']} → {event['to'] or 'none'}"
