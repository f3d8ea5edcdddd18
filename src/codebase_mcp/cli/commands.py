"""The table of all commands; ``docs/cli.md`` is generated from it.

Every MCP tool is a command too: `tool_commands` makes those from the tools' schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

from codebase_mcp.cli.command import NAMES_REPOSITORY, Command, flag, number, option
from codebase_mcp.cli.record_commands import RECORD_COMMANDS
from codebase_mcp.cli.server_commands import DATA_COMMANDS, JOB_COMMANDS, SERVER_COMMANDS
from codebase_mcp.model import FileKind

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
_FILE_TYPE = option("--file-type", "only files with this extension")
_DIRECTORY = option("--directory", "only files below this directory")
_KINDS = [kind.value for kind in FileKind]
_KIND = option("--kind", "only such files; may be repeated", action="append", choices=_KINDS)
_LISTED = (
    option(
        "--match",
        "only repositories whose name, directory or project fits, as in '*api*'; !PATTERN "
        "excludes; may be repeated",
        action="append",
        metavar="PATTERN",
    ),
    number("--limit", "repositories to show (50 on a terminal, else all)", 1, 1_000_000),
)
_REF = "a branch, tag or commit instead of the files on disk"

_CODE = (
    Command(
        "index",
        "Index repositories, or only their changes",
        "early_start:index",
        (
            option(
                "paths",
                "directory of a repository, or the URL of a git repository",
                nargs="*",
                metavar="PATH",
            ),
            option(
                "--from",
                "read directories and URLs from this file, one a line; - for standard input",
                dest="list_file",
                metavar="FILE",
            ),
            option(
                "--organisation",
                "all repositories of an organisation on GitHub or of a group on GitLab; may be "
                "repeated (the token comes from GITHUB_TOKEN or GITLAB_TOKEN)",
                action="append",
                metavar="URL",
            ),
            option(
                "--match",
                "of an organisation: only repositories with such names, as in 'api-*'; !PATTERN "
                "excludes; may be repeated",
                action="append",
                metavar="PATTERN",
            ),
            flag("--archived", "of an organisation: also those that are archived"),
            flag("--forks", "of an organisation: also forks"),
            option(
                "--code-host",
                "what the organisation's host is, if its name does not say it",
                choices=("github", "gitlab"),
            ),
            flag("--force", "rebuild everything, with the configured model"),
            option("--name", "display name (the directory's, or org/name of a URL)"),
            flag(
                "--dry-run",
                "only show what would be indexed, and an estimate of the cost; of "
                "several repositories only which",
            ),
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
            _FILE_TYPE,
            _DIRECTORY,
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
            option(
                "paths",
                "only these files, or files below these directories",
                nargs="+",
                required=False,
                metavar="[PATH]",
            ),
            flag("--regex", "the pattern is a regular expression (RE2's syntax)", short="-E -e"),
            flag("--ignore-case", "also by default if no letter is upper-case", short="-i"),
            flag("--case-sensitive", "letters match as they are", short="-s"),
            flag("--word-regexp", "only whole words", short="-w", dest="whole_word"),
            flag("--multiline", "a match may span lines", short="-U"),
            _FILE_TYPE,
            _DIRECTORY,
            _KIND,
            option("--ref", f"{_REF}; of A...B the lines that the change touched"),
            number("--context", "lines around each line", 0, 20, default=0, short="-C -A -B"),
            flag("--line-number", "always so, as the others here", short="-n -r -H -I -F"),
            flag("--count", "only how many lines match, by folder", short="-c"),
            flag("--files-with-matches", "only the files, with their counts", short="-l"),
            number("--limit", "lines shown at most", 1, 500, default=100),
            *_PLACE,
        ),
    ),
    Command(
        "context",
        "Show the files that a task needs: to change, to read, to test",
        "context:context",
        (
            option(
                "task",
                "an issue, a stack trace, the output of a test, a diff, a sentence; without it, "
                "standard input",
                nargs="*",
            ),
            option("--file", "read the task from this file; - for standard input", short="-f"),
            option(
                "--given",
                "a file that you have already, or path:first-last; may be repeated (what is not "
                "committed yet)",
                action="append",
                metavar="PATH",
            ),
            flag("--no-given", "what is not committed yet is no part of the task"),
            option(
                "--want",
                "only files to change, read or test; several are separated by commas",
                action="append",
                metavar="ROLE",
            ),
            option("--ref", _REF),
            option(
                "--commit",
                "the task is the message and diff of this commit, asked of the state before it",
            ),
            number("--limit", "maximum number of files", 1, 100, default=20),
            *_PLACE,
        ),
        description="Show the files that a task needs: to change, to read, to test. The output of "
        "a failing test comes in a pipe: pytest 2>&1 | codebase-mcp context",
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
            _DIRECTORY,
            _KIND,
            flag("--no-tests", "without tests"),
            flag("--body", "with the text of definitions"),
            option("--to", "of a path of calls: where it leads", metavar="NAME|PATH:LINE"),
            option("--ref", _REF),
            number("--depth", "levels of callers, callees and so on, to 3", 1, 3, default=1),
            number("--limit", "maximum number of entries", 1, 500, default=50),
            *_PLACE,
        ),
    ),
    Command(
        "status",
        "Show what is indexed, and whether it is up to date",
        "inventory:status",
        _LISTED,
    ),
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
    Command("projects", "List projects and their repositories", "inventory:projects", _LISTED),
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

COMMANDS: Mapping[str, tuple[Command, ...]] = {
    "Code": _CODE,
    "Background jobs": JOB_COMMANDS,
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
