"""The commands for the records of a project: tasks, memory, work items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from codebase_mcp.cli.command import Command
from codebase_mcp.cli.flags import SettingsParser
from codebase_mcp.records.vocabulary import (
    ObservationType,
    TaskStatus,
    WorkItemStatus,
    WorkItemType,
)

TASK_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
WORK_ITEM_STATUSES: tuple[WorkItemStatus, ...] = get_args(WorkItemStatus)
WORK_ITEM_TYPES: tuple[WorkItemType, ...] = get_args(WorkItemType)
OBSERVATION_TYPES: tuple[ObservationType, ...] = get_args(ObservationType)


# The destinations of options are the parameters of the tool that `records:call` calls.


def _limit(parser: SettingsParser, default: str, parameter: str = "limit") -> None:
    text = f"maximum number ({default})"
    parser.add_argument("--limit", dest=parameter, metavar="LIMIT", default=default, help=text)


def _anchor(parser: SettingsParser) -> None:
    parser.add_argument(
        "--at",
        dest="anchors",
        action="append",
        metavar="FILE[:SYMBOL]",
        help="a place in the code to link; may be repeated",
    )


def _id(parameter: str) -> Callable[[SettingsParser], None]:
    def add(parser: SettingsParser) -> None:
        parser.add_argument(parameter, metavar="id", help="its id, or the first digits of it")

    return add


def _new_task(parser: SettingsParser) -> None:
    parser.add_argument("title", nargs="+", help="a short title")
    parser.add_argument("--description", help="what to do, and how to check the result")
    parser.add_argument("--notes", help="findings and decisions")
    parser.add_argument(
        "--reference",
        dest="planning_references",
        action="append",
        metavar="PATH",
        help="a planning document; may be repeated",
    )
    _anchor(parser)


def _task_filters(parser: SettingsParser) -> None:
    parser.add_argument("--status", choices=TASK_STATUSES, help="only tasks with this status")
    parser.add_argument("--branch", help="only tasks of branches whose names begin with this")
    _limit(parser, "20")


def _task_changes(parser: SettingsParser) -> None:
    _id("task_id")(parser)
    parser.add_argument("--status", choices=TASK_STATUSES, help="the new status")
    parser.add_argument("--title", help="the new title")
    for name in ("description", "notes"):
        parser.add_argument(f"--{name}", help=f"the new {name}; an empty text removes the old")
    parser.add_argument("--branch", help="a Git branch to link; an empty text unlinks it")
    parser.add_argument("--commit", help="a full commit hash to link; an empty text unlinks it")
    _anchor(parser)


def _action(
    name: str,
    summary: str,
    tool: str,
    add_options: Callable[[SettingsParser], None],
    **defaults: Any,
) -> Command:
    """An action that calls a tool; ``defaults`` are arguments, and what to print for no records."""
    return Command(name, summary, "records:call", add_options, defaults={"tool": tool, **defaults})


_NO_TASKS = {"nothing": "No tasks. Add one: codebase-mcp tasks add TITLE"}
TASKS = Command(
    "tasks",
    "List, add and change tasks",
    "records:call",
    defaults={"tool": "list_tasks", **_NO_TASKS},
    actions=(
        _action("list", "List tasks, newest first", "list_tasks", _task_filters, **_NO_TASKS),
        _action("add", "Add a task", "create_task", _new_task),
        _action("show", "Show a task with its history", "get_task", _id("task_id")),
        _action("update", "Change a task", "update_task", _task_changes),
        *(
            _action(name, f"Set a task to {status}", "update_task", _id("task_id"), status=status)
            for name, status in (("start", "in-progress"), ("done", "complete"))
        ),
    ),
)


def _newest_observations(parser: SettingsParser) -> None:
    _limit(parser, "10", "depth_before")


def _observation_query(parser: SettingsParser) -> None:
    parser.add_argument("query", nargs="+", help="a question or words")
    _type_and_tags(parser, "only this type", "only with this tag")
    _limit(parser, "10")


def _new_observation(parser: SettingsParser) -> None:
    parser.add_argument("content", nargs="+", help="the text to remember")
    _type_and_tags(parser, "its type (Insight)", "a tag", default_type="Insight")
    _anchor(parser)


def _type_and_tags(
    parser: SettingsParser, type_help: str, tag_help: str, default_type: str | None = None
) -> None:
    parser.add_argument(
        "--type",
        dest="observation_type",
        choices=OBSERVATION_TYPES,
        default=default_type,
        help=type_help,
    )
    parser.add_argument(
        "--tag", dest="tags", metavar="TAG", action="append", help=f"{tag_help}; may be repeated"
    )


_NEWEST = {
    "operation": "timeline",
    "depth_after": 0,
    "nothing": "No observations. Add one: codebase-mcp memory add TEXT",
}
MEMORY = Command(
    "memory",
    "Search and add decisions, results and findings",
    "records:call",
    defaults={"tool": "memory", "depth_before": "10", **_NEWEST},
    actions=(
        _action("list", "List the newest observations", "memory", _newest_observations, **_NEWEST),
        _action(
            "search",
            "Search by meaning and by words",
            "memory",
            _observation_query,
            operation="search",
            nothing="No observation matches the query.",
        ),
        _action("add", "Add an observation", "memory", _new_observation, operation="store"),
        _action("show", "Show a whole observation", "memory", _id("ids"), operation="get"),
    ),
)


def _subtree(parser: SettingsParser) -> None:
    parser.add_argument(
        "work_item_id", metavar="id", nargs="?", help="an item's id, or the first digits of it"
    )


def _item_filters(parser: SettingsParser) -> None:
    parser.add_argument("--status", choices=WORK_ITEM_STATUSES, help="only this status")
    parser.add_argument("--type", dest="item_type", choices=WORK_ITEM_TYPES, help="only this type")
    _limit(parser, "50")


def _new_item(parser: SettingsParser) -> None:
    parser.add_argument("item_type", choices=WORK_ITEM_TYPES, help="its level in the tree")
    parser.add_argument("title", nargs="+", help="a short title")
    parser.add_argument(
        "--parent",
        dest="parent_id",
        metavar="ID",
        help="the parent's id, or the first digits of it",
    )
    parser.add_argument("--description", help="what to do, and how to check the result")
    parser.add_argument("--status", choices=WORK_ITEM_STATUSES, help="its status (planned)")
    _anchor(parser)


def _item_changes(parser: SettingsParser) -> None:
    _id("work_item_id")(parser)
    parser.add_argument("--status", choices=WORK_ITEM_STATUSES, help="the new status")
    parser.add_argument("--title", help="the new title")
    parser.add_argument("--description", help="the new description")
    _anchor(parser)


_NO_ITEMS = {"nothing": "No work items. Add one: codebase-mcp work-items add project TITLE"}
WORK_ITEMS = Command(
    "work-items",
    "Show the tree of work items, add to it and change it",
    "records:show_tree",
    defaults=_NO_ITEMS,
    actions=(
        Command("tree", "Show the tree, or a part of it", "records:show_tree", _subtree),
        _action("list", "List items, newest first", "query_work_items", _item_filters, **_NO_ITEMS),
        _action("add", "Add an item", "create_work_item", _new_item),
        _action("update", "Change an item", "update_work_item", _item_changes),
    ),
)


def _export_options(parser: SettingsParser) -> None:
    parser.add_argument("--output", metavar="FILE", help="where to write (standard output)")


def _import_options(parser: SettingsParser) -> None:
    parser.add_argument("file", help="the exported file, or - for standard input")
    parser.add_argument("--dry-run", action="store_true", help="check the file, store nothing")


EXPORT = Command(
    "export",
    "Write a project's records as JSON Lines",
    "transfer:export_records",
    _export_options,
)
IMPORT = Command(
    "import",
    "Read exported records into a project: all of them, or none",
    "transfer:import_records",
    _import_options,
)

RECORD_COMMANDS = (TASKS, MEMORY, WORK_ITEMS, EXPORT, IMPORT)
