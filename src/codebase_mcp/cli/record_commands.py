"""The options of the commands that people keep their records with.

Nothing but argparse is imported: what a command needs is loaded when it runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Subparsers = Any  # argparse keeps the type to itself
Lazily = Callable[[str, str], Any]

TASK_STATUSES = ("need to be done", "in-progress", "complete")
WORK_ITEM_STATUSES = ("planned", "active", "completed", "blocked")
LEVELS = ("project", "session", "task", "research", "subtask")
OBSERVATION_TYPES = ("Decision", "Execution", "Summary", "Insight", "Pattern")


def add_record_commands(commands: Subparsers, lazily: Lazily) -> None:
    """Tasks, memory, work items; export and import of them all."""
    _add_tasks(commands, lazily)
    _add_memory(commands, lazily)
    _add_work_items(commands, lazily)
    _add_transfer(commands, lazily)


def _add_tasks(commands: Subparsers, lazily: Lazily) -> None:
    group = _group(commands, "tasks", "List, add and change tasks", lazily("tasks", "list_tasks"))
    listing = _verb(group, "list", lazily("tasks", "list_tasks"), "List tasks, newest first")
    listing.add_argument("--status", choices=TASK_STATUSES)
    listing.add_argument("--branch", help="only tasks of branches that begin so")
    _limit(listing, "20")
    add = _verb(group, "add", lazily("tasks", "add_task"), "Add a task")
    add.add_argument("title", nargs="+")
    for name in ("description", "notes"):
        add.add_argument(f"--{name}")
    add.add_argument("--reference", action="append", metavar="PATH", help="a planning document")
    _file(add)
    show = _verb(group, "show", lazily("tasks", "show_task"), "Show a task with its history")
    show.add_argument("id", help="its id, or the first digits of it")
    update = _verb(group, "update", lazily("tasks", "update_task"), "Change a task")
    update.add_argument("id", help="its id, or the first digits of it")
    update.add_argument("--status", choices=TASK_STATUSES)
    for name in ("title", "description", "notes", "branch", "commit"):
        update.add_argument(f"--{name}")
    _file(update)
    for verb, status in (("start", "in-progress"), ("done", "complete")):
        done = _verb(group, verb, lazily("tasks", "update_task"), f"Set a task to {status}")
        done.add_argument("id", help="its id, or the first digits of it")
        done.set_defaults(status=status)


def _add_memory(commands: Subparsers, lazily: Lazily) -> None:
    summary = "Search and add what was decided, done and learned"
    group = _group(commands, "memory", summary, lazily("memory", "list_newest"))
    newest = _verb(group, "list", lazily("memory", "list_newest"), "List the newest observations")
    _limit(newest, "10")
    search = _verb(group, "search", lazily("memory", "search"), "Search by meaning and by words")
    search.add_argument("query", nargs="+")
    search.add_argument("--type", choices=OBSERVATION_TYPES)
    search.add_argument("--tag", action="append", help="only with this tag; may be repeated")
    _limit(search, "10")
    add = _verb(group, "add", lazily("memory", "add"), "Add an observation")
    add.add_argument("content", nargs="+")
    add.add_argument("--type", choices=OBSERVATION_TYPES, default="Insight")
    add.add_argument("--tag", action="append")
    _file(add)
    show = _verb(group, "show", lazily("memory", "show"), "Show an observation, whole")
    show.add_argument("id", help="its id, or the first digits of it")


def _add_work_items(commands: Subparsers, lazily: Lazily) -> None:
    summary = "Show the tree of work, add to it and change it"
    group = _group(commands, "work-items", summary, lazily("work_items", "show_tree"))
    tree = _verb(group, "tree", lazily("work_items", "show_tree"), "Show the tree, or a part of it")
    tree.add_argument("id", nargs="?", help="an item's id, or the first digits of it")
    listing = _verb(group, "list", lazily("work_items", "list_items"), "List items, newest first")
    listing.add_argument("--status", choices=WORK_ITEM_STATUSES)
    listing.add_argument("--type", choices=LEVELS)
    _limit(listing, "50")
    add = _verb(group, "add", lazily("work_items", "add_item"), "Add an item")
    add.add_argument("type", choices=LEVELS)
    add.add_argument("title", nargs="+")
    add.add_argument("--parent", metavar="ID", help="the item above, or the first digits of its id")
    add.add_argument("--description")
    add.add_argument("--status", choices=WORK_ITEM_STATUSES)
    _file(add)
    update = _verb(group, "update", lazily("work_items", "update_item"), "Change an item")
    update.add_argument("id", help="its id, or the first digits of it")
    update.add_argument("--status", choices=WORK_ITEM_STATUSES)
    for name in ("title", "description"):
        update.add_argument(f"--{name}")
    _file(update)


def _add_transfer(commands: Subparsers, lazily: Lazily) -> None:
    text = "Write a project's records as JSON Lines"
    export = commands.add_parser("export", help=text, description=text + ".")
    export.add_argument("--output", metavar="FILE", help="where to (standard output)")
    export.set_defaults(command=lazily("transfer", "export_records"))
    _shared(export)
    text = "Read such a file into a project, all of it or nothing"
    taking = commands.add_parser("import", help=text, description=text + ".")
    taking.add_argument("file", help="the file, or - for standard input")
    taking.add_argument("--dry-run", action="store_true", help="check it, store nothing")
    taking.set_defaults(command=lazily("transfer", "import_records"))
    _shared(taking)


def _group(commands: Subparsers, name: str, summary: str, command: Any) -> Any:
    parser = commands.add_parser(name, help=summary, description=summary + ".")
    parser.set_defaults(command=command)
    _shared(parser)
    return parser.add_subparsers(metavar="ACTION")


def _verb(group: Any, name: str, command: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(
        name, help=summary, description=summary + "."
    )
    parser.set_defaults(command=command)
    _shared(parser, again=True)
    return parser


def _shared(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    # Said before the action or after it; what is not said after it must not undo what was before.
    missing: dict[str, Any] = {"default": argparse.SUPPRESS} if again else {}
    parser.add_argument("--project", help="project workspace (the one you work in)", **missing)
    parser.add_argument("--json", action="store_true", help="print JSON", **missing)


def _limit(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--limit", default=default, help=f"how many at most ({default})")


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at", action="append", metavar="FILE[:SYMBOL]", help="a place in the code it is about"
    )
