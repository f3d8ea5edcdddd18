"""Which tools are there, by name? Known before the module of any of them is loaded."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codebase_mcp.tools.toolset import ToolSpec

_TOOLS = {
    "code": "index_repository search_code",
    "indexing": "index_codebase get_indexing_status clear_index",
    "projects": "project create_project switch_project get_active_project list_projects",
    "tasks": "create_task get_task list_tasks update_task",
    "memory": "memory session",
    "vcs": "vcs",
    "symbols": "symbol",
    "agents": "agent",
    "entities": "register_entity_type create_entity query_entities update_entity delete_entity "
    "update_entity_type_schema",
    "work_items": "create_work_item update_work_item query_work_items get_work_item_hierarchy",
}

MODULES = {tool: module for module, tools in _TOOLS.items() for tool in tools.split()}
"""The module of each tool's toolset."""


def tool_named(name: str) -> ToolSpec:
    """One tool; of the others no more is loaded than shares its module."""
    from codebase_mcp.tools.toolset import Toolset  # noqa: PLC0415 - not for the names alone

    module = import_module(f"codebase_mcp.tools.{MODULES[name]}")
    toolsets = [value for value in vars(module).values() if isinstance(value, Toolset)]
    return next(tool for toolset in toolsets for tool in toolset.tools if tool.name == name)
