"""The commands that operate a server: jobs, data, keys, setup, settings.

Like `command`, this module imports next to nothing: every command parses its arguments with it.
"""

from __future__ import annotations

from codebase_mcp.cli.command import NAMES_REPOSITORY, Command, flag, number, option

JOB_COMMANDS = (
    Command(
        "worker",
        "Run background jobs until stopped",
        "jobs:worker",
        (
            number("--concurrency", "jobs to run in parallel (CODEBASE_MCP_JOBS, or 1)", 1, 64),
            flag("--once", "exit when no job is waiting or running"),
            number(
                "--refresh",
                "fetch and index clones of URLs whose index is older (never)",
                0,
                525_600,
                dest="refresh_minutes",
                metavar="MINUTES",
            ),
        ),
        project="",
        json="",
    ),
    Command(
        "jobs",
        "List background jobs, or cancel one",
        "jobs:jobs",
        (
            option("action", "what to do (list the jobs)", nargs="?", choices=["cancel"]),
            option("id", "a job's number or operation id, as listed", nargs="?"),
            number(
                "--limit", "jobs to show, the newest (50 on a terminal, else all)", 1, 1_000_000
            ),
        ),
        project="only of this project",
    ),
)

_YES = flag("--yes", "do not ask for confirmation")

DATA_COMMANDS = (
    Command(
        "migrate",
        "Migrate the database now instead of at first use",
        "data:migrate",
        (
            flag("--all", "every project"),
            flag("--check", "change nothing; exit with 1 if a migration is pending"),
        ),
    ),
    Command(
        "backup",
        "Write a whole project, index and records, to a file",
        "data:backup",
        (
            option(
                "--output", "the backup file, *.tar.gz by convention", required=True, metavar="FILE"
            ),
        ),
    ),
    Command(
        "restore",
        "Restore a project from a backup file",
        "data:restore",
        (
            option("file", "a backup file; - is standard input"),
            flag("--replace", "replace the existing content of the project"),
        ),
        project="restore as this project (the one that was backed up)",
    ),
    Command(
        "purge",
        "Erase a file, a repository or a project at once, and count what is left",
        "data:purge",
        (
            option(
                "path",
                "a repository's directory or id, or a path inside one; it may be deleted already",
                nargs="?",
                metavar="PATH",
            ),
            flag("--everything", "the whole project, including its records"),
            _YES,
        ),
    ),
    Command(
        "audit",
        "Show who called what over HTTP, when, and how it ended",
        "data:audit",
        (
            option("--since", "as 90m, 12h, 7d, 2w", default="7d", metavar="SPAN"),
            option("--owner", "only of this owner, as it is listed"),
            number("--limit", "the newest N entries", 1, 1_000_000, default=1000),
        ),
        project="only of this project",
    ),
)


def _clients_help() -> str:
    from codebase_mcp.cli.setup.clients import CLIENTS  # noqa: PLC0415 - for this command alone

    names = ", ".join(client.name for client in CLIENTS)
    return f"the client: {names}; without one, they are listed"


SERVE = Command(
    "serve",
    "Serve MCP, on stdio by default",
    "serve:serve",
    project="",
    json="",
    usage="%(prog)s [SETTINGS]",
)
_KEY_ID = option("id", "its id, as listed")
_KEYS = Command(
    "keys",
    "Say who may call the server over HTTP",
    "keys:list_all",
    actions=(
        Command("list", "List all keys", "keys:list_all", project=""),
        Command(
            "create",
            "Make a key, and show it once",
            "keys:create",
            (
                option("owner", "whose key it is: a person or a program"),
                option(
                    "--scopes",
                    "what it allows: read, write (records), index, admin (everything); read,write "
                    "unless given, and index where it has --roots or the server has no --root",
                    metavar="LIST",
                ),
                option(
                    "--projects",
                    "patterns of the projects that exist for it, such as 'team-*' (all)",
                    metavar="LIST",
                ),
                # The settings of the names of these two are the server's.
                option(
                    "--roots",
                    "directories below which it may index, of those that the server allows (all)",
                    dest="own_roots",
                    metavar="PATH[,PATH…]",
                ),
                option("--expires", "time until it expires: 90d, 12h, 30m (never)", metavar="TIME"),
                option(
                    "--requests-per-minute",
                    "requests that it may send in a minute, instead of the server's limit",
                    dest="own_limit",
                    metavar="N",
                ),
            ),
            project="",
        ),
        Command(
            "rotate",
            "Give a key a new text",
            "keys:rotate",
            (
                _KEY_ID,
                option(
                    "--grace",
                    "time that the former text stays valid: 1h",
                    default="0",
                    metavar="TIME",
                ),
            ),
            project="",
        ),
        Command("revoke", "Refuse a key from now on", "keys:revoke", (_KEY_ID,), project=""),
    ),
    project="",
)
_SETUP = Command(
    "setup",
    "Connect coding agents to this server",
    "setup.command:setup",
    (
        option("clients", _clients_help, nargs="*", metavar="CLIENT"),
        flag("--all", "every client that is installed here"),
        flag("--remove", "remove what was written"),
        option(
            "--scope",
            "set up all your projects, or only one",
            choices=["user", "project"],
            default="user",
        ),
        option("--project-dir", "the project's directory (the working directory)"),
        option("--toolsets", "toolsets to show, by commas, or 'all' (agent: code,find,symbols)"),
        option("--name", "the server's name there", default="codebase"),
        option(
            "--command", "how to start it (this installation)", dest="command_line", metavar="LINE"
        ),
        option("--http", "a server that is already running, including /mcp", metavar="URL"),
        option(
            "--key-env",
            "the environment variable that holds the key for --http, which stays out of the files",
            metavar="NAME",
        ),
        option(
            "--env",
            "environment variable for it; repeatable",
            action="append",
            metavar="NAME=VALUE",
        ),
        option(
            "--no-instructions",
            "do not write instructions (CLAUDE.md and similar files) or a skill",
            dest="rules",
            action="store_false",
        ),
        flag("--force", "replace a server of the same name"),
        _YES,
        flag("--dry-run", "only show what would be written"),
    ),
    project="",
)

SERVER_COMMANDS = (
    SERVE,
    _KEYS,
    Command(
        "open",
        "Open the page in a browser",
        "serve:open_page",
        (option("query", "a question to open the page with", nargs="*"),),
        description="Open the page in a browser; serve it here if no server is running.",
        project="project workspace to show",
        json="",
    ),
    _SETUP,
    Command(
        "settings",
        "Show every setting, its value and its source",
        "settings_command:settings_command",
        (option("path", "a repository, to include its .mcp-context.toml", nargs="?", default="."),),
        project="",
        usage="%(prog)s [PATH] [--json] [SETTINGS]",
        defaults=NAMES_REPOSITORY,
    ),
    Command(
        "trust",
        "Allow a .mcp-context.toml to select its project",
        "settings_command:trust",
        (option("directory", "where to start looking for it, upward", nargs="?", default="."),),
        project="",
    ),
    Command("doctor", "Check the installation with a small test index", "doctor:doctor"),
    Command(
        "completion",
        "Print the completion script of a shell",
        "main:completion",
        (
            option(
                "shell",
                "write it to ~/.local/share/bash-completion/completions/codebase-mcp (bash),"
                " a file _codebase-mcp in a folder of $fpath (zsh),"
                " or ~/.config/fish/completions/codebase-mcp.fish",
                choices=["bash", "zsh", "fish"],
            ),
        ),
        project="",
        json="",
    ),
)
