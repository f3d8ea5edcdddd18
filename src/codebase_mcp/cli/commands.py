"""The table of all commands; ``docs/cli.md`` is generated from it.

Every MCP tool is a command too: `tool_commands` makes those from the tools' schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from codebase_mcp.cli.command import NAMES_REPOSITORY, Command, Option, flag, number, option
from codebase_mcp.cli.server_commands import DATA_COMMANDS, JOB_COMMANDS, SERVER_COMMANDS
from codebase_mcp.model import FileKind
from codebase_mcp.records.vocabulary import (
    ObservationType,
    TaskStatus,
    WorkItemStatus,
    WorkItemType,
)

SYMBOL_OPERATIONS = (
    "definition", "references", "callers", "callees", "path", "implementations", "outline"
)  # fmt: skip


class _Proposed(tuple[str, ...]):
    """Values that help and completion suggest; any value is accepted."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return True


# For commands that call `project_here`.
_PLACE = (
    flag("--all", "all repositories of the project, not only the one here"),
    flag("--index", "index this repository first if the project lacks it"),
)
_PATH = option("path", "directory of the repository", nargs="?", default=".")
_KINDS = [kind.value for kind in FileKind]
_REF = "a branch, tag or commit instead of the files on disk"

_CODE = (
    Command(
        "index",
        "Index a repository, or only its changes",
        "early_start:index",
        (
            option("path", "directory of the repository, or the URL of a git repository"),
            flag("--force", "rebuild everything, with the configured model"),
            option("--name", "display name (the directory's, or org/name of a URL)"),
            flag("--dry-run", "only show what would be indexed, and an estimate of the cost"),
            option("--branch", "for a URL: branch or tag (the default branch)", metavar="NAME"),
            number("--depth", "for a URL: number of commits to fetch (1)", 1, 1_000_000),
            flag("--full", "for a URL: the whole history, all branches and tags"),
            number("--history", "commits of history to keep from now on, 0 for none", 0, 10_000),
            flag("--background", "queue a job for a server or a worker"),
        ),
        defaults=NAMES_REPOSITORY,
    ),
    Command(
        "watch",
        "Update the index when files change",
        "watch:watch",
        (
            option(
                "paths", "directories (all repositories of the project)", nargs="*", metavar="PATH"
            ),
            flag("--poll", "scan the files periodically (for network drives)"),
        ),
    ),
    Command(
        "search",
        "Search the indexed code",
        "asking:search",
        (
            option("query", "a question, or a symbol's name", nargs="+"),
            number("--limit", "maximum number of results", 1, 50, default=10),
            option("--file-type", "only files with this extension"),
            option("--directory", "only files below this directory"),
            option("--ref", f"{_REF}; may be repeated", action="append"),
            number("--context", "lines around each result", 0, 50, dest="context_lines", default=0),
            *_PLACE,
            flag("--explain", "show the ranking signals"),
            flag("--with-history", "show the commit that last changed each result"),
        ),
    ),
    Command(
        "grep",
        "List every line that holds a text",
        "asking:grep",
        (
            option("pattern", "a text as it stands in the files"),
            flag("--regex", "the pattern is a regular expression (RE2's syntax)", short="-E"),
            flag("--ignore-case", "also by default if no letter is upper-case", short="-i"),
            flag("--case-sensitive", "letters match as they are", short="-s"),
            flag("--word-regexp", "only whole words", short="-w", dest="whole_word"),
            flag("--multiline", "a match may span lines", short="-U"),
            option("--file-type", "only files with this extension"),
            option("--directory", "only files below this directory"),
            option("--kind", "only such files; may be repeated", action="append", choices=_KINDS),
            option("--ref", f"{_REF}; of A...B the lines that the change touched"),
            number("--context", "lines around each line", 0, 20, default=0, short="-C"),
            flag("--count", "only how many lines match, by folder", short="-c"),
            flag("--files-with-matches", "only the files, with their counts", short="-l"),
            number("--limit", "lines shown at most", 1, 500, default=100),
            *_PLACE,
        ),
    ),
    Command(
        "log-search",
        "Search the history by meaning and words",
        "asking:log_search",
        (
            option(
                "query",
                "a question; without one, the newest commits that pass the filters",
                nargs="*",
            ),
            option(
                "--symbol", "when this definition appeared, changed and vanished", metavar="NAME"
            ),
            option("--path", "only commits that touch this file or directory"),
            option("--author", "only of authors with this in their name or address"),
            option("--since", "only from this day or time on (UTC)", metavar="DATE"),
            option("--until", "only up to this day or time (UTC)", metavar="DATE"),
            number("--limit", "maximum number of commits", 1, 50, default=10),
            *_PLACE,
        ),
    ),
    Command(
        "symbol",
        "Show who defines and uses a name",
        "asking:symbol",
        (
            option(
                "operation",
                f"what to show: {', '.join(SYMBOL_OPERATIONS)} (definition); a single word is a "
                "name, so who calls a function callers is: symbol callers callers",
                choices=_Proposed(SYMBOL_OPERATIONS),
                metavar="[OPERATION]",
            ),
            option(
                "target",
                "a name, also qualified (Shop.sell), or a place; for an outline a path",
                metavar="NAME|PATH:LINE|PATH",
                # Not nargs="?": that would be taken as absent where an option stands between.
                required=False,
            ),
            option("--directory", "only in files below this directory"),
            option("--kind", "only such files; may be repeated", action="append", choices=_KINDS),
            flag("--no-tests", "without tests"),
            flag("--body", "with the text of definitions"),
            option("--to", "of a path of calls: where it leads", metavar="NAME|PATH:LINE"),
            option("--ref", _REF),
            number("--depth", "levels of callers, callees and so on, to 3", 1, 3, default=1),
            number("--limit", "maximum number of entries", 1, 500, default=50),
            *_PLACE,
        ),
    ),
    Command("status", "Show what is indexed, and whether it is up to date", "inventory:status"),
    Command(
        "branches",
        "List the branches and tags of a repository",
        "asking:branches",
        (_PATH,),
        project="",
    ),
    Command(
        "compare",
        "Show what a branch would bring to another",
        "asking:compare",
        (
            option("a", "a branch, tag or commit: the older", metavar="A"),
            option("b", "the newer; worktree for the files on disk", metavar="B"),
            option("--path", "directory of the repository", default="."),
            flag("--symbols", "show the definitions that differ"),
            flag("--direct", "compare the two themselves, not since they parted"),
        ),
        project="",
    ),
    Command(
        "impact",
        "Show what a change touches, and which files it leaves alone that it may concern",
        "asking:impact",
        (
            option(
                "change",
                "a commit, or what B would bring to A (what is not committed yet)",
                nargs="?",
                metavar="COMMIT|A...B",
            ),
            *_PLACE,
        ),
    ),
    Command("projects", "List projects and their repositories", "inventory:projects"),
    Command(
        "remove",
        "Remove a repository from the index",
        "indexing:remove",
        (option("path", "its directory (which may be deleted already), its URL, or its id"),),
    ),
    Command(
        "model",
        "Show a project's embedding models; backfill or drop the secondary model's vectors",
        "model:model",
        description="Show a project's embedding models, and how far the backfill of the secondary "
        "model's vectors is.",
        actions=(
            Command(
                "grow",
                "Backfill the secondary model's vectors now, until all exist",
                "model:grow",
                (
                    option(
                        "repositories",
                        "directory or id of a repository (all of the project)",
                        nargs="*",
                        metavar="REPO",
                    ),
                ),
            ),
            Command("drop", "Delete the project's vectors of secondary models", "model:drop"),
        ),
    ),
    Command(
        "eval",
        "Measure search quality on your own repository and queries, compared with grep",
        "evaluate:evaluate",
        (
            option(
                "file",
                "queries with their targets: lines of text (query, TAB, path or path:first-last), "
                "JSON Lines or a JSON list; - for standard input",
                nargs="?",
                metavar="FILE",
            ),
            option(
                "--mine",
                "take queries from the repository: subjects of commits, with the files that they "
                "changed; first sentences of comments, with what they describe; or half of each "
                "(all)",
                choices=("commits", "docstrings", "all"),
                nargs="?",
                const="all",
            ),
            option(
                "--save",
                "with --mine: only write the queries, to be read and edited",
                metavar="FILE",
            ),
            option(
                "--repo", "the repository's directory", dest="path", default=".", metavar="PATH"
            ),
            number("--count", "queries to mine", 1, 10_000, default=200),
            number("--seed", "seed for choosing the queries", 0, 2**31 - 1, default=0),
            # All figures are of the first 10.
            number("--limit", "results per query, 10 to 50", 10, 50, default=10),
            number("--worst", "number of worst queries to show", 0, 10_000, default=5),
        ),
        description="Run the queries of a file, or queries mined from the repository itself, and "
        "report how good the answers are and how many tokens they cost to read, compared with "
        "grep. The repository is indexed first.",
        json="print JSON, every query included",
        defaults=NAMES_REPOSITORY,
    ),
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

_RECORDS = (
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

COMMANDS: Mapping[str, tuple[Command, ...]] = {
    "Code": _CODE,
    "Background jobs": JOB_COMMANDS,
    "Records": _RECORDS,
    "Data": DATA_COMMANDS,
    "Server and setup": SERVER_COMMANDS,
}
"""The commands by the title under which the help lists them."""


def all_commands() -> tuple[Command, ...]:
    return tuple(command for group in COMMANDS.values() for command in group)


def listing() -> str:
    """Every command with its summary, as the help shows them."""
    width = max(len(command.name) for command in all_commands())
    lines = []
    for title, group in COMMANDS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:{width}}  {command.summary}" for command in group]
    return "\n".join(lines)
