"""The options of ``codebase-mcp model``. Nothing but argparse is imported."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def add_model_command(commands: Any, lazily: Callable[[str, str], Any]) -> None:
    """Show models, let the stronger one's vectors grow, drop them."""
    parser = commands.add_parser(
        "model",
        help="Show the embedding models of a project, grow or drop the second tier",
        description="Show which embedding models a project has, and how far the second tier is.",
    )
    _common(parser)
    parser.set_defaults(command=lazily("model", "model"))
    verbs = parser.add_subparsers(metavar="ACTION")
    summary = "Add the stronger model's vectors now, until none is missing"
    grow = verbs.add_parser("grow", help=summary, description=summary + ".")
    grow.add_argument(
        "repositories",
        nargs="*",
        metavar="REPO",
        help="directory or id of a repository (all of the project)",
    )
    _common(grow, again=True)
    grow.set_defaults(command=lazily("model", "grow"))
    summary = "Delete the stronger models' vectors of the project"
    drop = verbs.add_parser("drop", help=summary, description=summary + ".")
    _common(drop, again=True)
    drop.set_defaults(command=lazily("model", "drop"))


def _common(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    # What is not said after the verb must not undo what was said before it.
    missing: dict[str, Any] = {"default": argparse.SUPPRESS} if again else {}
    parser.add_argument("--project", help="project workspace (the one you work in)", **missing)
    parser.add_argument("--json", action="store_true", help="print JSON", **missing)
