"""Rewords hints for agents, which call tools, into commands for a shell.

Errors are worded for agents. Every tool is a command and every parameter of it a flag, so the
names of tools and parameters are replaced.
"""

from __future__ import annotations

import re

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
