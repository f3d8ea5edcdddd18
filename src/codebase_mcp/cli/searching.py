"""Search from the shell: highlighted on a terminal, the agents' text into a pipe, or JSON."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codebase_mcp.cli.calling import open_shell
from codebase_mcp.cli.here import project_here, repository_here, shown_progress
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.settings.loading import DEFAULT, Settings
from codebase_mcp.tools.rules import check_directory, check_file_type, check_query, check_ref

if TYPE_CHECKING:
    from codebase_mcp.app.app import SearchReport
    from codebase_mcp.cli.calling import Shell
    from codebase_mcp.cli.terminal import Terminal
    from codebase_mcp.replies.text import Block, SearchText

# What a person should know about an index that is not ready.
NOTES = {
    "indexing": "An index run is in progress: {} files to go.",
    "incomplete": "The index is incomplete: {} files to go. Run: codebase-mcp index PATH",
    "stale": "{} files have changed and are not indexed yet. Run: codebase-mcp index PATH",
    "unchecked": "It is unknown whether files have changed since they were indexed.",
    "outdated": "An earlier version of this program made the index. Until it is rebuilt in the "
    "background, only words and names are searched.",
}

# A command may spend more time on checking files than one of many searches.
CHECK_MS = 2_000

# Pygments' names where they differ from the grammars'.
_LEXERS = {"csharp": "csharp", "cpp": "cpp", "tsx": "tsx", "bash": "bash", "text": "text"}


async def search(options: argparse.Namespace, settings: Settings) -> int:
    """Search and show; the exit status is 0 also when nothing is found."""
    async with open_shell(with_check_limit(settings)) as shell:
        project = await project_here(await shell.app(), options, shell.identity)
        if options.json:
            print_json(await _as_json(shell, options, project))
            return 0
        context_lines = number_of("context", options.context_lines, 0, 50)
        report = await _report(shell, options, project, context_lines)
    from codebase_mcp.replies.text import read_search, search_text  # noqa: PLC0415

    if not sys.stdout.isatty():
        say(search_text(report, settings.reply_chars, context_lines))
        return 0
    from codebase_mcp.cli.terminal import Terminal  # noqa: PLC0415 - not into a pipe

    show(read_search(report, settings.reply_chars, context_lines), report, Terminal())
    return 0


async def _as_json(
    shell: Shell, options: argparse.Namespace, project: str | None
) -> dict[str, Any]:
    """The tool's own reply."""
    arguments = {
        "query": " ".join(options.query),
        "limit": options.limit,
        "context_lines": options.context_lines,
        "explain": options.explain,
        "project_id": project,
        "file_type": options.file_type,
        "directory": options.directory,
        "ref": " ".join(options.ref) if options.ref else None,
        "with_history": options.with_history,
        "repository_id": repository_here(options),
    }
    given = {name: value for name, value in arguments.items() if value is not None}
    return await shell.call("search_code", given)


async def _report(
    shell: Shell, options: argparse.Namespace, project: str | None, context_lines: int
) -> SearchReport:
    from codebase_mcp.search.filters import FileFilters  # noqa: PLC0415 - opened by now
    from codebase_mcp.search.search import Request  # noqa: PLC0415

    file_type = check_file_type(options.file_type)
    filters = FileFilters(
        extensions=(file_type.lower(),) if file_type else None,
        directory=check_directory(options.directory) or None,
    )
    request = Request(
        filters,
        limit=number_of("limit", options.limit, 1, 50),
        context_lines=context_lines,
        explain=options.explain,
        by_definition=True,
    )
    query = check_query(" ".join(options.query))
    ref = check_ref(" ".join(options.ref), "ref") if options.ref else None
    app = await shell.app()
    with shown_progress(hidden=options.json) as report:
        return await app.search(
            query,
            project,
            request,
            repository=repository_here(options),
            ref=ref,
            identity=shell.identity,
            with_help=True,
            with_history=options.with_history,
            report=report,
        )


def with_check_limit(settings: Settings) -> Settings:
    """The settings with the time limit of a command for checking files, unless one was set."""
    is_set = settings.sources.get("check_ms", DEFAULT) != DEFAULT
    return settings if is_set else replace(settings, check_ms=CHECK_MS)


def show(text: SearchText, report: SearchReport, console: Terminal) -> None:
    """Print the text of a search for a person: in colour, cut to the width, with linked paths."""
    roots = {str(one.repository_id): one.root for one in report.answer.snapshots}
    for line in text.head:
        console.print(line, style="yellow")
    for block in text.blocks:
        _show_block(block, roots[str(block.hit.repository_id)], console)
    for line in text.tail:
        console.print(line, style="dim")
    console.print(f"{report.latency_ms:.0f} ms", style="dim")


def _show_block(block: Block, root: str, console: Terminal) -> None:
    from rich.style import Style  # noqa: PLC0415 - on a terminal alone
    from rich.syntax import Syntax  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    hit = block.hit
    link = Style(color="cyan", bold=True, link=f"file://{root}/{hit.file_path}")
    heading = Text.assemble(
        (f"{block.number}. ", "dim"),
        (block.path, link),
        (f":{hit.start_line}-{hit.end_line}", "cyan"),
        (f"  {hit.similarity_score:.2f}", "green"),
        (f"  {hit.symbol}" if hit.symbol else "", "magenta"),
    )
    console.print(heading, no_wrap=True, overflow="ellipsis")
    lexer = _LEXERS.get(hit.language, hit.language)
    painter = Syntax("", lexer, theme="ansi_dark", background_color="default")
    for line, text in block.code:
        code = Text(text, "dim") if line is None else painter.highlight(text)
        code.rstrip()
        margin = Text(f"{block.margin(line)}  ", "dim")
        console.print(Text.assemble(margin, code), no_wrap=True, overflow="ellipsis")
    for detail in block.details:
        console.print(detail, style="dim", no_wrap=True, overflow="ellipsis")
