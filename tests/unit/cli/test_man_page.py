"""``docs/codebase-mcp.1``, which the wheel installs, matches the table of commands.

``python -m tests.unit.cli.test_man_page`` from the root updates it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.test_command_reference import options_of, parsers_below, spelling

from codebase_mcp.cli.commands import COMMANDS
from codebase_mcp.cli.main import build_parser
from codebase_mcp.settings.loading import SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "codebase-mcp.1"

BEGINNING = r"""
.TH CODEBASE\-MCP 1
.SH NAME
codebase\-mcp \- code search for AI coding agents
.SH SYNOPSIS
.B codebase\-mcp
.RI [ COMMAND ]
.RI [ OPTIONS ]
.SH DESCRIPTION
Indexes repositories and answers questions about their code, for agents over MCP and for people in a
shell. PostgreSQL and the embedding model are built in. Without a command it serves MCP on standard
input and output.
.PP
Every setting is an option of every command and an environment variable. Every MCP tool is a command
too:
.B codebase\-mcp search_code \-\-query \(dqwhere are failed requests retried\(dq
.SH COMMANDS
""".lstrip()

END = r"""
.SH EXIT STATUS
0 for success, 1 for failure, 2 for wrong usage, 130 after Ctrl\-C.
""".lstrip()


def page() -> str:
    """The page in roff."""
    parsers = parsers_below(build_parser())
    parts = [BEGINNING]
    for title, group in COMMANDS.items():
        parts.append(f".SS {roff(title)}\n")
        for command in group:
            inner = parsers_below(parsers[command.name])
            parts += section(command.name, command.summary, parsers[command.name])
            for action in command.actions:
                name = f"{command.name} {action.name}"
                parts += section(name, action.summary, inner[action.name])
    parts.append(".SH ENVIRONMENT\n")
    for setting in SETTINGS:
        parts.append(f".TP\n.B {roff(setting.variable)}\n{roff(setting.help)}\n")
    return "".join([*parts, END])


def section(name: str, summary: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """A command: what it does, and its options."""
    yield f".TP\n.B {roff(name)}\n{roff(summary)}.\n.RS\n"
    for option in options_of(parser):
        yield f".TP\n.B {roff(spelling(option))}\n{roff(option.help or '')}\n"
    yield ".RE\n"


def roff(text: str) -> str:
    """A text without anything that roff would take for a command."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def test_the_page_matches_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_man_formats_the_page_without_a_warning() -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-Kutf8", "-Tutf8", "-ww", PAGE], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "log-search" in re.sub(".\b", "", done.stdout)  # a letter twice is a bold letter


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
