"""The commands for operating the database."""

from __future__ import annotations

from codebase_mcp.cli.command import Command
from codebase_mcp.cli.flags import SettingsParser


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
        "place", nargs="?", metavar="PATH",
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


DATABASE_COMMANDS = (
    Command(
        "migrate",
        "Migrate the database now instead of at first use",
        "migrate:migrate",
        _migrate_options,
    ),
    Command(
        "backup",
        "Write a whole project, index and records, to a file",
        "backup:backup",
        _backup_options,
    ),
    Command(
        "restore",
        "Restore a project from a backup file",
        "backup:restore",
        _restore_options,
        project="restore as this project (the one that was backed up)",
    ),
    Command(
        "purge",
        "Erase a file, a repository or a project at once, and count what is left",
        "purge:purge",
        _purge_options,
    ),
    Command(
        "audit",
        "Show who called what over HTTP, when, and how it ended",
        "audit:audit",
        _audit_options,
        project="only of this project",
    ),
)
