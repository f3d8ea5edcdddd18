"""The table of all commands; ``docs/cli.md`` is generated from it.

Every MCP tool is a command too: `tool_commands` makes those from the tools' schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

from codebase_mcp.cli.command import Command
from codebase_mcp.cli.database_commands import DATABASE_COMMANDS
from codebase_mcp.cli.evaluate_arguments import EVAL
from codebase_mcp.cli.flags import SettingsParser, show_settings
from codebase_mcp.cli.key_arguments import KEYS
from codebase_mcp.cli.model_arguments import MODEL
from codebase_mcp.cli.record_commands import RECORD_COMMANDS
from codebase_mcp.cli.setup.arguments import add_setup_arguments


def _serve_options(parser: SettingsParser) -> None:
    show_settings(parser, usage="%(prog)s [SETTINGS]")


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
    """Values that help and completion show, where any other is taken too."""

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


def _open_options(parser: SettingsParser) -> None:
    parser.add_argument("query", nargs="*", help="a question to open the page with")


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


def _settings_options(parser: SettingsParser) -> None:
    show_settings(parser, usage="%(prog)s [PATH] [--json] [SETTINGS]")
    parser.add_argument(
        "path", nargs="?", default=".", help="a repository, to include its .mcp-context.toml (.)"
    )


def _trust_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "directory", nargs="?", default=".", help="where to start looking for it, upward (.)"
    )


def _completion_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "shell",
        choices=["bash", "zsh", "fish"],
        help="write it to ~/.local/share/bash-completion/completions/codebase-mcp (bash),"
        " a file _codebase-mcp in a folder of $fpath (zsh),"
        " or ~/.config/fish/completions/codebase-mcp.fish",
    )


_NAMES_REPOSITORY = {"names_repository": True}
"""For commands whose ``path`` is a repository: its context file is checked with the settings."""

SERVE = Command(
    "serve", "Serve MCP, on stdio by default", "serve:serve", _serve_options, project="", json=""
)

COMMANDS: Mapping[str, tuple[Command, ...]] = {
    "Code": (
        Command(
            "index",
            "Index a repository, or only its changes",
            "early_start:index",
            _index_options,
            defaults=_NAMES_REPOSITORY,
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
            "worker:worker",
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
    "Data": DATABASE_COMMANDS,
    "Server and setup": (
        SERVE,
        KEYS,
        Command(
            "open",
            "Open the page in a browser",
            "opening:open_page",
            _open_options,
            description="Open the page in a browser; serve it here if no server is running.",
            project="project workspace to show",
            json="",
        ),
        Command(
            "setup",
            "Connect coding agents to this server",
            "setup.command:setup",
            add_setup_arguments,
            project="",
        ),
        Command(
            "settings",
            "Show every setting, its value and its source",
            "settings_command:settings_command",
            _settings_options,
            project="",
            defaults=_NAMES_REPOSITORY,
        ),
        Command(
            "trust",
            "Allow a .mcp-context.toml to select its project",
            "trust:trust",
            _trust_options,
            project="",
        ),
        Command("doctor", "Check the installation with a small test index", "doctor:doctor"),
        Command(
            "completion",
            "Print the completion script of a shell",
            "completion:completion",
            _completion_options,
            project="",
            json="",
        ),
    ),
}
"""The commands by the title under which the help lists them."""


def all_commands() -> tuple[Command, ...]:
    """Every command."""
    return tuple(command for group in COMMANDS.values() for command in group)


def listing() -> str:
    """Every command with its summary, as the help shows them."""
    width = max(len(command.name) for command in all_commands())
    lines = []
    for title, group in COMMANDS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {command.name:{width}}  {command.summary}" for command in group]
    return "\n".join(lines)
