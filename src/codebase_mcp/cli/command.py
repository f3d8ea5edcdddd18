"""A command of the shell: its name and options, and the function that runs it.

Nothing but argparse is imported here, so that help and the MCP handshake stay quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from codebase_mcp.cli.flags import SettingsParser

if TYPE_CHECKING:
    from codebase_mcp.settings.loading import Settings

PROJECT = "project workspace (the one you work in)"
JSON = "print JSON"

NAMES_REPOSITORY = {"names_repository": True}
"""For commands whose ``path`` is a repository: its context file is checked with the settings."""

Subparsers = Any  # argparse has no public type for it


def no_options(_: SettingsParser) -> None:
    """For commands that take no options of their own."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or an action of a command.

    ``run`` names the function, as ``module:function`` in this package. ``project`` and ``json``
    are the help texts of the options ``--project`` and ``--json``; a command with an empty text
    does not have the option. ``defaults`` are values that no option sets.
    """

    name: str
    summary: str
    run: str
    add_options: Callable[[SettingsParser], None] = no_options
    actions: tuple[Command, ...] = ()
    description: str = ""
    project: str = PROJECT
    json: str = JSON
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def add_to(self, commands: Subparsers, *, is_action: bool = False) -> None:
        description = self.description or f"{self.summary}."
        parser: SettingsParser = commands.add_parser(
            self.name, help=self.summary, description=description
        )
        parser.set_defaults(command=self.call, **({} if self.json else {"json": False}))
        parser.set_defaults(**self.defaults)
        self.add_options(parser)
        # These may stand before or after the action. A default of the action's parser would
        # overwrite the value that was given before it.
        missing: dict[str, Any] = {"default": argparse.SUPPRESS} if is_action else {}
        if self.project:
            parser.add_argument("--project", help=self.project, **missing)
        if self.json:
            parser.add_argument("--json", action="store_true", help=self.json, **missing)
        if self.actions:
            actions = parser.add_subparsers(metavar="ACTION")
            for action in self.actions:
                action.add_to(actions, is_action=True)

    async def call(self, options: argparse.Namespace, settings: Settings) -> int:
        module, _, function = self.run.partition(":")
        run = getattr(import_module(f"codebase_mcp.cli.{module}"), function)
        status: int = await run(options, settings)
        return status
