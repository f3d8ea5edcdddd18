"""The options of ``codebase-mcp model``. Nothing but argparse is imported."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def add_model_command(commands: Any, lazily: Callable[[str, str], Any]) -> None:
    """Show models, switch to the configured one, undo a switch or keep it."""
    parser = commands.add_parser(
        "model",
        help="Show, switch and switch back the embedding model of repositories",
        description="Show with which embedding model each repository is indexed.",
    )
    _common(parser)
    parser.set_defaults(command=lazily("model", "model"))
    verbs = parser.add_subparsers(metavar="ACTION")
    for name, summary in (
        ("switch", "Embed with the configured model, beside the index that answers until then"),
        ("undo", "Let the index of before the last switch answer again, at once"),
        ("keep", "Drop the index of before the last switch"),
    ):
        verb = verbs.add_parser(name, help=summary, description=summary + ".")
        verb.add_argument(
            "repositories",
            nargs="*",
            metavar="REPO",
            help="directory or id of a repository (all of the project)",
        )
        _common(verb, again=True)
        verb.set_defaults(command=lazily("model", name))


def _common(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    # What is not said after the verb must not undo what was said before it.
    missing: dict[str, Any] = {"default": argparse.SUPPRESS} if again else {}
    parser.add_argument("--project", help="project workspace (the one you work in)", **missing)
    parser.add_argument("--json", action="store_true", help="print JSON", **missing)
