"""The command ``codebase-mcp model``."""

from __future__ import annotations

from codebase_mcp.cli.command import Command
from codebase_mcp.cli.flags import SettingsParser


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
