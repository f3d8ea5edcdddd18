"""A command of the shell: its name and options, and the function that runs it.

Nothing but argparse is imported here, so that help and the MCP handshake stay quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from codebase_mcp.cli.flags import SettingsParser, show_settings
from codebase_mcp.errors import InvalidInput

if TYPE_CHECKING:
    from codebase_mcp.settings.loading import Settings

PROJECT = "project workspace (the one you work in)"
JSON = "print JSON"

NAMES_REPOSITORY = {"names_repository": True}
"""For commands whose ``path`` is a repository: its context file is checked with the settings."""

Subparsers = Any  # argparse has no public type for it


@dataclass(frozen=True, slots=True)
class Option:
    """An option, or an argument if its name has no dashes; ``arguments`` are argparse's.

    ``bounds`` of a whole number are checked before the command runs.
    """

    name: str
    help: str | Callable[[], str]
    bounds: tuple[int, int] | None
    arguments: Mapping[str, Any]

    def add_to(self, parser: SettingsParser) -> None:
        text = self.help if isinstance(self.help, str) else self.help()
        if (default := self.arguments.get("default")) is not None:
            text += f" ({default})"
        arguments = dict(self.arguments)
        required = arguments.pop("required", None)
        action = parser.add_argument(self.name, help=text, **arguments)
        if required is not None:  # argparse takes this for options alone
            action.required = required

    def check(self, options: argparse.Namespace) -> None:
        """Replace the text of a number by the number.

        Raises:
            InvalidInput: it is not a whole number within the bounds.
        """
        given = self.name.removeprefix("--")
        destination = self.arguments.get("dest", given.replace("-", "_"))
        text = getattr(options, destination)
        if self.bounds is None or not isinstance(text, str):
            return
        from codebase_mcp.settings.rules import whole_number  # noqa: PLC0415 - not for help

        rule = whole_number(*self.bounds)
        try:
            setattr(options, destination, rule.parse(text))
        except ValueError as error:
            raise InvalidInput.of(given, text, f"--{given} {error}", rule=rule.words) from None


def option(name: str, help: str | Callable[[], str], **arguments: Any) -> Option:
    """An option with a value, or an argument; the help shows the default."""
    return Option(name, help, None, arguments)


def number(name: str, help: str, low: int, high: int, **arguments: Any) -> Option:
    """An option whose value is a whole number."""
    return Option(name, help, (low, high), {"metavar": "N", **arguments})


def flag(name: str, help: str, **arguments: Any) -> Option:
    """An option without a value."""
    return Option(name, help, None, {"action": "store_true", **arguments})


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or an action of a command.

    ``run`` names the function, as ``module:function`` in this package. ``project`` and ``json``
    are the help texts of the options ``--project`` and ``--json``; a command with an empty text
    does not have the option. ``defaults`` are values that no option sets. With a ``usage``, its
    help lists all settings.
    """

    name: str
    summary: str
    run: str
    options: tuple[Option, ...] = ()
    actions: tuple[Command, ...] = ()
    description: str = ""
    project: str = PROJECT
    json: str = JSON
    usage: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def add_to(self, commands: Subparsers, *, is_action: bool = False) -> None:
        description = self.description or f"{self.summary}."
        parser: SettingsParser = commands.add_parser(
            self.name, help=self.summary, description=description
        )
        parser.set_defaults(command=self.call, **({} if self.json else {"json": False}))
        parser.set_defaults(**self.defaults)
        if self.usage:
            show_settings(parser, usage=self.usage)
        for own in self.options:
            own.add_to(parser)
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
        """Check the options, and run the command; returns its exit status.

        Raises:
            InvalidInput: a number or the project is invalid.
        """
        for own in self.options:
            own.check(options)
        if getattr(options, "project", None) is not None:
            from codebase_mcp.tools.rules import check_project_id  # noqa: PLC0415 - not for help

            options.project = check_project_id(options.project)
        module, _, function = self.run.partition(":")
        run = getattr(import_module(f"codebase_mcp.cli.{module}"), function)
        status: int = await run(options, settings)
        return status
