"""Completion scripts for shells, made from the table of commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import shtab

from codebase_mcp.cli.commands import all_commands
from codebase_mcp.cli.flags import SettingsParser
from codebase_mcp.cli.output import say
from codebase_mcp.settings.loading import Settings

_FILES = {"file", "output", "save", "reference"}
_DIRECTORIES = {"directory", "path", "paths", "repositories"}


async def completion(options: argparse.Namespace, _: Settings) -> int:
    say(script(options.shell).rstrip())
    return 0


def script(shell: str) -> str:
    """The completion of commands, their actions and options, and paths."""
    parser = SettingsParser(prog="codebase-mcp")
    parser.add_argument("--version", action="store_true", help="show program, schema and model")
    commands = parser.add_subparsers(metavar="COMMAND", help="a command")
    for command in all_commands():
        command.add_to(commands)
    for subparser in _parsers(parser):
        if subparser.shows_settings:
            subparser.add_settings()
        for action in subparser._actions:  # shtab reads them there too
            _complete_paths(action)
    return shtab.complete(parser, shell)


def _parsers(parser: SettingsParser) -> Iterator[SettingsParser]:
    """A parser and those of its commands and their actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _parsers(below)


def _complete_paths(action: argparse.Action) -> None:
    """Let a shell complete values that are paths."""
    if action.dest in _FILES or action.metavar == "FILE":
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.dest in _DIRECTORIES or action.metavar == "PATH":
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
