"""Which commands are there for whoever looks after the database?"""

from __future__ import annotations

import argparse

from codebase_mcp.cli.record_commands import Lazily, Subparsers


def add_database_commands(commands: Subparsers, lazily: Lazily) -> None:
    """``migrate``, ``backup``, ``restore`` and ``purge``."""
    what = "Bring the catalogue and a project up to date now, not when next used"
    migrate = _command(commands, "migrate", what)
    migrate.set_defaults(command=lazily("migrate", "migrate"))
    migrate.add_argument("--all", action="store_true", help="every project")
    migrate.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if anything is behind"
    )
    migrate.add_argument("--project", help="project workspace (the default one)")

    backup = _command(commands, "backup", "Write a whole project, index and records, into a file")
    backup.set_defaults(command=lazily("backup", "backup"))
    backup.add_argument("--output", required=True, metavar="FILE", help="the file, best *.tar.gz")
    backup.add_argument("--project", help="project workspace (the default one)")

    restore = _command(commands, "restore", "Make a project of such a file")
    restore.set_defaults(command=lazily("backup", "restore"))
    restore.add_argument("file", help="what backup wrote; - is standard input")
    restore.add_argument("--project", help="restore as this project (the one that was backed up)")
    restore.add_argument(
        "--replace", action="store_true", help="replace all that the project holds now"
    )

    what = "Erase a file, a repository or a project at once, and count what is left"
    purge = _command(commands, "purge", what)
    purge.set_defaults(command=lazily("purge", "purge"))
    purge.add_argument(
        "place", nargs="?", metavar="PATH",
        help="a repository's directory or id, or a path inside of one; it need not exist any more",
    )  # fmt: skip
    purge.add_argument(
        "--everything", action="store_true", help="the whole project, its records too"
    )
    purge.add_argument("--yes", action="store_true", help="do not ask")
    purge.add_argument("--project", help="project workspace (the default one)")


def _command(commands: Subparsers, name: str, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary + "."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
