"""A command of the shell: its name and options, and the function that runs it.

Every setting is a flag of every command too, made from the table of settings. A command's own
option of the same name comes first: there the setting has its variable alone. Nothing but argparse
and that table is imported here, so that help and the MCP handshake stay quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NoReturn

from codebase_mcp.errors import InvalidInput
from codebase_mcp.printable import printable
from codebase_mcp.settings.loading import SETTINGS, Setting, Settings

PROJECT = "project workspace (the one you work in)"
JSON = "print JSON"

NAMES_REPOSITORY = {"names_repository": True}
"""For commands whose ``path`` is a repository: its context file is checked with the settings."""

Subparsers = Any  # argparse has no public type for it


@dataclass(frozen=True, slots=True)
class Option:
    """An option, or an argument if its name has no dashes; ``arguments`` are argparse's.

    An argument ``short`` has further names, of a letter.
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
        names = [*arguments.pop("short", "").split(), self.name]
        action = parser.add_argument(*names, help=text, **arguments)
        if required is not None:  # argparse takes this for options alone
            action.required = required

    def check(self, options: argparse.Namespace) -> None:
        """Replace the text of a number by the number."""
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
            parser.shows_settings, parser.usage = True, self.usage
            parser.epilog = (
                "Each is an environment variable too; codebase-mcp settings shows them all."
            )
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
        """Check the options, and run the command; returns its exit status."""
        for own in self.options:
            own.check(options)
        if getattr(options, "project", None) is not None:
            from codebase_mcp.tools.rules import check_project_id  # noqa: PLC0415 - not for help

            options.project = check_project_id(options.project)
        module, _, function = self.run.partition(":")
        run = getattr(import_module(f"codebase_mcp.cli.{module}"), function)
        status: int = await run(options, settings)
        return status


SEE_ALSO = "Every setting is a flag too: codebase-mcp settings --help lists them."
_DEST = "setting_"


class SettingsParser(argparse.ArgumentParser):
    """A parser that takes all settings as flags; so do the parsers of its commands.

    They are added when the parser is used: a process uses the parser of a single command.
    ``shows_settings`` says whether the help lists them.
    """

    shows_settings = False

    def __init__(self, *, epilog: str = SEE_ALSO, **options: Any) -> None:
        # An abbreviation would mean another flag with the next version.
        super().__init__(epilog=epilog, allow_abbrev=False, **options)
        self._is_complete = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.add_settings()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Report an error. The message may contain file names, which a shell put in for ``*``."""
        super().error(printable(message))

    def add_settings(self) -> None:
        """Add the flags, once."""
        if self._is_complete:
            return
        self._is_complete = True
        for section in dict.fromkeys(setting.section for setting in SETTINGS):
            group = self.add_argument_group(f"{section.lower()} settings")
            for setting in SETTINGS:
                taken = setting.flag in self._option_string_actions
                if setting.section == section and setting.has_flag and not taken:
                    self._add(group, setting)

    def _add(self, group: argparse._ArgumentGroup, setting: Setting) -> None:
        dest, missing = _DEST + setting.name, argparse.SUPPRESS
        text = _help(setting) if self.shows_settings else argparse.SUPPRESS
        if setting.rule.toml is bool:
            off = setting.flag.replace("--", "--no-", 1)
            for flag, value, shown in ((setting.flag, "true", text), (off, "false", missing)):
                group.add_argument(
                    flag, action="store_const", const=value, dest=dest, default=missing, help=shown
                )
        else:
            group.add_argument(
                setting.flag,
                action="append" if setting.rule.toml is list else "store",
                metavar=setting.rule.metavar,
                dest=dest,
                default=missing,
                help=text,
            )


def flags_in(options: argparse.Namespace) -> dict[str, Any]:
    """The settings given as flags, by name; also by a command's own option of the same name.

    A command's ``--project`` is left out: it names the project of a call.
    """
    given = vars(options)
    own = {s.name: given.get(s.name) for s in SETTINGS if s.name != "project"}
    taken = {name: value for name, value in own.items() if isinstance(value, str)}
    flags = {s.name: given[_DEST + s.name] for s in SETTINGS if _DEST + s.name in given}
    return taken | {n: _joined(v) if isinstance(v, list) else v for n, v in flags.items()}


def without_flags(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if not name.startswith(_DEST)}


def command_first(arguments: Sequence[str]) -> list[str]:
    """The same command line with the settings before its command moved behind it."""
    takes_value = {s.flag for s in SETTINGS if s.has_flag and s.rule.toml is not bool}
    start = 0
    while start < len(arguments) and arguments[start].startswith("-"):
        start += 2 if arguments[start] in takes_value else 1
    return [*arguments[start:], *arguments[:start]]


def _joined(values: list[str]) -> str:
    """The values of a repeated flag as a list in text form; in lines a comma is part of a value."""
    if not any("\n" in value for value in values):
        return ",".join(values)
    return "\n".join(value if "\n" in value else value.replace(",", "\n") for value in values)


def _help(setting: Setting) -> str:
    text = setting.help
    if setting.is_secret:
        text += f" Better by {setting.variable}: others see flags in the list of processes."
    return text.replace("%", "%%")
