"""List background jobs, or cancel one."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Column, Table

from codebase_mcp.app.app import App
from codebase_mcp.cli.calling import identity_here
from codebase_mcp.cli.output import print_json
from codebase_mcp.cli.showing import console, local_time
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index.queue import NO_WORKER, IndexJob
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.rules import check_project_id


async def jobs(options: argparse.Namespace, settings: Settings) -> int:
    """The jobs of all projects or of one, including those that ended in the last days.

    Raises:
        NotFound: there is no such job to cancel.
    """
    async with await App.open(settings) as app:
        schema = None
        if options.project is not None:
            wanted = check_project_id(options.project)
            project, _ = await app.resolver.resolve(wanted, identity_here(settings))
            schema = project.schema_name
        known = await app.jobs.jobs(schema)
        if options.action == "cancel":
            known = [_named(known, options.id)]
            await app.jobs.cancel([known[0].id])
            known = await app.jobs.jobs(job_id=known[0].id)
        workers = await app.jobs.workers()
    if options.json:
        content = {"jobs": [_as_json(job) for job in known], "workers": workers}
        return print_json(content)
    _show(known)
    if any(job.is_pending for job in known) and not workers:
        console.print(f"{NO_WORKER}.", style="yellow")
    return 0


def _named(known: list[IndexJob], name: str | None) -> IndexJob:
    """The pending job with this number, or with an operation id that begins with it."""
    if name is None:
        raise InvalidInput.of("id", None, "Which job? Pass its number", rule="jobs cancel ID")
    pending = [job for job in known if job.is_pending]
    exact = [job for job in pending if name in (str(job.id), str(job.operation_id))]
    found = exact or [job for job in pending if str(job.operation_id).startswith(name)]
    if len(found) != 1:
        raise NotFound(
            f"No waiting or running job {name}",
            hint="codebase-mcp jobs lists them.",
            details={"id": name},
        )
    return found[0]


def _show(known: list[IndexJob]) -> None:
    if not known:
        console.print("There are no jobs. Queue one: codebase-mcp index PATH --background")
        return
    whole_path = Column("repository", overflow="fold")
    table = Table("job", "project", whole_path, "status", "since", box=None)
    for job in known:
        since = job.ended_at or job.started_at or job.created_at
        table.add_row(
            str(job.id),
            job.project_id or "(default)",
            job.root,
            _status(job),
            local_time(since.isoformat()),
        )
    console.print(table)
    for job in known:
        if job.error is not None and job.status != "done":
            console.print(f"{job.id}: {job.error['message']}", style="yellow")


def _status(job: IndexJob) -> str:
    return "ending" if job.status == "running" and job.is_cancelling else job.status


def _as_json(job: IndexJob) -> dict[str, Any]:
    times = {"created_at": job.created_at, "started_at": job.started_at, "ended_at": job.ended_at}
    return {
        "id": job.id,
        "operation_id": str(job.operation_id),
        "project_id": job.project_id,
        "repository_id": str(job.repository_id),
        "root": job.root,
        "status": _status(job),
        **{name: None if at is None else at.isoformat() for name, at in times.items()},
        "error": job.error,
    }
