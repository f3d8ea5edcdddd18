"""How far is the indexing of a repository, and how did its last run end?

Pure: computed from the newest run and the jobs of a repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from codebase_mcp.index.progress import Phase, estimate_seconds_left, phase_of
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.index.runs import RunState

EndStatus = Literal["success", "partial", "failed", "cancelled", "interrupted"]

# From the phase with most left to do.
_PHASES: tuple[Phase, ...] = ("waiting", "listing", "indexing", "finishing")


@dataclass(frozen=True, slots=True)
class LastRun:
    """How a run ended; an ``interrupted`` run was killed, so the time of its end is unknown."""

    operation_id: UUID
    status: EndStatus
    ended_at: datetime | None
    files_indexed: int = 0
    chunks_created: int = 0
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexingProgress:
    """Progress of indexing; ``queued`` if a job waits.

    ``seconds_left`` is None as long as the ``phase`` is waiting or listing.
    """

    is_indexing: bool = False
    queued: bool = False
    percent: float = 0.0
    files_done: int = 0
    files_total: int = 0
    current_file: str | None = None
    seconds_left: int | None = 0
    phase: Phase = "idle"
    last_run: LastRun | None = None


@dataclass(frozen=True, slots=True)
class RepositoryProgress:
    """A repository and its progress."""

    repository_id: UUID
    root: str
    progress: IndexingProgress


@dataclass(slots=True)
class _Activity:
    """The newest run and the jobs of a repository."""

    root: str
    run: RunState | None = None
    pending: list[IndexJob] = field(default_factory=list)
    ended: IndexJob | None = None


def by_repository(
    repositories: Iterable[tuple[UUID, str]], runs: Iterable[RunState], jobs: Iterable[IndexJob]
) -> list[RepositoryProgress]:
    """The progress of each repository that is indexed, being indexed or queued; sorted by root.

    ``jobs`` are sorted from oldest to newest.
    """
    activities = {repository_id: _Activity(root) for repository_id, root in repositories}
    for run in runs:
        activities.setdefault(run.repository_id, _Activity(run.root)).run = run
    for job in jobs:
        activity = activities.setdefault(job.repository_id, _Activity(job.root))
        if job.is_pending:
            activity.pending.append(job)
        else:
            activity.ended = job
    return sorted(
        (
            RepositoryProgress(repository_id, activity.root, _progress_of(activity))
            for repository_id, activity in activities.items()
        ),
        key=lambda repository: repository.root,
    )


def combined(repositories: Sequence[RepositoryProgress]) -> IndexingProgress:
    """The total of the repositories being indexed, or else of all, with the run that ended last.

    The phase is that of the repository that has most left to do.
    """
    progress = [repository.progress for repository in repositories]
    going = [p for p in progress if p.is_indexing]
    counted = going or progress
    done, total = sum(p.files_done for p in counted), sum(p.files_total for p in counted)
    left = [p.seconds_left for p in going]
    return IndexingProgress(
        is_indexing=bool(going),
        queued=any(p.queued for p in going),
        percent=_percent(done, total),
        files_done=done,
        files_total=total,
        current_file=next((p.current_file for p in going if p.current_file), None),
        seconds_left=None if None in left else sum(s for s in left if s is not None),
        phase=min((p.phase for p in going), key=_PHASES.index, default="idle"),
        last_run=_latest([p.last_run for p in progress if p.last_run is not None]),
    )


def _progress_of(activity: _Activity) -> IndexingProgress:
    run, pending = activity.run, activity.pending
    is_running = run is not None and run.is_running
    counted = run
    if run is not None and pending and not is_running:
        # The job may continue the run of another process; else it begins anew.
        is_same = any(job.operation_id == run.operation_id for job in pending)
        counted = run if is_same else None
    done = counted.files_done if counted else 0
    total = counted.files_total if counted else 0
    phase = _phase(counted, pending)
    return IndexingProgress(
        is_indexing=is_running or bool(pending),
        queued=any(job.status == "waiting" for job in pending),
        percent=_percent(done, total),
        files_done=done,
        files_total=total,
        current_file=run.current_file if run is not None and is_running else None,
        seconds_left=_seconds_left(phase, run),
        phase=phase,
        last_run=_last_run(activity),
    )


def _percent(done: int, total: int) -> float:
    return round(100 * done / total, 1) if total else 0.0


def _phase(run: RunState | None, pending: Sequence[IndexJob]) -> Phase:
    """The phase of a run and its jobs; a job goes on after its run has stored all files."""
    if run is not None and run.is_running:
        return phase_of(run.files_done, run.files_total)
    if any(job.status == "waiting" for job in pending):
        return "waiting"
    if not pending:
        return "idle"
    has_stored = run is not None and run.status in ("success", "partial")
    return "finishing" if has_stored else "listing"


def _seconds_left(phase: Phase, run: RunState | None) -> int | None:
    """An estimate of the seconds that are left, None before the files are listed."""
    if phase == "idle":
        return 0
    if run is None or phase in ("waiting", "listing"):
        return None
    seconds = (run.updated_at - run.started_at).total_seconds()
    return estimate_seconds_left(run.files_total - run.files_done, run.files_indexed, seconds)


def _last_run(activity: _Activity) -> LastRun | None:
    """The run, or a job that ended before its run began, whichever ended last."""
    ends = []
    run, job = activity.run, activity.ended
    if run is not None and run.status != "running":
        counts = run.files_indexed, run.chunks_created, run.errors
        ends.append(LastRun(run.operation_id, run.status, run.ended_at, *counts))
    if (
        job is not None
        and job.status in ("failed", "cancelled")
        and (run is None or run.operation_id != job.operation_id or run.status == "interrupted")
    ):
        errors = (str(job.error["message"]),) if job.error else ()
        status: EndStatus = "failed" if job.status == "failed" else "cancelled"
        ends.append(LastRun(job.operation_id, status, job.ended_at, errors=errors))
    return _latest(ends)


def _latest(ends: Sequence[LastRun]) -> LastRun | None:
    return max(ends, key=lambda end: end.ended_at.timestamp() if end.ended_at else 0, default=None)
