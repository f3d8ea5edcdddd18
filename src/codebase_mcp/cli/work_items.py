"""Work items, as a person sees them: a tree."""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.showing import (
    ProjectTools,
    anchors_from,
    coloured,
    console,
    local_time,
    open_tools,
    short_id,
    show_anchors,
)
from codebase_mcp.records.work_items import root_ids
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id

# A terminal shows no more of a tree.
MAX_ROOTS = 100


async def show_tree(options: argparse.Namespace, settings: Settings) -> int:
    """One item with all below it, or all roots with theirs."""
    beginning = getattr(options, "id", None)
    async with open_tools(options, settings) as tools:
        roots = [await tools.find("work_item", beginning)] if beginning else await _roots(tools)
        replies = [await tools.call("get_work_item_hierarchy", work_item_id=root) for root in roots]
    if options.json:
        return print_json({"trees": replies})
    if not replies:
        console.print("No work items. Add one: codebase-mcp work-items add project TITLE")
    for reply in replies:
        for ancestor in reply["ancestors"]:
            console.print(Text(f"{ancestor['title']} /", style="dim"))
        console.print(_tree(reply["work_item"], reply["descendants"]))
        if reply.get("truncated"):
            console.print(f"… {reply['descendants_total']} items below in all", style="dim")
    return 0


async def list_items(options: argparse.Namespace, settings: Settings) -> int:
    """A table of items, newest first."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call(
            "query_work_items",
            status=options.status,
            item_type=options.type,
            limit=options.limit,
        )
    if options.json:
        return print_json(reply)
    table = Table("id", "type", "status", Column("title", overflow="fold"), "changed", box=None)
    for item in reply["work_items"]:
        table.add_row(
            short_id(item["id"]),
            item["item_type"],
            coloured(item["status"]),
            Text(item["title"]),
            local_time(item["updated_at"]),
        )
    console.print(table)
    console.print(f"{len(reply['work_items'])} of {reply['total']}", style="dim")
    return 0


async def add_item(options: argparse.Namespace, settings: Settings) -> int:
    """Add one and show it."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call(
            "create_work_item",
            item_type=options.type,
            title=" ".join(options.title),
            description=options.description,
            status=options.status,
            parent_id=options.parent and await tools.find("work_item", options.parent),
            anchors=anchors_from(options.at),
        )
    return _show(reply, options)


async def update_item(options: argparse.Namespace, settings: Settings) -> int:
    """Change what is given."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call(
            "update_work_item",
            work_item_id=await tools.find("work_item", options.id),
            title=options.title,
            description=options.description,
            status=options.status,
            anchors=anchors_from(options.at),
        )
    return _show(reply, options)


async def _roots(tools: ProjectTools) -> list[str]:
    """The ids of the items without a parent, oldest first."""
    app, project_id = await tools.shell.app(), check_project_id(tools.project)
    async with app.enter(project_id, tools.shell.identity, readonly=True) as here:
        return [str(root) for root in await root_ids(here.tx, MAX_ROOTS)]


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


def _label(item: dict[str, Any]) -> Text:
    return Text.assemble(
        item["title"],
        "  ",
        coloured(item["status"]),
        (f"  {item['item_type']} {short_id(item['id'])}", "dim"),
    )


def _show(item: dict[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        return print_json(item)
    console.print(_label(item))
    console.print(f"  {item['id']}  created {local_time(item['created_at'])}", style="dim")
    if item["description"]:
        console.print(Text(f"  {item['description']}"))
    show_anchors(item["anchors"])
    return 0
