"""Search the history from the shell: a table on a terminal, text into a pipe, or JSON."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from codebase_mcp.cli.calling import open_shell
from codebase_mcp.cli.here import project_here, repository_here
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.errors import InvalidInput
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_moment, check_query

if TYPE_CHECKING:
    from codebase_mcp.app.reports import HistoryReport, SymbolReport
    from codebase_mcp.search.history import FoundCommit, HistoryFilters


async def log_search(options: argparse.Namespace, settings: Settings) -> int:
    """Search commits and show them; the exit status is 0 also when nothing is found."""
    query = " ".join(options.query)
    filters = read_filters(options)
    if options.symbol is not None:
        return await _show_symbol(options, settings)
    if not query.strip() and filters is None:
        raise InvalidInput.of(
            "query", "", "Give a question, or one of --path, --author, --since, --until",
            rule="a question or a filter",
        )  # fmt: skip
    limit = number_of("limit", options.limit, 1, 50)
    async with open_shell(settings) as shell:
        app = await shell.app()
        project = await project_here(app, options, shell.identity)
        report = await app.history.search(
            check_query(query) if query.strip() else "",
            project,
            filters,
            limit=limit,
            identity=shell.identity,
            repository=repository_here(options),
        )
    if options.json:
        return print_json(as_json(report))
    if sys.stdout.isatty():
        _show(report)
        return 0
    from codebase_mcp.replies.history import history_text  # noqa: PLC0415

    say(history_text(report, settings.reply_chars))
    return 0


async def _show_symbol(options: argparse.Namespace, settings: Settings) -> int:
    name = options.symbol.strip().replace("::", ".").strip(".")
    if not name or options.query or read_filters(options):
        raise InvalidInput.of(
            "symbol",
            options.symbol[:50],
            "--symbol takes a name, and neither a question nor a filter",
            rule="a name alone",
        )
    limit = number_of("limit", options.limit, 1, 50)
    async with open_shell(settings) as shell:
        app = await shell.app()
        project = await project_here(app, options, shell.identity)
        report = await app.history.of_symbol(
            name, project, identity=shell.identity, repository=repository_here(options)
        )
    if options.json:
        return print_json(symbol_json(report, limit))
    from codebase_mcp.replies.history import symbol_text  # noqa: PLC0415

    say(symbol_text(report, limit, settings.reply_chars))
    return 0


def symbol_json(report: SymbolReport, limit: int) -> dict[str, Any]:
    """What became of a symbol, for a program."""
    return {
        "symbol": report.name,
        "repositories": [
            {
                "repository_id": str(one),
                "root": str(report.repositories[one].root),
                "commits": history.commits,
                "is_complete": history.is_complete,
                "events_total": len(history.events),
                "events": [
                    asdict(event) | {"at": event.at.isoformat()} for event in history.events[:limit]
                ],
            }
            for one, history in report.histories.items()
        ],
        "notices": list(report.notices),
    }


def read_filters(options: argparse.Namespace) -> HistoryFilters | None:
    """The filters that are given; None without any.

    Raises:
        InvalidInput: a time cannot be read as one.
    """
    from codebase_mcp.search.history import HistoryFilters  # noqa: PLC0415 - not for the help

    filters = HistoryFilters(
        path=(options.path or "").removeprefix("./").strip("/") or None,
        author=options.author or None,
        since=check_moment(options.since, "since"),
        until=check_moment(options.until, "until", is_end=True),
    )
    return None if filters == HistoryFilters() else filters


def as_json(report: HistoryReport) -> dict[str, Any]:
    """The report for a program."""
    return {
        "commits": [_commit_json(commit) for commit in report.commits],
        "count": len(report.commits),
        "project_id": report.project.project_id,
        "repositories": {
            str(one): {"name": facts.name, "root": str(facts.root)}
            for one, facts in report.repositories.items()
        },
        "commits_read": {str(one): count for one, count in report.read.items()},
        "notices": list(report.notices),
        "latency_ms": round(report.latency_ms, 2),
    }


def _commit_json(commit: FoundCommit) -> dict[str, Any]:
    return {
        "commit": commit.hash,
        "author": commit.author_name,
        "email": commit.author_email,
        "date": commit.authored_at.isoformat(),
        "subject": commit.subject,
        "excerpt": commit.excerpt,
        "message": commit.message,
        "score": commit.score,
        "is_merge": commit.is_merge,
        "branches": list(commit.branches),
        "lines_added": commit.added,
        "lines_removed": commit.removed,
        "paths": [
            {
                "path": change.path,
                "lines_added": change.added,
                "lines_removed": change.removed,
                **({"former_path": change.former} if change.former else {}),
            }
            for change in commit.changes[:20]
        ],
        "paths_total": commit.paths_total,
        "repository_id": str(commit.repository_id),
    }


def _show(report: HistoryReport) -> None:
    from rich.table import Column, Table  # noqa: PLC0415 - on a terminal alone
    from rich.text import Text  # noqa: PLC0415

    from codebase_mcp.cli.terminal import Terminal  # noqa: PLC0415
    from codebase_mcp.replies.history import (  # noqa: PLC0415
        HASH_CHARS,
        NOTHING,
        history_notes,
        paths_line,
    )

    console = Terminal()
    for note in history_notes(report):
        console.print(note, style="yellow")
    if not report.commits:
        console.print(NOTHING)
        return
    table = Table(
        Column("commit", style="yellow", no_wrap=True),
        Column("date", no_wrap=True),
        Column("author", max_width=20, no_wrap=True, overflow="ellipsis"),
        Column("lines", justify="right", no_wrap=True),
        Column("score", justify="right", style="green", no_wrap=True),
        Column("what", ratio=1, overflow="fold"),
        box=None,
        expand=True,
    )
    for commit in report.commits:
        branches = ", ".join(commit.branches)
        details = filter(None, (branches, commit.excerpt, paths_line(commit)))
        what = Text.assemble((commit.subject, "bold"), *((f"\n{text}", "dim") for text in details))
        table.add_row(
            commit.hash[:HASH_CHARS],
            f"{commit.authored_at:%Y-%m-%d}",
            commit.author_name,
            "" if commit.added is None else f"+{commit.added} -{commit.removed}",
            "" if commit.score is None else f"{commit.score:.2f}",
            what,
        )
    console.print(table)
    console.print(f"{report.latency_ms:.0f} ms", style="dim")
