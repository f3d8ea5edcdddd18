"""Search from the shell: snippets with highlighted syntax, or the tool's JSON."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from typing import Any

from rich.syntax import Syntax
from rich.text import Text

from codebase_mcp.cli.calling import open_shell
from codebase_mcp.cli.here import project_here
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.terminal import Terminal
from codebase_mcp.printable import printable, printable_line
from codebase_mcp.settings import DEFAULT, Settings

# What a person should know about an index that is not ready.
NOTES = {
    "indexing": "An index run is going on: {} files to go.",
    "incomplete": "The index is incomplete: {} files to go. Run: codebase-mcp index PATH",
    "stale": "{} files have changed and are not indexed yet. Run: codebase-mcp index PATH",
    "unchecked": "Whether files have changed since they were indexed is not known.",
    "outdated": "An earlier version of this program made the index. Words and names answer; "
    "meaning does when the index has been made anew, in the background.",
}

# One command has more time to look than one search of many.
CHECK_MS = 2_000

# Of a long chunk a terminal shows the beginning.
MAX_LINES_SHOWN = 16

_LINE_END = re.compile("\r\n?")

# Pygments' names where they differ from the grammars'.
_LEXERS = {"csharp": "csharp", "cpp": "cpp", "tsx": "tsx", "bash": "bash", "text": "text"}


async def search(options: argparse.Namespace, settings: Settings) -> int:
    """Search and show; the exit status is 0 also when nothing is found."""
    arguments: dict[str, Any] = {
        "query": " ".join(options.query),
        "limit": options.limit,
        "context_lines": options.context_lines,
        "explain": options.explain,
    }
    optional = {
        "file_type": options.file_type,
        "directory": options.directory,
    }
    arguments |= {name: value for name, value in optional.items() if value is not None}
    async with open_shell(patient(settings)) as shell:
        project = await project_here(await shell.app(), options, shell.identity)
        if project is not None:
            arguments["project_id"] = project
        reply = await shell.call("search_code", arguments)
    if options.json:
        print_json(reply)
    else:
        show(reply, Terminal())
    return 0


def patient(settings: Settings) -> Settings:
    """The settings with the time that one command takes for looking, unless somebody set it."""
    is_set = settings.sources.get("check_ms", DEFAULT) != DEFAULT
    return settings if is_set else replace(settings, check_ms=CHECK_MS)


def show(reply: dict[str, Any], console: Terminal) -> None:
    """Print the results of a search for a person."""
    if not reply["results"]:
        console.print("Nothing in the code has to do with this.")
    for number, result in enumerate(reply["results"], 1):
        heading = Text.assemble(
            (f"{number}. ", "dim"),
            (printable_line(result["file_path"]), "bold cyan"),
            (f":{result['start_line']}-{result['end_line']}", "cyan"),
            (f"  {result['similarity_score']:.2f}", "green"),
            (f"  {printable_line(result['symbol'])}" if result["symbol"] else "", "magenta"),
        )
        console.print(heading)
        console.print(_snippet(result))
        for place in result.get("more_in_file", ()):
            label = f"   also {place['start_line']}-{place['end_line']}  {place['symbol'] or ''}"
            console.print(label, style="dim")
        if result.get("signals"):
            parts = (f"{name} {value:+.2f}" for name, value in result["signals"].items())
            console.print("   " + ", ".join(parts), style="dim")
        console.print()
    total = f"{'at least ' if reply.get('total_is_lower_bound') else ''}{reply['total_count']}"
    console.print(
        f"{len(reply['results'])} of {total} places, {reply['latency_ms']:.0f} ms", style="dim"
    )
    if told := reply.get("help"):
        _show_help(told, console)
    elif note := NOTES.get(reply["index"]["state"]):
        console.print(note.format(reply["index"]["files_pending"]), style="yellow")


def _show_help(told: dict[str, Any], console: Terminal) -> None:
    """Why the answer is weak, and what to ask instead."""
    for reason in told["reasons"]:
        console.print(reason, style="dim", soft_wrap=True)
    for word, near in told["nearest_words"].items():
        console.print(f"  {word}: {', '.join(near)}", style="dim")
    console.print(told["hint"], style="yellow", soft_wrap=True)


def _snippet(result: dict[str, Any]) -> Syntax:
    before, after = result["context_before"], result["context_after"]
    # Escaped before it is cut to the width; a carriage return ends a line, as in editors.
    code = printable(_LINE_END.sub("\n", before + result["content"] + after))
    before = _LINE_END.sub("\n", before)
    lines = code.rstrip("\n").split("\n")
    first = result["start_line"] - before.count("\n")
    return Syntax(
        "\n".join(lines[: MAX_LINES_SHOWN + before.count("\n")]),
        _LEXERS.get(result["language"], result["language"]),
        line_numbers=True,
        start_line=first,
        theme="ansi_dark",
        background_color="default",
        word_wrap=False,
    )
