"""Every MCP tool as a command, made from the tool's own schema: its result is printed as JSON.

Errors are worded for agents, which call tools. As every tool is a command and every parameter of it
a flag, `in_commands` replaces the names of tools and parameters for the reader of a shell.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from codebase_mcp.cli.command import SettingsParser, without_flags
from codebase_mcp.cli.commands import all_commands
from codebase_mcp.cli.output import print_json
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.table import TOOLSET_OF
from codebase_mcp.tools.catalog import tool_named


def is_tool(arguments: Sequence[str]) -> bool:
    """Whether these arguments call a tool; ``--operation`` tells it from a command of its name."""
    name = next(iter(arguments), "")
    is_command = any(command.name == name for command in all_commands())
    has_operation = any(a.partition("=")[0] in ("--operation", "--action") for a in arguments)
    return name in TOOLSET_OF and (not is_command or has_operation)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of a tool's command, under the names that the user wrote."""
    from codebase_mcp.tools.arguments import aliases_in  # noqa: PLC0415

    spec = tool_named(arguments[0])
    properties: dict[str, Any] = spec.input_schema()["properties"]
    parser = SettingsParser(
        prog=f"codebase-mcp {spec.name}",
        description=spec.description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    for name, schema in properties.items():
        text = schema.get("description", "").replace("%", "%%")
        if schema.get("type") == "boolean":
            parser.add_argument(*_spellings(name), nargs="?", const="true", dest=name, help=text)
        elif _entries(schema) is not None:
            text += " May be repeated."
            parser.add_argument(*_spellings(name), action="append", dest=name, help=text)
        else:
            parser.add_argument(*_spellings(name), dest=name, help=text)
    for alias in aliases_in(properties):
        parser.add_argument(*_spellings(alias), dest=alias, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments[1:])
    options.values = {
        name: _list_of(value, properties[name]) if isinstance(value, list) else value
        for name, value in without_flags(options).items()
    }
    options.spec, options.json = spec, True
    return options


async def call(options: argparse.Namespace, settings: Settings) -> int:
    """Call the tool and print its result; an error comes in the contract's shape."""
    from codebase_mcp.cli.shell import open_shell  # noqa: PLC0415

    async with open_shell(settings) as shell:
        content = await shell.call(options.spec.name, options.values)
    return print_json(content)


def _entries(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the entries of a list, or of a list or null; none of anything else."""
    lists = (variant for variant in schema.get("anyOf", [schema]) if variant.get("type") == "array")
    return next((variant["items"] for variant in lists), None)


def _list_of(texts: list[str], schema: dict[str, Any]) -> Any:
    """The list that a flag was given: as JSON at once, or entry by entry."""
    from codebase_mcp.tools.arguments import parsed  # noqa: PLC0415

    whole = parsed(schema, texts[0])
    if len(texts) == 1 and (whole is None or isinstance(whole, list)):
        return whole
    return [parsed(_entries(schema) or {}, text) for text in texts]


def _spellings(name: str) -> list[str]:
    return list(dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]))


# A name, its arguments or its value: index_repository, session(operation="start"), ref="main".
# Names without underscore are also English words, unless something is passed with them; a word
# before " = " is a key of a file.
_NAME = re.compile(
    r"(?<![\w./\"'-])(?P<name>[a-z]+(?:_[a-z]+)*)"
    r"(?:\((?P<arguments>[^()]*)\)|=(?P<value>\"[^\"]*\"|\w+))?(?![\w/-]| = )"
)

# What people type instead of the tool's own command.
_SHORTER = {
    "index_repository": "codebase-mcp index",
    "list_projects": "codebase-mcp projects",
    "force_reindex": "--force",
    "project_id": "--project",
}
_POSITIONAL = "repo_path"
# Between the arguments of a call, not within an argument.
_COMMA = re.compile(r",(?= [a-z_]+=)")


def in_commands(text: str) -> str:
    """A hint with tools and parameters replaced by commands and flags."""
    from codebase_mcp.tools.catalog import all_tools  # noqa: PLC0415 - heavy, and seldom needed

    tools = {tool.name for tool in all_tools()}
    parameters = {name for tool in all_tools() for name in tool.input_schema()["properties"]}

    def said(match: re.Match[str]) -> str:
        name, arguments, value = match.groups()
        if "_" not in name and arguments is None and value is None:
            return match[0]
        if name in tools:
            command = _SHORTER.get(name, f"codebase-mcp {name}")
            return f"{command} {in_commands(_COMMA.sub('', arguments or ''))}".rstrip()
        if name == _POSITIONAL and value is not None:
            return value
        if name in parameters:
            flag = _SHORTER.get(name, f"--{name.replace('_', '-')}")
            return flag if value in (None, "true") else f"{flag} {value}"
        return match[0]

    return _NAME.sub(said, text)
