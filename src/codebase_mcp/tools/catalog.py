"""Finds tools by name, and loads no more toolsets than are needed for that."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from codebase_mcp.errors import UnknownTool
from codebase_mcp.settings.table import TOOLSET_OF, TOOLSETS

if TYPE_CHECKING:
    from codebase_mcp.tools.toolset import Toolset, ToolSpec


@cache
def toolset(name: str) -> Toolset:
    declared: Toolset = import_module(f"codebase_mcp.tools.{name}").TOOLSET
    return declared


def toolsets(names: Iterable[str] = TOOLSETS) -> list[Toolset]:
    """Some toolsets, in the order of the list of all."""
    chosen = set(names)
    return [toolset(name) for name in TOOLSETS if name in chosen]


def tools_of(names: Iterable[str]) -> list[ToolSpec]:
    return [tool for chosen in toolsets(names) for tool in chosen.tools]


def all_tools() -> list[ToolSpec]:
    return tools_of(TOOLSETS)


def tool_named(name: str) -> ToolSpec:
    """A tool that exists."""
    return next(tool for tool in toolset(TOOLSET_OF[name]).tools if tool.name == name)


def unknown_tool(name: str, shown: Collection[str]) -> UnknownTool:
    """Why a server that shows some tools has none of this name, and which tool may be meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - for errors alone

    from codebase_mcp.tools.arguments import error_value  # noqa: PLC0415

    message, details = f"Unknown tool: {error_value(name)}", {"tool": error_value(name)}
    near = [name] if name in TOOLSET_OF else get_close_matches(name[:100], TOOLSET_OF, n=1)
    if not near:
        hint = f"Tools here: {', '.join(shown)}. --toolsets all shows all there are."
        return UnknownTool(message, hint=hint, details=details)
    [nearest] = near
    owner = TOOLSET_OF[nearest]
    hint = "" if nearest == name else f"Did you mean {nearest}? "
    if nearest not in shown:
        names = dict.fromkeys([*(TOOLSET_OF[tool] for tool in shown), owner])
        hint += (
            f"{nearest} is in the toolset {owner}, which this server does not show: start it "
            f"with --toolsets {','.join(names)}."
        )
    details |= {"nearest": nearest, "toolset": owner}
    return UnknownTool(message, hint=hint.strip(), details=details)
