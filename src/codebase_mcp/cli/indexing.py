"""Index or remove a repository from the shell."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App, IndexReport
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.cli.cloning import Source, check_flags, find_source, forget_clone
from codebase_mcp.cli.hints import in_commands
from codebase_mcp.cli.numbers import number_of
from codebase_mcp.cli.output import print_json, say
from codebase_mcp.database.connection import Database
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.queue import NO_WORKER
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.remote import is_remote
from codebase_mcp.tools.rules import check_project_id

MAX_ERRORS_SHOWN = 20


async def index(
    options: argparse.Namespace, settings: Settings, database: Database | None = None
) -> int:
    """Index with a progress bar on standard error; the outcome goes to standard output.

    ``database`` is the settings', if that is open already.
    """
    check_flags(options)
    project = check_project_id(options.project)
    history_depth = _depth(options.history)
    if options.dry_run:
        from codebase_mcp.cli.forecasting import dry_run  # noqa: PLC0415 - for this alone

        return await dry_run(options, settings)
    with progress_bar(hidden=options.json) as report:
        source = await find_source(options, settings, history_depth, report)
    async with await App.open(settings, database) as app:
        if options.background:
            return await _ask(app, source, options, identity_here(settings))
        with progress_bar(hidden=options.json) as report:
            outcome = await app.index(
                source.path,
                project,
                name=source.name,
                force_reindex=options.force,
                history_depth=history_depth,
                progress=report,
                identity=identity_here(settings),
            )
    _print(outcome, source, as_json=options.json)
    return 1 if outcome.run.status == "failed" else 0


async def _ask(app: App, source: Source, options: argparse.Namespace, identity: Identity) -> int:
    """Queue a job; a worker is started if none is running."""
    from codebase_mcp.app.background.indexing import start_indexing  # noqa: PLC0415 - for this alone
    from codebase_mcp.app.background.worker import allow_worker_start  # noqa: PLC0415 - for this alone
    from codebase_mcp.cli.terminal import Terminal  # noqa: PLC0415 - not for programs

    allow_worker_start(app)
    started = await start_indexing(
        app,
        source.path,
        check_project_id(options.project),
        name=source.name,
        force=options.force,
        depth=_depth(options.history),
        identity=identity,
        wait_s=0,
    )
    job = started.job
    if options.json:
        content = {
            "operation_id": str(job.operation_id),
            "job": job.id,
            "repository_id": str(job.repository_id),
            "project_id": started.project.project_id,
            "project_source": started.project_source,
            "status": job.status,
        }
        return print_json(content)
    console = Terminal()
    console.print(f"Job {job.id} is queued to index {job.root}")
    if not started.has_worker:
        console.print(f"{NO_WORKER}.", style="yellow")
    return 0


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[RunProgress], None]]:
    """A progress bar on standard error, and the function that updates it."""
    if hidden:
        yield lambda _: None
        return
    from codebase_mcp.cli.bar import shown_bar  # noqa: PLC0415 - not for programs

    with shown_bar() as report:
        yield report


async def remove(options: argparse.Namespace, settings: Settings) -> int:
    """Forget a repository, and the clone that a URL names."""
    project, identity = check_project_id(options.project), identity_here(settings)
    async with await App.open(settings) as app:
        if is_remote(options.path):
            removed, shown = await forget_clone(app, options.path, project, identity)
        else:
            removed, shown = await app.remove(options.path, project, identity), options.path
    if options.json:
        repository_id = None if removed is None else str(removed)
        print_json({"repository_id": repository_id, "status": "removed"}, indent=None)
    else:
        say(f"Removed {shown}")
    return 0


def _depth(text: str | None) -> int | None:
    return None if text is None else number_of("history", text, 0, 10_000)


def _print_json(report: IndexReport, source: Source) -> None:
    run = report.run
    content = {
        "repository_id": str(run.repository_id),
        "status": run.status,
        "files_indexed": run.files_indexed,
        "files_unchanged": run.files_unchanged,
        "files_removed": run.files_removed,
        "files_skipped": run.files_skipped,
        "encodings": run.encodings,
        "secrets_masked": run.secrets_masked,
        "chunks_created": run.chunks_created,
        "commits": report.commits,
        "duration_seconds": round(run.duration_s, 3),
        "project_id": report.project.project_id,
        "schema_name": report.project.schema_name,
        "project_source": report.project_source,
    }
    if described := source.described():
        content["source"] = described
    if described := report.repository.described():
        content["repository_settings"] = described
    if run.notice:
        content["notice"] = run.notice
    if run.status != "success":
        content["errors"] = run.errors
    print_json(content)


def _print(report: IndexReport, source: Source, *, as_json: bool) -> None:
    if as_json:
        _print_json(report, source)
        return
    from rich.text import Text  # noqa: PLC0415 - not for programs

    from codebase_mcp.cli.showing import counted, encoding_counts  # noqa: PLC0415 - brings what prints along
    from codebase_mcp.cli.terminal import Terminal  # noqa: PLC0415 - not for programs

    run = report.run
    console = Terminal()
    colour = {"success": "green", "partial": "yellow", "failed": "red"}[run.status]
    console.print(
        Text.assemble((run.status, f"bold {colour}"), f"  {run.name}  ", (str(run.root), "dim"))
    )
    console.print(
        f"{counted(run.files_indexed, 'file')} indexed, {run.files_unchanged} unchanged, "
        f"{run.files_removed} removed, {counted(run.chunks_created, 'new chunk')}, "
        f"{run.duration_s:.1f} s"
    )
    if report.commits:
        console.print(f"{counted(report.commits, 'commit')} of history")
    if source.remote is not None and source.clone is not None:
        at = source.clone.branch or source.clone.commit[:12]
        console.print(f"fetched {source.remote.url} at {at}", style="dim")
    if run.files_skipped:
        listed = ", ".join(f"{count} {reason}" for reason, count in run.files_skipped.items())
        console.print(f"skipped: {listed}", style="dim")
    if run.encodings:
        console.print(encoding_counts(run.encodings), style="dim")
    if run.secrets_masked:
        console.print(f"{counted(run.secrets_masked, 'secret')} masked", style="dim")
    repository = report.repository
    if repository.applied:
        console.print(f"{repository.context} sets {', '.join(repository.applied)}", style="dim")
    for warning in repository.warnings:
        console.print(warning, style="yellow")
    if run.notice:
        console.print(in_commands(run.notice), style="yellow")
    for error in run.errors[:MAX_ERRORS_SHOWN]:
        console.print(printable_line(error), style="yellow")
    if len(run.errors) > MAX_ERRORS_SHOWN:
        console.print(f"… and {len(run.errors) - MAX_ERRORS_SHOWN} more (--json lists all)")
