"""Every setting is a flag of every command, made from the table of settings.

A command's own option of the same name comes first: there the setting has its variable alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from codebase_mcp.printable import printable
from codebase_mcp.settings.loading import SETTINGS, Setting

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


def show_settings(parser: SettingsParser, *, usage: str) -> None:
    """Let the help of a command list the settings."""
    parser.shows_settings = True
    parser.usage = usage
    parser.epilog = "Each is an environment variable too; codebase-mcp settings shows them all."


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
    """The command's own options."""
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
