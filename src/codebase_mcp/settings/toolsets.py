"""The toolsets, their tools by name, and the toolsets that are chosen together.

The only list: settings and commands read it without loading a tool. The module
`codebase_mcp.tools.NAME` declares the tools of the toolset NAME.
"""

from __future__ import annotations

TOOLS = {
    "code": ("index_repository", "search_code"),
    "index": ("index_codebase", "get_indexing_status", "clear_index"),
    "projects": (
        "project", "create_project", "switch_project", "get_active_project", "list_projects",
    ),
    "tasks": ("create_task", "get_task", "list_tasks", "update_task"),
    "memory": ("memory", "session"),
    "vcs": ("vcs",),
    "find": ("find_text",),
    "symbols": ("symbol",),
    "agents": ("agent",),
    "entities": (
        "register_entity_type", "create_entity", "query_entities", "update_entity",
        "delete_entity", "update_entity_type_schema",
    ),
    "work_items": (
        "create_work_item", "update_work_item", "query_work_items", "get_work_item_hierarchy",
    ),
}  # fmt: skip
TOOLSETS = tuple(TOOLS)
TOOLSET_OF = {tool: toolset for toolset, tools in TOOLS.items() for tool in tools}
DEFAULT_TOOLSETS = ("code",)
# Coding agents get more toolsets, as they use only the tools that they see.
PRESETS = {"agent": ("code", "find", "symbols")}
