"""Index runs that a search starts, as its repository is not indexed yet.

The search waits some seconds for the run; then the run goes on in the background, and the next
search finds more. A process that ends before its run leaves the rest to a job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codebase_mcp.database.projects import Project
from codebase_mcp.index.progress import RunProgress, estimate_seconds_left
from codebase_mcp.index.queue import JobQueue
from codebase_mcp.telemetry.stopwatch import no_stopwatch, step

# How long a search waits: answers come within ten seconds, and the rest of a first search takes
# two. Clients cancel calls after 30 seconds or more.
WAIT_S = 8.0

# How often the progress is reported.
REPORT_S = 0.5

Index = Callable[[Project, Path, Callable[[RunProgress], None]], Awaitable[object]]
"""Indexes a repository, and reports its progress."""

ReportProgress = Callable[[RunProgress], Awaitable[None]]


@dataclass(slots=True)
class FirstRun:
    """A run that is active or has ended; ``done_before`` files were done before it."""

    project: Project
    root: Path
    task: asyncio.Future[object] = field(init=False)
    progress: RunProgress = field(default_factory=lambda: RunProgress(0, 0, "Listing files"))
    done_before: int = 0
    listed_at: float = 0.0
    progressed_at: float = 0.0

    def follow(self, progress: RunProgress) -> None:
        self.progressed_at = time.monotonic()
        if self.progress.phase == "listing":
            self.listed_at, self.done_before = self.progressed_at, progress.done
        self.progress = progress

    @property
    def percent(self) -> float:
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
        """Index repositories for up to ``WAIT_S`` seconds; returns the runs that are not done.

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
        """Stop all runs; stored batches are kept. With ``hand_over`` jobs continue the runs."""
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
            run = self._runs[key] = FirstRun(project, root)
            with no_stopwatch():
                run.task = asyncio.ensure_future(self._index(project, root, run.follow))
        return run
