"""Which tools are there? The only list of toolsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from codebase_mcp.errors import UnknownTool
from codebase_mcp.tools.agents import AGENTS
from codebase_mcp.tools.code import CODE
from codebase_mcp.tools.entities import ENTITIES
from codebase_mcp.tools.indexing import INDEX
from codebase_mcp.tools.memory import MEMORY
from codebase_mcp.tools.problems import error_value
from codebase_mcp.tools.projects import PROJECTS
from codebase_mcp.tools.symbols import SYMBOLS
from codebase_mcp.tools.tasks import TASKS
from codebase_mcp.tools.toolset import Toolset, ToolSpec
from codebase_mcp.tools.vcs import VCS
from codebase_mcp.tools.work_items import WORK_ITEMS

TOOLSETS: tuple[Toolset, ...] = (
    CODE,
    INDEX,
    PROJECTS,
    TASKS,
    MEMORY,
    VCS,
    SYMBOLS,
    AGENTS,
    ENTITIES,
    WORK_ITEMS,
)


def tools_of(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    """The tools of some toolsets, in the order of the catalogue."""
    wanted = set(names)
    return tuple(tool for toolset in TOOLSETS if toolset.name in wanted for tool in toolset.tools)


def all_tools() -> tuple[ToolSpec, ...]:
    """Every tool of every toolset."""
    return tuple(tool for toolset in TOOLSETS for tool in toolset.tools)


def unknown_tool(name: str, here: Collection[str]) -> UnknownTool:
    """Why a server that shows some tools has none of this name, and which one may be meant."""
    toolset_of = {tool.name: toolset.name for toolset in TOOLSETS for tool in toolset.tools}
    message, details = f"Unknown tool: {error_value(name)}", {"tool": error_value(name)}
    near = [name] if name in toolset_of else get_close_matches(name[:100], toolset_of, n=1)
    if not near:
        hint = f"Tools here: {', '.join(here)}. --toolsets all shows all there are."
        return UnknownTool(message, hint=hint, details=details)
    [nearest] = near
    toolset = toolset_of[nearest]
    hint = "" if nearest == name else f"Did you mean {nearest}? "
    if nearest not in here:
        toolsets = dict.fromkeys([*(toolset_of[tool] for tool in here), toolset])
        hint += (
            f"{nearest} is in the toolset {toolset}, which this server does not show: start it "
            f"with --toolsets {','.join(toolsets)}."
        )
    details |= {"nearest": nearest, "toolset": toolset}
    return UnknownTool(message, hint=hint.strip(), details=details)
