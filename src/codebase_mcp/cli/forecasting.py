"""Show what indexing a repository would do and cost."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Column, Table
from rich.text import Text

from codebase_mcp.app.app import App
from codebase_mcp.app.forecast import IndexForecast, Share, forecast_run
from codebase_mcp.cli.indexing import cloned_source
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.shell import identity_here
from codebase_mcp.cli.terminal import console
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings

MAX_FAILURES_SHOWN = 20


async def dry_run(options: argparse.Namespace, settings: Settings) -> int:
    """Show what a run would do; nothing is written."""
    source = cloned_source(options, settings)
    async with await App.open(settings) as app:
        report = await forecast_run(
            app,
            source.path,
            options.project,
            force_reindex=options.force,
            identity=identity_here(settings),
        )
    if options.json:
        print_json(_as_json(report))
    else:
        _show(report)
    return 0


def _as_json(report: IndexForecast) -> dict[str, Any]:
    forecast = report.forecast
    content = {
        "status": "dry_run",
        "root": str(forecast.root),
        "project_id": report.project_id,
        "project_source": report.project_source,
        "is_indexed": forecast.is_indexed,
        "needs_force": forecast.needs_rebuild,
        "files": forecast.files,
        "bytes": forecast.bytes,
        "files_new": forecast.new,
        "files_changed": forecast.changed,
        "files_unchanged": forecast.unchanged,
        "files_removed": forecast.removed,
        "bytes_to_index": forecast.bytes_to_index,
        "chunks_about": forecast.chunks,
        "seconds_about": round(forecast.seconds, 1),
        "database_bytes_about": forecast.database_bytes,
        "second_tier": report.second_tier,
        "sample": {
            "files": forecast.sample.files,
            "bytes": forecast.sample.bytes,
            "chunks": forecast.sample.chunks,
            "core_seconds": round(forecast.sample.seconds, 3),
        },
        "languages": dict(forecast.languages),
        "kinds": dict(forecast.kinds),
        "files_skipped": dict(forecast.skipped),
        "largest_folders": [asdict(share) for share in forecast.largest_folders],
        "largest_files": [asdict(share) for share in forecast.largest_files],
        "errors": [str(failure) for failure in forecast.failures],
    }
    if described := report.repository.described():
        content["repository_settings"] = described
    return content


def _show(report: IndexForecast) -> None:
    forecast = report.forecast
    console.print(Text.assemble(("dry run", "bold"), "  ", (str(forecast.root), "dim")))
    console.print(
        f"{forecast.files:,} files, {_size(forecast.bytes)}: {forecast.new:,} new, "
        f"{forecast.changed:,} changed, {forecast.unchanged:,} unchanged, "
        f"{forecast.removed:,} removed"
    )
    console.print(
        f"To index: about {forecast.chunks:,} chunks, about {_time(forecast.seconds)}, "
        f"about {_size(forecast.database_bytes)} more in the database"
    )
    if report.second_tier:
        words = f"{report.second_tier} embeds them later in the background, in addition"
        console.print(words, style="dim")
    if forecast.needs_rebuild:
        words = "Another version of this program made the index: with --force, all files count"
        console.print(words, style="yellow")
    console.print(f"languages: {_counts(forecast.languages)}", style="dim")
    console.print(f"kinds: {_counts(forecast.kinds)}", style="dim")
    if forecast.skipped:
        console.print(f"skipped: {_counts(forecast.skipped)}", style="dim")
    for title, shares in (
        ("largest folders", forecast.largest_folders),
        ("largest files", forecast.largest_files),
    ):
        if shares:
            console.print(_table(title, shares))
    for warning in report.repository.warnings:
        console.print(warning, style="yellow")
    for failure in forecast.failures[:MAX_FAILURES_SHOWN]:
        console.print(printable_line(str(failure)), style="yellow")
    if len(forecast.failures) > MAX_FAILURES_SHOWN:
        rest = len(forecast.failures) - MAX_FAILURES_SHOWN
        console.print(f"… and {rest} more (--json lists all)")
    console.print("Nothing was written. Exclude more files with .mcpignore.", style="dim")


def _table(title: str, shares: Sequence[Share]) -> Table:
    numbers = [Column(name, justify="right") for name in ("files", "size")]
    table = Table(Column(title, overflow="fold"), *numbers, box=None)
    for share in shares:
        table.add_row(Text(share.path), f"{share.files:,}", _size(share.bytes))
    return table


def _counts(counts: Mapping[str, int], most: int = 8) -> str:
    listed = [f"{count:,} {name}" for name, count in list(counts.items())[:most]]
    rest = sum(list(counts.values())[most:])
    return ", ".join([*listed, f"{rest:,} others"] if rest else listed)


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} kB"


def _time(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
