"""The commands for records: tasks, memory, work items, and moving them between databases."""

from __future__ import annotations

from typing import Any, get_args

from codebase_mcp.cli.command import Command, Option, flag, option
from codebase_mcp.records.vocabulary import (
    ObservationType,
    TaskStatus,
    WorkItemStatus,
    WorkItemType,
)

# The destinations of the records' options are the parameters of the tool that `records:call` calls.
_ANCHORS = option(
    "--at",
    "a place in the code to link; may be repeated",
    dest="anchors",
    action="append",
    metavar="FILE[:SYMBOL]",
)
_TITLE = option("title", "a short title", nargs="+")
_DESCRIPTION = option("--description", "what to do, and how to check the result")


def _limit(default: int, parameter: str = "limit") -> Option:
    return option("--limit", "maximum number", dest=parameter, metavar="N", default=default)


def _id(parameter: str) -> Option:
    return option(parameter, "its id, or the first digits of it", metavar="id")


def _choice(name: str, help: str, values: Any, **arguments: Any) -> Option:
    return option(name, help, choices=get_args(values), **arguments)


def _type_and_tags(type_help: str, tag_help: str, **arguments: Any) -> tuple[Option, Option]:
    tags = option(
        "--tag", f"{tag_help}; may be repeated", dest="tags", metavar="TAG", action="append"
    )
    return (
        _choice("--type", type_help, ObservationType, dest="observation_type", **arguments),
        tags,
    )


def _action(name: str, summary: str, tool: str, *options: Option, **defaults: Any) -> Command:
    """An action that calls a tool; ``defaults`` are arguments, and what to print for no records."""
    return Command(name, summary, "records:call", options, defaults={"tool": tool, **defaults})


_NO_TASKS = {"nothing": "No tasks. Add one: codebase-mcp tasks add TITLE"}
_NO_ITEMS = {"nothing": "No work items. Add one: codebase-mcp work-items add project TITLE"}
_NEWEST = {
    "operation": "timeline",
    "depth_after": 0,
    "nothing": "No observations. Add one: codebase-mcp memory add TEXT",
}

RECORD_COMMANDS = (
    Command(
        "tasks",
        "List, add and change tasks",
        "records:call",
        defaults={"tool": "list_tasks", **_NO_TASKS},
        actions=(
            _action(
                "list",
                "List tasks, newest first",
                "list_tasks",
                _choice("--status", "only tasks with this status", TaskStatus),
                option("--branch", "only tasks of branches whose names begin with this"),
                _limit(20),
                **_NO_TASKS,
            ),
            _action(
                "add",
                "Add a task",
                "create_task",
                _TITLE,
                _DESCRIPTION,
                option("--notes", "findings and decisions"),
                option(
                    "--reference",
                    "a planning document; may be repeated",
                    dest="planning_references",
                    action="append",
                    metavar="PATH",
                ),
                _ANCHORS,
            ),
            _action("show", "Show a task with its history", "get_task", _id("task_id")),
            _action(
                "update",
                "Change a task",
                "update_task",
                _id("task_id"),
                _choice("--status", "the new status", TaskStatus),
                option("--title", "the new title"),
                option("--description", "the new description; an empty text removes the old"),
                option("--notes", "the new notes; an empty text removes the old"),
                option("--branch", "a Git branch to link; an empty text unlinks it"),
                option("--commit", "a full commit hash to link; an empty text unlinks it"),
                _ANCHORS,
            ),
            *(
                _action(
                    name, f"Set a task to {status}", "update_task", _id("task_id"), status=status
                )
                for name, status in (("start", "in-progress"), ("done", "complete"))
            ),
        ),
    ),
    Command(
        "memory",
        "Search and add decisions, results and findings",
        "records:call",
        defaults={"tool": "memory", "depth_before": "10", **_NEWEST},
        actions=(
            _action(
                "list",
                "List the newest observations",
                "memory",
                _limit(10, "depth_before"),
                **_NEWEST,
            ),
            _action(
                "search",
                "Search by meaning and by words",
                "memory",
                option("query", "a question or words", nargs="+"),
                *_type_and_tags("only this type", "only with this tag"),
                _limit(10),
                operation="search",
                nothing="No observation matches the query.",
            ),
            _action(
                "add",
                "Add an observation",
                "memory",
                option("content", "the text to remember", nargs="+"),
                *_type_and_tags("its type", "a tag", default="Insight"),
                _ANCHORS,
                operation="store",
            ),
            _action("show", "Show a whole observation", "memory", _id("ids"), operation="get"),
        ),
    ),
    Command(
        "work-items",
        "Show the tree of work items, add to it and change it",
        "records:show_tree",
        defaults=_NO_ITEMS,
        actions=(
            Command(
                "tree",
                "Show the tree, or a part of it",
                "records:show_tree",
                (
                    option(
                        "work_item_id",
                        "an item's id, or the first digits of it",
                        metavar="id",
                        nargs="?",
                    ),
                ),
            ),
            _action(
                "list",
                "List items, newest first",
                "query_work_items",
                _choice("--status", "only this status", WorkItemStatus),
                _choice("--type", "only this type", WorkItemType, dest="item_type"),
                _limit(50),
                **_NO_ITEMS,
            ),
            _action(
                "add",
                "Add an item",
                "create_work_item",
                _choice("item_type", "its level in the tree", WorkItemType),
                _TITLE,
                option(
                    "--parent",
                    "the parent's id, or the first digits of it",
                    dest="parent_id",
                    metavar="ID",
                ),
                _DESCRIPTION,
                _choice("--status", "its status (planned)", WorkItemStatus),
                _ANCHORS,
            ),
            _action(
                "update",
                "Change an item",
                "update_work_item",
                _id("work_item_id"),
                _choice("--status", "the new status", WorkItemStatus),
                option("--title", "the new title"),
                option("--description", "the new description"),
                _ANCHORS,
            ),
        ),
    ),
    Command(
        "export",
        "Write a project's records as JSON Lines",
        "data:export_records",
        (option("--output", "where to write (standard output)", metavar="FILE"),),
    ),
    Command(
        "import",
        "Read exported records into a project: all of them, or none",
        "data:import_records",
        (
            option("file", "the exported file, or - for standard input"),
            flag("--dry-run", "check the file, store nothing"),
        ),
    ),
)
