"""Index or remove a repository from the shell: a directory, or the updated clone of a URL."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App, IndexReport
from codebase_mcp.app.background.worker import allow_worker_start
from codebase_mcp.app.clones import fetch_clone
from codebase_mcp.cli.output import encoding_counts, picked, print_json, tell
from codebase_mcp.cli.shell import identity_here, progress_bar
from codebase_mcp.cli.tool_commands import in_commands
from codebase_mcp.database.connection import Database
from codebase_mcp.errors import InvalidInput, NotFound, ProjectNotFound
from codebase_mcp.index.progress import RunProgress
from codebase_mcp.index.queue import NO_WORKER
from codebase_mcp.printable import printable_line
from codebase_mcp.settings.loading import Settings
from codebase_mcp.settings.repository import clones_in
from codebase_mcp.source.clone import Clone, CloneOptions, clone_path, delete_clone, is_cloned
from codebase_mcp.source.remote import Remote, is_remote, parse_remote
from codebase_mcp.tools.rules import check_name
from codebase_mcp.tools.text import counted

if TYPE_CHECKING:
    from codebase_mcp.app.background.indexing import Started

MAX_ERRORS_SHOWN = 20


async def index(
    options: argparse.Namespace, settings: Settings, database: Database | None = None
) -> int:
    """Index with a progress bar on standard error; the outcome goes to standard output.

    ``database`` is the settings', if that is open already.
    """
    check_flags(options, [options.path])
    if options.dry_run:
        from codebase_mcp.cli.forecasting import dry_run  # noqa: PLC0415 - for this alone

        return await dry_run(options, settings)
    with progress_bar(hidden=options.json) as report:
        source = await find_source(options.path, options, settings, report)
    async with await App.open(settings, database) as app:
        if options.background:
            return await _ask(app, source, options)
        with progress_bar(hidden=options.json) as report:
            outcome = await run(app, source, options, report)
    _print(outcome, source, as_json=options.json)
    return 1 if outcome.run.status == "failed" else 0


async def run(
    app: App,
    source: Source,
    options: argparse.Namespace,
    report: Callable[[RunProgress], None],
) -> IndexReport:
    """Index a repository as the options say."""
    return await app.index(
        source.path,
        options.project,
        name=source.name,
        force_reindex=options.force,
        history_depth=options.history,
        progress=report,
        identity=identity_here(app.settings),
    )


async def queue(app: App, source: Source, options: argparse.Namespace) -> Started:
    """Queue a job; a worker is started if none is running."""
    from codebase_mcp.app.background.indexing import start_indexing  # noqa: PLC0415 - for this alone

    allow_worker_start(app)
    return await start_indexing(
        app,
        source.path,
        options.project,
        name=source.name,
        force=options.force,
        depth=options.history,
        identity=identity_here(app.settings),
        wait_s=0,
    )


async def _ask(app: App, source: Source, options: argparse.Namespace) -> int:
    from codebase_mcp.cli.terminal import console  # noqa: PLC0415 - not for programs

    started = await queue(app, source, options)
    if options.json:
        return print_json(job_json(started))
    console.print(f"Job {started.job.id} is queued to index {started.job.root}")
    if not started.has_worker:
        console.print(f"{NO_WORKER}.", style="yellow")
    return 0


def job_json(started: Started) -> dict[str, Any]:
    """A queued job, for programs."""
    job = started.job
    return {
        "operation_id": job.operation_id,
        "job": job.id,
        "repository_id": job.repository_id,
        "project_id": started.project.project_id,
        "project_source": started.project_source,
        "status": job.status,
    }


async def remove(options: argparse.Namespace, settings: Settings) -> int:
    """Forget a repository, and the clone that a URL names."""
    project, identity = options.project, identity_here(settings)
    async with await App.open(settings) as app:
        if is_remote(options.path):
            removed, shown = await forget_clone(app, options.path, project, identity)
        else:
            removed, shown = await app.remove(options.path, project, identity), options.path
    return tell(options, {"repository_id": removed, "status": "removed"}, f"Removed {shown}")


def report_json(report: IndexReport, source: Source) -> dict[str, Any]:
    """The outcome of a run, for programs."""
    run = report.run
    files = "files_indexed files_unchanged files_removed files_skipped encodings"
    content = picked(run, f"repository_id status {files} secrets_masked chunks_created") | {
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
    return content


def _print(report: IndexReport, source: Source, *, as_json: bool) -> None:
    if as_json:
        print_json(report_json(report, source))
        return
    from rich.text import Text  # noqa: PLC0415 - not for programs

    from codebase_mcp.cli.terminal import console  # noqa: PLC0415 - not for programs

    run = report.run
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


@dataclass(frozen=True, slots=True)
class Source:
    """A directory to index with its name, and the URL that it is a clone of, if any."""

    path: Path
    name: str | None
    remote: Remote | None = None
    clone: Clone | None = None

    def described(self) -> dict[str, Any]:
        """Where it comes from, for programs; empty for a directory."""
        if self.remote is None or self.clone is None:
            return {}
        return {
            "url": self.remote.url,
            "branch": self.clone.branch,
            "commit": self.clone.commit,
            "shallow": self.clone.is_shallow,
        }


def check_flags(options: argparse.Namespace, paths: Iterable[str]) -> None:
    """Refuse options that do not fit together, or not with these directories and URLs."""
    for flag in ("match", "archived", "forks", "code-host"):
        if getattr(options, flag.replace("-", "_")) and not options.organisation:
            raise contradiction(flag, "needs --organisation")
    for flag in ("branch", "depth", "full"):
        if getattr(options, flag) and not any(map(is_remote, paths)):
            raise contradiction(flag, "is for URLs: a directory is indexed as it is")
    if options.full and options.depth is not None:
        raise contradiction("full", "and --depth contradict each other")
    if options.dry_run and options.background:
        raise contradiction("dry-run", "and --background contradict each other")


async def find_source(
    path: str,
    options: argparse.Namespace,
    settings: Settings,
    report: Callable[[RunProgress], None],
    token: str | None = None,
) -> Source:
    """The named directory, or the clone of the URL after a fetch.

    ``token`` is the kind of code host whose token may read it.
    """
    name = check_name(options.name)
    if not is_remote(path):
        return Source(Path(path).expanduser().absolute(), name)
    remote = parse_remote(path)
    # Not fewer commits are fetched than are to be kept of the history.
    depth = options.depth or options.history or None
    clone_options = CloneOptions(options.branch, depth, options.full, name, token)
    report(RunProgress(0, 0, f"Fetching {remote.url}"))
    clone = await fetch_clone(
        settings, remote, clone_options, lambda step: report(RunProgress(0, 0, step))
    )
    return Source(clone.root, clone.name, remote, clone)


def cloned_source(options: argparse.Namespace, settings: Settings) -> Source:
    """The directory that is named, or the clone of the URL as it was last fetched."""
    if not is_remote(options.path):
        return Source(Path(options.path).expanduser().absolute(), None)
    remote = parse_remote(options.path)
    clones = clones_in(settings)
    if not is_cloned(remote, clones):
        message = f"{remote.url} has not been fetched yet, so its files are unknown"
        hint = "Index it without --dry-run, or clone it yourself and name the directory."
        rule = "a directory, or a URL that was indexed before"
        raise InvalidInput.of("path", remote.url, message, rule=rule, hint=hint)
    return Source(clone_path(remote, clones), None, remote)


async def forget_clone(
    app: App, url: str, project: str | None, identity: Identity
) -> tuple[UUID | None, str]:
    """Remove a URL from the index, and delete its clone unless another project uses it.

    The repository's id, if it was indexed, and the URL as it may be shown.
    """
    remote, clones = parse_remote(url), clones_in(app.settings)
    clone = clone_path(remote, clones)
    removed = None
    try:
        removed = await app.remove(clone, project, identity)
    except (NotFound, ProjectNotFound):
        if not is_cloned(remote, clones):
            raise NotFound(
                f"Repository not found: {remote.url}",
                hint="`codebase-mcp projects` lists what is indexed.",
            ) from None
    indexed_roots = {
        facts.root for project_facts in await app.projects() for facts in project_facts.repositories
    }
    if str(clone) not in indexed_roots:
        await asyncio.to_thread(delete_clone, remote, clones)
    return removed, remote.url


def contradiction(flag: str, words: str) -> InvalidInput:
    """The error for an option that does not fit."""
    return InvalidInput.of(flag.replace("-", "_"), True, f"--{flag} {words}", rule=words)
