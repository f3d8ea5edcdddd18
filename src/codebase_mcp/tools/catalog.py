"""Which tools are there? The only list of toolsets."""

from __future__ import annotations

from collections.abc import Iterable

from codebase_mcp.tools.agents import AGENTS
from codebase_mcp.tools.code import CODE
from codebase_mcp.tools.entities import ENTITIES
from codebase_mcp.tools.indexing import INDEX
from codebase_mcp.tools.memory import MEMORY
from codebase_mcp.tools.projects import PROJECTS
from codebase_mcp.tools.tasks import TASKS
from codebase_mcp.tools.toolset import Toolset, ToolSpec
from codebase_mcp.tools.work_items import WORK_ITEMS

TOOLSETS: tuple[Toolset, ...] = (CODE, INDEX, PROJECTS, TASKS, MEMORY, AGENTS, ENTITIES, WORK_ITEMS)


def tools_of(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    """The tools of some toolsets, in the order of the catalogue."""
    wanted = set(names)
    return tuple(tool for toolset in TOOLSETS if toolset.name in wanted for tool in toolset.tools)


def all_tools() -> tuple[ToolSpec, ...]:
    """Every tool of every toolset."""
    return tuple(tool for toolset in TOOLSETS for tool in toolset.tools)
