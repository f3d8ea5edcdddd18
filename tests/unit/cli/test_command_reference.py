"""``docs/cli.md`` matches the table of commands.

``python -m tests.unit.cli.test_command_reference`` from the root updates it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from codebase_mcp.cli.commands import COMMANDS, listing
from codebase_mcp.cli.main import build_parser
from codebase_mcp.tools.catalog import toolsets

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"

INTRODUCTION = """\
# Commands

Generated from the table in `src/codebase_mcp/cli/commands.py` by `python -m
tests.unit.cli.test_command_reference`; a test keeps it up to date.

`codebase-mcp COMMAND --help` shows the same. Without a command, `codebase-mcp` serves MCP on stdio.
Every setting is an option of every command too: [settings.md](settings.md). Default values are in
brackets. The exit status is 0 for success, 1 for failure, 2 for wrong usage and 130 after Ctrl-C.
With `--json`, a command prints JSON on standard output, errors included.
"""

TOOLS = """\
## Tools

Every MCP tool is also a command. Its options are the tool's parameters, with `-` or `_`. A list is
passed as JSON, or by repeating the option. The command prints the tool's result as JSON:
`codebase-mcp search_code --query "where are failed requests retried"`. `memory` is the tool if
`--operation` is given, and the command otherwise.
"""


def page() -> str:
    """docs/cli.md."""
    parsers = parsers_below(build_parser())
    parts = [INTRODUCTION]
    for title, group in COMMANDS.items():
        parts.append(f"## {title}\n")
        for command in group:
            parts += section(f"codebase-mcp {command.name}", parsers[command.name], 3)
            inner = parsers_below(parsers[command.name])
            for action in command.actions:
                name = f"codebase-mcp {command.name} {action.name}"
                parts += section(name, inner[action.name], 4)
    parts += [TOOLS, "| command | what it does |", "| --- | --- |"]
    parts += [f"| `{tool.name}` | {tool.title} |" for one in toolsets() for tool in one.tools]
    return "\n".join([*parts, ""])


def section(name: str, parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    """A command: what it does, and its options."""
    yield f"{'#' * level} {name}\n\n{parser.description}\n"
    options = [*options_of(parser)]
    if options:
        yield from ("| option | what it is |", "| --- | --- |")
        for option in options:
            yield f"| `{spelling(option)}` | {option.help} |"
        yield ""


def options_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The command's own options: those of all commands are explained once."""
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    yield from (action for action in parser._actions if not isinstance(action, hidden))


def spelling(option: argparse.Action) -> str:
    """An option as it is typed."""
    names = option.metavar or (option.option_strings and option.dest.upper()) or option.dest
    value = ", ".join(map(str, option.choices)) if option.choices else str(names)
    if not option.option_strings:
        return {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} ..."}.get(
            str(option.nargs), value
        )
    flag = ", ".join(option.option_strings)
    if option.nargs == 0:
        return flag
    return f"{flag} [{value}]" if option.nargs == "?" else f"{flag} {value}"


def parsers_below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a parser's commands, by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def test_the_reference_matches_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_option_is_explained() -> None:
    for name, parser in parsers_below(build_parser()).items():
        for one in (parser, *parsers_below(parser).values()):
            assert all(option.help for option in options_of(one)), name


def test_the_help_lists_every_command_by_group() -> None:
    shown = build_parser().format_help()
    assert listing() in shown
    assert set(parsers_below(build_parser())) == {
        command.name for group in COMMANDS.values() for command in group
    }


def test_no_command_is_listed_twice() -> None:
    names = [command.name for group in COMMANDS.values() for command in group]
    assert len(names) == len(set(names))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
