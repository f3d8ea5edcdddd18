"""Run background jobs in this process, list jobs, or cancel a job."""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import nullcontext
from typing import Any

from rich.table import Column, Table

from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import backfilling, refreshing
from codebase_mcp.app.background.refresh import queue_refreshes
from codebase_mcp.app.background.worker import Worker
from codebase_mcp.cli.output import SHOWN, local_time, picked, print_json
from codebase_mcp.cli.shell import identity_here
from codebase_mcp.cli.terminal import console
from codebase_mcp.errors import InvalidInput, NotFound
from codebase_mcp.index.queue import NO_WORKER, IndexJob
from codebase_mcp.settings.loading import Settings
from codebase_mcp.web.shutdown import Shutdown


async def worker(options: argparse.Namespace, settings: Settings) -> int:
    """Run jobs until stopped, or until none is left. A running job returns to the queue."""
    # The log of its jobs is a worker's only output.
    logging.getLogger("codebase_mcp.app.background").setLevel(logging.INFO)
    concurrency = options.concurrency or max(1, settings.jobs)
    shutdown = Shutdown()
    with shutdown.handle_signals():
        async with (
            await App.open(settings) as app,
            nullcontext() if options.once else backfilling(app),
            nullcontext() if options.once else refreshing(app),
        ):
            if options.once and settings.refresh_minutes:
                await queue_refreshes(app)
            worker = Worker(app, concurrency)
            await shutdown.run(worker.run(once=options.once), worker.stop_waiting)
    return 0


async def jobs(options: argparse.Namespace, settings: Settings) -> int:
    """The jobs of all projects or of the named project, including recently ended jobs."""
    async with await App.open(settings) as app:
        schema = None
        if options.project is not None:
            project, _ = await app.resolver.resolve(options.project, identity_here(settings))
            schema = project.schema_name
        listed = await app.jobs.jobs(schema)
        if options.action == "cancel":
            job = _pending_job(listed, options.id)
            await app.jobs.cancel([job.id])
            listed = await app.jobs.jobs(job_id=job.id)
        workers = await app.jobs.workers()
    if options.json:
        content = {"jobs": [_as_json(job) for job in listed], "workers": workers}
        return print_json(content)
    room = options.limit or (SHOWN if sys.stdout.isatty() else len(listed))
    _show(listed[-room:] if room else [])
    if len(listed) > room:
        console.print(
            f"The newest {room} of {len(listed)} jobs are shown: --limit N", style="yellow"
        )
    if any(job.is_pending for job in listed) and not workers:
        console.print(f"{NO_WORKER}.", style="yellow")
    return 0


def _pending_job(jobs: list[IndexJob], name: str | None) -> IndexJob:
    """The pending job with this number, or with an operation id that begins with it."""
    if name is None:
        raise InvalidInput.of("id", None, "Which job? Pass its number", rule="jobs cancel ID")
    pending = [job for job in jobs if job.is_pending]
    exact = [job for job in pending if name in (str(job.id), str(job.operation_id))]
    matches = exact or [job for job in pending if str(job.operation_id).startswith(name)]
    if len(matches) != 1:
        raise NotFound(
            f"No waiting or running job {name}",
            hint="codebase-mcp jobs lists them.",
            details={"id": name},
        )
    return matches[0]


def _show(jobs: list[IndexJob]) -> None:
    if not jobs:
        console.print("There are no jobs. Queue one: codebase-mcp index PATH --background")
        return
    whole_path = Column("repository", overflow="fold")
    table = Table("job", "project", whole_path, "status", "since", box=None)
    for job in jobs:
        since = job.ended_at or job.started_at or job.created_at
        table.add_row(
            str(job.id), job.project_id or "(default)", job.root, _status(job), local_time(since)
        )
    console.print(table)
    for job in jobs:
        if job.error is not None and job.status != "done":
            console.print(f"{job.id}: {job.error['message']}", style="yellow")


def _status(job: IndexJob) -> str:
    return "ending" if job.status == "running" and job.is_cancelling else job.status


def _as_json(job: IndexJob) -> dict[str, Any]:
    names = "id operation_id project_id repository_id root status created_at started_at ended_at"
    return picked(job, f"{names} error") | {"status": _status(job)}
