"""The arguments of the command ``keys``; what it does is in keys.py."""

from __future__ import annotations

from codebase_mcp.cli.command import Command
from codebase_mcp.cli.flags import SettingsParser


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
