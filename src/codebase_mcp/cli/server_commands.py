"""The commands that operate a server: data, keys, setup, settings. Fast to import.

Every command parses its arguments here; `command.Command` imports its function when it runs.
"""

from __future__ import annotations

from codebase_mcp.cli.command import NAMES_REPOSITORY, Command
from codebase_mcp.cli.flags import SettingsParser, show_settings


def _setup_options(parser: SettingsParser) -> None:
    from codebase_mcp.cli.setup.clients import CLIENTS  # noqa: PLC0415 - for this command alone

    names = ", ".join(client.name for client in CLIENTS)
    parser.add_argument(
        "clients",
        nargs="*",
        metavar="CLIENT",
        help=f"the client: {names}; without one, they are listed",
    )
    parser.add_argument("--all", action="store_true", help="every client that is installed here")
    parser.add_argument("--remove", action="store_true", help="remove what was written")
    parser.add_argument(
        "--scope",
        choices=["user", "project"],
        default="user",
        help="set up all your projects, or only one (user)",
    )
    parser.add_argument("--project-dir", help="the project's directory (the working directory)")
    parser.add_argument(
        "--toolsets",
        help="toolsets to show, separated by commas, or 'all' (agent: code,find,symbols)",
    )
    parser.add_argument("--name", default="codebase", help="the server's name there (codebase)")
    parser.add_argument(
        "--command", dest="command_line", metavar="LINE", help="how to start it (this installation)"
    )
    parser.add_argument(
        "--http", metavar="URL", help="a server that is already running, including /mcp"
    )
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="the environment variable that holds the key for --http, which stays out of the files",
    )
    parser.add_argument(
        "--env",
        action="append",
        metavar="NAME=VALUE",
        help="environment variable for it; repeatable",
    )
    parser.add_argument(
        "--no-instructions",
        dest="rules",
        action="store_false",
        help="do not write instructions (CLAUDE.md and similar files) or a skill",
    )
    parser.add_argument("--force", action="store_true", help="replace a server of the same name")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")


def _migrate_options(parser: SettingsParser) -> None:
    parser.add_argument("--all", action="store_true", help="every project")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if a migration is pending"
    )


def _backup_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="the backup file, *.tar.gz by convention"
    )


def _restore_options(parser: SettingsParser) -> None:
    parser.add_argument("file", help="a backup file; - is standard input")
    parser.add_argument(
        "--replace", action="store_true", help="replace the existing content of the project"
    )


def _purge_options(parser: SettingsParser) -> None:
    parser.add_argument(
        "path", nargs="?", metavar="PATH",
        help="a repository's directory or id, or a path inside one; it may be deleted already",
    )  # fmt: skip
    parser.add_argument(
        "--everything", action="store_true", help="the whole project, including its records"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _audit_options(parser: SettingsParser) -> None:
    parser.add_argument("--since", default="7d", metavar="SPAN", help="as 90m, 12h, 7d, 2w (7d)")
    parser.add_argument("--owner", help="only of this owner, as it is listed")
    parser.add_argument("--limit", default="1000", metavar="N", help="the newest N entries (1000)")


DATA_COMMANDS = (
    Command(
        "migrate",
        "Migrate the database now instead of at first use",
        "data:migrate",
        _migrate_options,
    ),
    Command(
        "backup",
        "Write a whole project, index and records, to a file",
        "data:backup",
        _backup_options,
    ),
    Command(
        "restore",
        "Restore a project from a backup file",
        "data:restore",
        _restore_options,
        project="restore as this project (the one that was backed up)",
    ),
    Command(
        "purge",
        "Erase a file, a repository or a project at once, and count what is left",
        "data:purge",
        _purge_options,
    ),
    Command(
        "audit",
        "Show who called what over HTTP, when, and how it ended",
        "data:audit",
        _audit_options,
        project="only of this project",
    ),
)


def _serve_options(parser: SettingsParser) -> None:
    show_settings(parser, usage="%(prog)s [SETTINGS]")


def _open_options(parser: SettingsParser) -> None:
    parser.add_argument("query", nargs="*", help="a question to open the page with")


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


def _create_options(parser: SettingsParser) -> None:
    parser.add_argument("owner", help="whose key it is: a person or a program")
    parser.add_argument(
        "--scopes",
        metavar="LIST",
        help="what it allows: read, write (records), index, admin (everything); read,write unless"
        " given, and index where it has --roots or the server has no --root",
    )
    parser.add_argument(
        "--projects",
        default="*",
        metavar="LIST",
        help="patterns of the projects that exist for it, such as 'team-*' (all)",
    )
    parser.add_argument(
        "--roots",
        dest="own_roots",  # the setting of this name is the server's
        metavar="PATH[,PATH…]",
        help="directories below which it may index, of those that the server allows (all)",
    )
    parser.add_argument(
        "--expires", metavar="TIME", help="time until it expires: 90d, 12h, 30m (never)"
    )
    parser.add_argument(
        "--requests-per-minute",
        dest="own_limit",  # the setting of this name is the server's
        metavar="N",
        help="requests that it may send in a minute, instead of the server's limit",
    )


def _id_option(parser: SettingsParser) -> None:
    parser.add_argument("id", help="its id, as listed")


def _rotate_options(parser: SettingsParser) -> None:
    _id_option(parser)
    parser.add_argument(
        "--grace", default="0", metavar="TIME", help="time that the former text stays valid: 1h (0)"
    )


KEYS = Command(
    "keys",
    "Say who may call the server over HTTP",
    "keys:list_all",
    actions=(
        Command("list", "List all keys", "keys:list_all", project=""),
        Command(
            "create", "Make a key, and show it once", "keys:create", _create_options, project=""
        ),
        Command("rotate", "Give a key a new text", "keys:rotate", _rotate_options, project=""),
        Command("revoke", "Refuse a key from now on", "keys:revoke", _id_option, project=""),
    ),
    project="",
)

SERVE = Command(
    "serve", "Serve MCP, on stdio by default", "serve:serve", _serve_options, project="", json=""
)

SERVER_COMMANDS = (
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
        _setup_options,
        project="",
    ),
    Command(
        "settings",
        "Show every setting, its value and its source",
        "settings_command:settings_command",
        _settings_options,
        project="",
        defaults=NAMES_REPOSITORY,
    ),
    Command(
        "trust",
        "Allow a .mcp-context.toml to select its project",
        "settings_command:trust",
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
)
