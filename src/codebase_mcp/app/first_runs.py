"""Index runs that a question starts, as its repository is not indexed yet.

A question waits some seconds for the run; it goes on meanwhile, and the next question finds more. A
process that ends before it leaves the rest to a job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codebase_mcp.database.projects import Project
from codebase_mcp.index.progress import RunProgress, estimate_seconds_left
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step

# How long a question waits: answers come within ten seconds, and two are for all else that a first
# one needs. Clients cancel calls after 30 seconds or more.
WAIT_S = 8.0

# How often the caller is told how far the run is.
REPORT_S = 0.5

Index = Callable[[Project, Path, Callable[[RunProgress], None]], Awaitable[object]]
"""Indexes a repository, and tells how far it is."""

ReportProgress = Callable[[RunProgress], Awaitable[None]]


@dataclass(slots=True)
class FirstRun:
    """A run that is going on, or has ended."""

    project: Project
    root: Path
    task: asyncio.Future[object]
    progress: RunProgress
    done_before: int = 0
    listed_at: float = 0.0
    progressed_at: float = 0.0

    def follow(self, progress: RunProgress) -> None:
        """Take note of progress; the first files that are done were so before the run."""
        self.progressed_at = time.monotonic()
        if self.progress.phase == "listing":
            self.listed_at, self.done_before = self.progressed_at, progress.done
        self.progress = progress

    @property
    def percent(self) -> float:
        """The share of the files that is done."""
        done, total = self.progress.done, self.progress.total
        return round(100 * done / total, 1) if total else 0.0

    @property
    def seconds_left(self) -> int | None:
        """An estimate by the speed so far; None while the files are being listed."""
        now = self.progress
        if now.phase == "listing":
            return None
        indexed, seconds = now.done - self.done_before, self.progressed_at - self.listed_at
        return estimate_seconds_left(now.total - now.done, indexed, seconds)


class FirstRuns:
    """The first runs of repositories in this process."""

    def __init__(self, index: Index, jobs: JobQueue) -> None:
        self._index = index
        self._jobs = jobs
        self._runs: dict[tuple[str, Path], FirstRun] = {}

    async def wait_for(
        self, project: Project, roots: Sequence[Path], report: ReportProgress | None
    ) -> tuple[FirstRun, ...]:
        """Index repositories for up to ``WAIT_S`` seconds; the runs that are not done by then.

        Raises:
            CodebaseError: a run failed before anything was stored.
        """
        runs = [self._start(project, root) for root in roots]
        deadline = time.monotonic() + WAIT_S
        going = {run.task for run in runs}
        with step("first_run"):
            while going and (left := deadline - time.monotonic()) > 0:
                _, going = await asyncio.wait(going, timeout=min(REPORT_S, left))
                if report is not None and going:
                    await report(next(run.progress for run in runs if run.task in going))
        for run in runs:
            if run.task.done():
                self._runs.pop((project.schema_name, run.root), None)
                run.task.result()
        return tuple(run for run in runs if not run.task.done())

    async def close(self, *, hand_over: bool) -> None:
        """Stop all runs; what they have stored is kept. With ``hand_over`` jobs go on with them."""
        going = [run for run in self._runs.values() if not run.task.done()]
        for run in going:
            run.task.cancel()
        await asyncio.gather(*(run.task for run in going), return_exceptions=True)
        if hand_over:
            for run in going:
                await self._jobs.enqueue(run.project, run.root)
                await self._jobs.ensure_worker()

    def _start(self, project: Project, root: Path) -> FirstRun:
        key = project.schema_name, root
        run = self._runs.get(key)
        if run is None or run.task.done():
            latest = RunProgress(0, 0, "Listing files")

            def follow(progress: RunProgress) -> None:
                started.follow(progress)

            with no_stopwatch():
                task = asyncio.ensure_future(self._index(project, root, follow))
            started = run = self._runs[key] = FirstRun(project, root, task, latest)
        return run
