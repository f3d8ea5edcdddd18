"""The table of all commands; ``docs/cli.md`` is generated from it.

Every MCP tool is a command too: `tool_commands` makes those from the tools' schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

from codebase_mcp.cli.command import NAMES_REPOSITORY, Command
from codebase_mcp.cli.flags import SettingsParser
from codebase_mcp.cli.record_commands import RECORD_COMMANDS
from codebase_mcp.cli.server_commands import DATA_COMMANDS, SERVER_COMMANDS


def _index_options(parser: SettingsParser) -> None:
    parser.add_argument("path", help="directory of the repository, or the URL of a git repository")
    parser.add_argument(
        "--force", action="store_true", help="rebuild everything, with the configured model"
    )
    parser.add_argument("--name", help="display name (the directory's, or org/name of a URL)")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only show what would be indexed, and an estimate of the cost",
    )
    parser.add_argument(
        "--branch", metavar="NAME", help="for a URL: branch or tag (the default branch)"
    )
    parser.add_argument("--depth", metavar="N", help="for a URL: number of commits to fetch (1)")
    parser.add_argument(
        "--full", action="store_true", help="for a URL: the whole history, all branches and tags"
    )
    parser.add_argument(
        "--history", metavar="N", help="commits of history to keep from now on, 0 for none"
    )
    parser.add_argument(
        "--background", action="store_true", help="queue a job for a server or a worker"
    )


def _place_options(parser: SettingsParser) -> None:
    """For commands that call `project_here`."""
    parser.add_argument(
        "--all",
        action="store_true",
        help="all repositories of the project, not only the one here",
    )
    parser.add_argument(
        "--index",
        action="store_true",
        help="index this repository first if the project lacks it",
    )


def _search_options(parser: SettingsParser) -> None:
    parser.add_argument("query", nargs="+", help="a question, or a symbol's name")
    parser.add_argument("--limit", default="10", help="maximum number of results (10)")
    parser.add_argument("--file-type", help="only files with this extension")
    parser.add_argument("--directory", help="only files below this directory")
    parser.add_argument(
        "--ref",
        action="append",
        help="a branch, tag or commit instead of the files on disk; may be repeated",
    )
    parser.add_argument(
        "--context", dest="context_lines", default="0", help="lines around each result (0)"
    )
    _place_options(parser)
    parser.add_argument("--explain", action="store_true", help="show the ranking signals")
    parser.add_argument(
        "--with-history", action="store_true", help="show the commit that last changed each result"
    )


def _log_search_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "query", nargs="*", help="a question; without one, the newest commits that pass the filters"
    )
    parser.add_argument(
        "--symbol", metavar="NAME", help="when this definition appeared, changed and vanished"
    )
    parser.add_argument("--path", help="only commits that touch this file or directory")
    parser.add_argument("--author", help="only of authors with this in their name or address")
    parser.add_argument("--since", metavar="DATE", help="only from this day or time on (UTC)")
    parser.add_argument("--until", metavar="DATE", help="only up to this day or time (UTC)")
    parser.add_argument("--limit", default="10", help="maximum number of commits (10)")
    _place_options(parser)


SYMBOL_OPERATIONS = (
    "definition", "references", "callers", "callees", "implementations", "outline"
)  # fmt: skip


class _Proposed(tuple[str, ...]):
    """Values that help and completion suggest; any value is accepted."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return True


def _symbol_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "operation",
        choices=_Proposed(SYMBOL_OPERATIONS),
        metavar="[OPERATION]",
        help=f"what to show: {', '.join(SYMBOL_OPERATIONS)} (definition); a single word is a name,"
        " so who calls a function callers is: symbol callers callers",
    )
    target = parser.add_argument(
        "target",
        metavar="NAME|PATH:LINE|PATH",
        help="a name, also qualified (Shop.sell), or a place; for an outline a file or directory",
    )
    # Not nargs="?": that would be taken as absent where an option stands between the two.
    target.required = False
    parser.add_argument("--ref", help="a branch, tag or commit instead of the files on disk")
    parser.add_argument(
        "--depth", default="1", help="levels of callers, callees and so on, to 3 (1)"
    )
    parser.add_argument("--limit", default="50", help="maximum number of entries (50)")
    _place_options(parser)


def _branches_options(parser: SettingsParser) -> None:
    parser.add_argument("path", nargs="?", default=".", help="directory of the repository (.)")


def _compare_options(parser: SettingsParser) -> None:
    parser.add_argument("a", metavar="A", help="a branch, tag or commit: the older")
    parser.add_argument("b", metavar="B", help="the newer; worktree for the files on disk")
    parser.add_argument("--path", default=".", help="directory of the repository (.)")
    parser.add_argument("--symbols", action="store_true", help="show the definitions that differ")
    parser.add_argument(
        "--direct", action="store_true", help="compare the two themselves, not since they parted"
    )


