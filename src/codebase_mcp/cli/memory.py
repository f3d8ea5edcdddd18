"""Memory, as a person sees it."""

from __future__ import annotations

import argparse
from typing import Any

from rich.text import Text

from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.showing import (
    anchors_from,
    console,
    local_time,
    open_tools,
    short_id,
    show_anchors,
)
from codebase_mcp.settings.loading import Settings


async def list_newest(options: argparse.Namespace, settings: Settings) -> int:
    """The newest observations, oldest of them first, as in a log."""
    limit = getattr(options, "limit", "10")
    async with open_tools(options, settings) as tools:
        reply = await tools.call("memory", operation="timeline", depth_before=limit, depth_after=0)
    return _show(reply, options, "No observations. Add one: codebase-mcp memory add TEXT")


async def search(options: argparse.Namespace, settings: Settings) -> int:
    """What answers a question, best first."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call(
            "memory",
            operation="search",
            query=" ".join(options.query),
            observation_type=options.type,
            tags=options.tag,
            limit=options.limit,
        )
    return _show(reply, options, "No observation matches the query.")


async def add(options: argparse.Namespace, settings: Settings) -> int:
    """Remember a text."""
    async with open_tools(options, settings) as tools:
        reply = await tools.call(
            "memory",
            operation="store",
            content=" ".join(options.content),
            observation_type=options.type,
            tags=options.tag,
            anchors=anchors_from(options.at),
        )
    if options.json:
        return print_json(reply)
    _show_one(reply["observations"][0])
    if reply.get("deduplicated"):
        console.print("  already stored", style="dim")
    return 0


async def show(options: argparse.Namespace, settings: Settings) -> int:
    """One observation, whole."""
    async with open_tools(options, settings) as tools:
        identity = await tools.find("observation", options.id)
        reply = await tools.call("memory", operation="get", ids=[identity])
    return _show(reply, options, "")


def _show(reply: dict[str, Any], options: argparse.Namespace, nothing: str) -> int:
    if options.json:
        return print_json(reply)
    if not reply["observations"]:
        console.print(nothing)
    for observation in reply["observations"]:
        _show_one(observation)
    return 0


def _show_one(observation: dict[str, Any]) -> None:
    score = observation["relevance_score"]
    console.print(
        Text.assemble(
            (short_id(observation["id"]), "bold"),
            f"  {observation['type']}",
            (f"  {local_time(observation['created_at'])}", "dim"),
            ("".join(f"  #{tag}" for tag in observation["tags"]), "cyan"),
            (f"  {score:.2f}" if score is not None else "", "green"),
        )
    )
    for line in observation["content"].splitlines():
        console.print(Text(f"  {line}"))
    show_anchors(observation["anchors"])
