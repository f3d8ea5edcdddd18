"""Which tools are there? The only list of toolsets."""

from __future__ import annotations

from collections.abc import Iterable

from codebase_mcp.tools.code import CODE
from codebase_mcp.tools.toolset import Toolset, ToolSpec

TOOLSETS: tuple[Toolset, ...] = (CODE,)


def tools_of(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    """The tools of some toolsets, in the order of the catalogue."""
    wanted = set(names)
    return tuple(tool for toolset in TOOLSETS if toolset.name in wanted for tool in toolset.tools)


def all_tools() -> tuple[ToolSpec, ...]:
    """Every tool of every toolset."""
    return tuple(tool for toolset in TOOLSETS for tool in toolset.tools)