def _impact_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "change",
        nargs="?",
        metavar="COMMIT|A...B",
        help="a commit, or what B would bring to A (what is not committed yet)",
    )
    _place_options(parser)


def _watch_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="directories (all repositories of the project)"
    )
    parser.add_argument(
        "--poll", action="store_true", help="scan the files periodically (for network drives)"
    )


def _remove_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "path", help="its directory (which may be deleted already), its URL, or its id"
    )


def _worker_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "--concurrency", metavar="N", help="jobs to run in parallel (CODEBASE_MCP_JOBS, or 1)"
    )
    parser.add_argument(
        "--once", action="store_true", help="exit when no job is waiting or running"
    )


def _jobs_options(parser: SettingsParser) -> None:
    parser.add_argument("action", nargs="?", choices=["cancel"], help="what to do (list the jobs)")
    parser.add_argument("id", nargs="?", help="a job's number or operation id, as listed")


SOURCES = ("commits", "docstrings", "all")


def _eval_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="queries with their targets: lines of text (query, TAB, path or path:first-last), "
        "JSON Lines or a JSON list; - for standard input",
    )
    parser.add_argument(
        "--mine",
        choices=SOURCES,
        nargs="?",
        const="all",
        help="take queries from the repository: subjects of commits, with the files that they "
        "changed; first sentences of comments, with what they describe; or half of each (all)",
    )
    parser.add_argument(
        "--save", metavar="FILE", help="with --mine: only write the queries, to be read and edited"
    )
    parser.add_argument(
        "--repo", dest="path", default=".", metavar="PATH", help="the repository's directory (.)"
    )
    parser.add_argument("--count", default="200", metavar="N", help="queries to mine (200)")
    parser.add_argument(
        "--seed", default="0", metavar="N", help="seed for choosing the queries (0)"
    )
    parser.add_argument(
        "--limit", default="10", metavar="N", help="results per query, 10 to 50 (10)"
    )
    parser.add_argument(
        "--worst", default="5", metavar="N", help="number of worst queries to show (5)"
    )


EVAL = Command(
    "eval",
    "Measure search quality on your own repository and queries, compared with grep",
    "evaluate:evaluate",
    _eval_options,
    description="Run the queries of a file, or queries mined from the repository itself, and "
    "report how good the answers are and how many tokens they cost to read, compared with grep. "
    "The repository is indexed first.",
    json="print JSON, every query included",
    defaults=NAMES_REPOSITORY,
)


def _grow_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "repositories",
        nargs="*",
        metavar="REPO",
        help="directory or id of a repository (all of the project)",
    )


MODEL = Command(
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
            _grow_options,
        ),
        Command("drop", "Delete the project's vectors of secondary models", "model:drop"),
    ),
)

COMMANDS: Mapping[str, tuple[Command, ...]] = {
    "Code": (
        Command(
            "index",
            "Index a repository, or only its changes",
            "early_start:index",
            _index_options,
            defaults=NAMES_REPOSITORY,
        ),
        Command("watch", "Update the index when files change", "watch:watch", _watch_options),
        Command("search", "Search the indexed code", "asking:search", _search_options),
        Command(
            "log-search",
            "Search the history by meaning and words",
            "asking:log_search",
            _log_search_options,
        ),
        Command("symbol", "Show who defines and uses a name", "asking:symbol", _symbol_options),
        Command("status", "Show what is indexed, and whether it is up to date", "inventory:status"),
        Command(
            "branches",
            "List the branches and tags of a repository",
            "asking:branches",
            _branches_options,
            project="",
        ),
        Command(
            "compare",
            "Show what a branch would bring to another",
            "asking:compare",
            _compare_options,
            project="",
        ),
        Command(
            "impact",
            "Show what a change touches, and which files it leaves alone that it may concern",
            "asking:impact",
            _impact_options,
        ),
        Command("projects", "List projects and their repositories", "inventory:projects"),
        Command("remove", "Remove a repository from the index", "indexing:remove", _remove_options),
        MODEL,
        EVAL,
    ),
    "Background jobs": (
        Command(
            "worker",
            "Run background jobs until stopped",
            "jobs:worker",
            _worker_options,
            project="",
            json="",
        ),
        Command(
            "jobs",
            "List background jobs, or cancel one",
            "jobs:jobs",
            _jobs_options,
            project="only of this project",
        ),
    ),
    "Records": RECORD_COMMANDS,
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
