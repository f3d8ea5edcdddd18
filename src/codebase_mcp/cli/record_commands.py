"""The commands for the records of a project: tasks, memory, work items."""

from __future__ import annotations

from typing import get_args

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


def _id(parser: SettingsParser) -> None:
    parser.add_argument("id", help="its id, or the first digits of it")


def _limit(parser: SettingsParser, default: str) -> None:
    parser.add_argument("--limit", default=default, help=f"maximum number ({default})")


def _anchor(parser: SettingsParser) -> None:
    parser.add_argument(
        "--at",
        action="append",
        metavar="FILE[:SYMBOL]",
        help="a place in the code to link; may be repeated",
    )


def _new_task(parser: SettingsParser) -> None:
    parser.add_argument("title", nargs="+", help="a short title")
    parser.add_argument("--description", help="what to do, and how to check the result")
    parser.add_argument("--notes", help="findings and decisions")
    parser.add_argument(
        "--reference",
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
    _id(parser)
    parser.add_argument("--status", choices=TASK_STATUSES, help="the new status")
    parser.add_argument("--title", help="the new title")
    for name in ("description", "notes"):
        parser.add_argument(f"--{name}", help=f"the new {name}; an empty text removes the old")
    parser.add_argument("--branch", help="a Git branch to link; an empty text unlinks it")
    parser.add_argument("--commit", help="a full commit hash to link; an empty text unlinks it")
    _anchor(parser)


def _set_status(action: str, status: TaskStatus) -> Command:
    """An action that sets one status."""
    summary = f"Set a task to {status}"
    return Command(action, summary, "tasks:update_task", _id, defaults={"status": status})


TASKS = Command(
    "tasks",
    "List, add and change tasks",
    "tasks:list_tasks",
    actions=(
        Command("list", "List tasks, newest first", "tasks:list_tasks", _task_filters),
        Command("add", "Add a task", "tasks:add_task", _new_task),
        Command("show", "Show a task with its history", "tasks:show_task", _id),
        Command("update", "Change a task", "tasks:update_task", _task_changes),
        _set_status("start", "in-progress"),
        _set_status("done", "complete"),
    ),
)


def _newest_observations(parser: SettingsParser) -> None:
    _limit(parser, "10")


def _observation_query(parser: SettingsParser) -> None:
    parser.add_argument("query", nargs="+", help="a question or words")
    parser.add_argument("--type", choices=OBSERVATION_TYPES, help="only this type")
    parser.add_argument("--tag", action="append", help="only with this tag; may be repeated")
    _limit(parser, "10")


def _new_observation(parser: SettingsParser) -> None:
    parser.add_argument("content", nargs="+", help="the text to remember")
    parser.add_argument(
        "--type", choices=OBSERVATION_TYPES, default="Insight", help="its type (Insight)"
    )
    parser.add_argument("--tag", action="append", help="a tag; may be repeated")
    _anchor(parser)


MEMORY = Command(
    "memory",
    "Search and add decisions, results and findings",
    "memory:list_newest",
    actions=(
        Command("list", "List the newest observations", "memory:list_newest", _newest_observations),
        Command("search", "Search by meaning and by words", "memory:search", _observation_query),
        Command("add", "Add an observation", "memory:add", _new_observation),
        Command("show", "Show a whole observation", "memory:show", _id),
    ),
)


def _subtree(parser: SettingsParser) -> None:
    parser.add_argument("id", nargs="?", help="an item's id, or the first digits of it")


def _item_filters(parser: SettingsParser) -> None:
    parser.add_argument("--status", choices=WORK_ITEM_STATUSES, help="only this status")
    parser.add_argument("--type", choices=WORK_ITEM_TYPES, help="only this type")
    _limit(parser, "50")


def _new_item(parser: SettingsParser) -> None:
    parser.add_argument("type", choices=WORK_ITEM_TYPES, help="its level in the tree")
    parser.add_argument("title", nargs="+", help="a short title")
    parser.add_argument("--parent", metavar="ID", help="the parent's id, or the first digits of it")
    parser.add_argument("--description", help="what to do, and how to check the result")
    parser.add_argument("--status", choices=WORK_ITEM_STATUSES, help="its status (planned)")
    _anchor(parser)


def _item_changes(parser: SettingsParser) -> None:
    _id(parser)
    parser.add_argument("--status", choices=WORK_ITEM_STATUSES, help="the new status")
    parser.add_argument("--title", help="the new title")
    parser.add_argument("--description", help="the new description")
    _anchor(parser)


WORK_ITEMS = Command(
    "work-items",
    "Show the tree of work items, add to it and change it",
    "work_items:show_tree",
    actions=(
        Command("tree", "Show the tree, or a part of it", "work_items:show_tree", _subtree),
        Command("list", "List items, newest first", "work_items:list_items", _item_filters),
        Command("add", "Add an item", "work_items:add_item", _new_item),
        Command("update", "Change an item", "work_items:update_item", _item_changes),
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
