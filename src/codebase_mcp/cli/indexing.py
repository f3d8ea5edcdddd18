"""Index or remove a repository from the shell."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from codebase_mcp.app import App, IndexReport
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.index.batches import Progress
from codebase_mcp.settings import Settings
from codebase_mcp.tools.rules import check_name, check_project_id

MAX_ERRORS_SHOWN = 20


async def index(options: argparse.Namespace, settings: Settings) -> int:
    """Index with a progress bar on standard error; the outcome goes to standard output."""
    path = Path(options.path).expanduser().absolute()
    project = check_project_id(options.project)
    name = check_name(options.name)
    async with await App.open(settings) as app:
        with progress_bar(hidden=options.json) as report:
            outcome = await app.index(
                path,
                project,
                name=name,
                force_reindex=options.force,
                progress=report,
                identity=identity_here(settings),
            )
    _print(outcome, as_json=options.json)
    return 1 if outcome.run.status == "failed" else 0


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[Progress], None]]:
    """A bar on standard error for as long as a run goes on, and what to tell it."""
    console = Console(stderr=True)
    with Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=hidden or not console.is_terminal,
        transient=True,
    ) as bar:
        shown = bar.add_task("Starting", total=None)

        def report(progress: Progress) -> None:
            bar.update(
                shown,
                description=progress.message,
                completed=progress.done,
                total=progress.total or None,
            )

        yield report


async def remove(options: argparse.Namespace, settings: Settings) -> int:
    """Forget a repository."""
    async with await App.open(settings) as app:
        removed = await app.remove(
            options.path, check_project_id(options.project), identity_here(settings)
        )
    if options.json:
        print(json.dumps({"repository_id": str(removed), "status": "removed"}))
    else:
        print(f"Removed {options.path}")
    return 0


class _Rate(ProgressColumn):
    """Files a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:.0f} files/s" if speed else "", style="progress.data.speed")


def _print(report: IndexReport, *, as_json: bool) -> None:
    run = report.run
    if as_json:
        content = {
            "repository_id": str(run.repository_id),
            "status": run.status,
            "files_indexed": run.files_indexed,
            "files_unchanged": run.files_unchanged,
            "files_removed": run.files_removed,
            "files_skipped": run.files_skipped,
            "chunks_created": run.chunks_created,
            "duration_seconds": round(run.duration_s, 3),
            "project_id": report.project.project_id,
            "schema_name": report.project.schema_name,
            "project_source": report.project_source,
        }
        if described := report.repository.described():
            content["repository_settings"] = described
        if run.notice:
            content["notice"] = run.notice
        if run.status != "success":
            content["errors"] = run.errors
        print(json.dumps(content, ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    colour = {"success": "green", "partial": "yellow", "failed": "red"}[run.status]
    console.print(f"[bold {colour}]{run.status}[/]  {run.name}  [dim]{run.root}[/]")
    console.print(
        f"{run.files_indexed} files indexed, {run.files_unchanged} unchanged, "
        f"{run.files_removed} removed, {run.chunks_created} new chunks, {run.duration_s:.1f} s"
    )
    if run.files_skipped:
        listed = ", ".join(f"{count} {reason}" for reason, count in run.files_skipped.items())
        console.print(f"[dim]skipped: {listed}[/]")
    repository = report.repository
    if repository.applied:
        console.print(f"{repository.context} sets {', '.join(repository.applied)}", style="dim")
    for warning in repository.warnings:
        console.print(warning, style="yellow", markup=False)
    if run.notice:
        console.print(run.notice, style="yellow", markup=False)
    for error in run.errors[:MAX_ERRORS_SHOWN]:
        console.print(error, style="yellow", markup=False)
    if len(run.errors) > MAX_ERRORS_SHOWN:
        console.print(f"… and {len(run.errors) - MAX_ERRORS_SHOWN} more (--json lists all)")
