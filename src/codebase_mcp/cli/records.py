"""Tasks, memory and work items from the shell: options become arguments of a tool, whose reply is
printed."""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from codebase_mcp.cli.output import local_time, print_json
from codebase_mcp.cli.shell import Shell, open_shell
from codebase_mcp.cli.terminal import console
from codebase_mcp.records.page import Shown, whole_id
from codebase_mcp.records.work_items import root_ids
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.catalog import tool_named

# A terminal shows at most this number of trees.
MAX_ROOTS = 100

_COLOURS = {
    "complete": "green", "completed": "green", "in-progress": "yellow", "active": "yellow",
    "blocked": "red", "needs_review": "red",
}  # fmt: skip

# Parameters that a user may shorten to the first digits of an id, each with the record's kind.
_IDS: dict[str, Shown] = {
    "task_id": "task", "work_item_id": "work_item", "parent_id": "work_item", "ids": "observation"
}  # fmt: skip


async def call(options: argparse.Namespace, settings: Settings) -> int:
    """Call ``options.tool`` with the options that are named as its parameters, print its reply."""
    async with open_shell(settings) as shell:
        reply = await shell.call(options.tool, await _arguments(shell, options))
    if options.json:
        return print_json(reply)
    if "tasks" in reply:
        columns = {"status": "status", "title": "title", "branch": "branch"}
        _show_table(reply["tasks"], columns, reply["total_count"], options.nothing)
    elif "work_items" in reply:
        columns = {"item_type": "type", "status": "status", "title": "title"}
        _show_table(reply["work_items"], columns, reply["total"], options.nothing)
    elif "observations" in reply:
        if not reply["observations"]:
            console.print(options.nothing)
        for observation in reply["observations"]:
            _show_observation(observation)
        if reply.get("deduplicated"):
            console.print("  already stored", style="dim")
    else:
        _show_record(reply)
    return 0


async def show_tree(options: argparse.Namespace, settings: Settings) -> int:
    """Print the tree below a work item, or all trees."""
    async with open_shell(settings) as shell:
        if beginning := getattr(options, "work_item_id", None):
            roots = [await _whole_id(shell, options, "work_item", beginning)]
        else:
            async with (await shell.app()).enter(
                options.project, shell.identity, readonly=True
            ) as at:
                roots = [str(root) for root in await root_ids(at.tx, MAX_ROOTS)]
        project = {} if options.project is None else {"project_id": options.project}
        replies = [
            await shell.call("get_work_item_hierarchy", {"work_item_id": root, **project})
            for root in roots
        ]
    if options.json:
        return print_json({"trees": replies})
    if not replies:
        console.print(options.nothing)
    for reply in replies:
        for ancestor in reply["ancestors"]:
            console.print(Text(f"{ancestor['title']} /", style="dim"))
        console.print(_tree(reply["work_item"], reply["descendants"]))
        if reply.get("truncated"):
            console.print(f"… {reply['descendants_total']} items below in all", style="dim")
    return 0


async def _arguments(shell: Shell, options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the tool; an empty text clears an optional field of a record."""
    options.project_id = options.project
    spec = tool_named(options.tool)
    names = set(spec.input_schema()["properties"])
    if spec.operations:
        names = {"operation", "project_id", *spec.operations[options.operation].parameters}
    arguments: dict[str, Any] = {}
    for name in names:
        value = getattr(options, name, None)
        if value is None:
            continue
        if name in ("title", "query", "content") and isinstance(value, list):
            value = " ".join(value)
        elif name == "anchors":
            value = [_anchor(text) for text in value]
        elif kind := _IDS.get(name):
            whole = await _whole_id(shell, options, kind, value)
            value = [whole] if name == "ids" else whole
        elif value == "" and options.tool.startswith("update_"):
            value = None
        arguments[name] = value
    return arguments


async def _whole_id(shell: Shell, options: argparse.Namespace, kind: Shown, beginning: str) -> str:
    async with (await shell.app()).enter(options.project, shell.identity, readonly=True) as at:
        return str(await whole_id(at.tx, kind, beginning))


def _anchor(text: str) -> dict[str, str]:
    """``src/a.py:Session.close`` as an anchor."""
    file, _, symbol = text.partition(":")
    return {"file": file, "symbol": symbol} if symbol else {"file": file}


def _show_table(
    records: list[dict[str, Any]], columns: dict[str, str], total: int, nothing: str
) -> None:
    """Print records, a row each; ``columns`` maps fields to headings."""
    if not records:
        console.print(nothing)
        return
    table = Table("id", *(Column(name, overflow="fold") for name in columns.values()), box=None)
    table.add_column("changed")
    for record in records:
        cells = (
            _coloured(record[field]) if field == "status" else Text(record[field] or "")
            for field in columns
        )
        table.add_row(record["id"][:8], *cells, local_time(record["updated_at"]))
    console.print(table)
    console.print(f"{len(records)} of {total}", style="dim")


def _show_record(record: dict[str, Any]) -> None:
    console.print(_label(record))
    console.print(f"  {record['id']}  created {local_time(record['created_at'])}", style="dim")
    for name in ("branch", "commit", "description", "notes"):
        if record.get(name):
            console.print(Text(f"  {name}: {record[name]}"))
    for reference in record.get("planning_references", ()):
        console.print(Text(f"  see {reference}"))
    _show_anchors(record["anchors"])
    for event in record.get("history") or ():
        change = f"{event['from']} → {event['to'] or 'none'}" if event["from"] else event["to"]
        line = f"  {local_time(event['at'])}  {event['field']}: {change}"
        console.print(Text(line), style="dim")


def _show_observation(observation: dict[str, Any]) -> None:
    score = observation["relevance_score"]
    console.print(
        Text.assemble(
            (observation["id"][:8], "bold"),
            f"  {observation['type']}",
            (f"  {local_time(observation['created_at'])}", "dim"),
            ("".join(f"  #{tag}" for tag in observation["tags"]), "cyan"),
            (f"  {score:.2f}" if score is not None else "", "green"),
        )
    )
    for line in observation["content"].splitlines():
        console.print(Text(f"  {line}"))
    _show_anchors(observation["anchors"])


def _show_anchors(anchors: list[dict[str, Any]]) -> None:
    for anchor in anchors:
        name = ":".join(part for part in (anchor["file"], anchor["symbol"]) if part)
        line = f" line {anchor['start_line']}" if anchor["start_line"] else ""
        text = Text(f"  at {name or anchor['commit']}{line}")
        if anchor["state"] != "current":
            text.append(f"  needs review: {anchor['reason']}", style="red")
        console.print(text)


def _tree(root: dict[str, Any], below: list[dict[str, Any]]) -> Tree:
    children: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in below:
        children[item["parent_id"]].append(item)
    tree = Tree(_label(root))
    waiting = [(tree, root["id"])]
    while waiting:
        branch, identity = waiting.pop()
        waiting += [(branch.add(_label(item)), item["id"]) for item in children[identity]]
    return tree


def _label(record: dict[str, Any]) -> Text:
    """A task or a work item in a line."""
    label = Text.assemble((record["title"], "bold"), "  ", _coloured(record["status"]))
    if "item_type" in record:
        label.append(f"  {record['item_type']} {record['id'][:8]}", style="dim")
    return label


def _coloured(status: str) -> Text:
    return Text(status, style=_COLOURS.get(status, ""))
