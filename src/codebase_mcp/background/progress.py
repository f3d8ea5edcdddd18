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


# Of several repositories the one that has most to do says what all are doing.
_IN_ORDER: tuple[Phase, ...] = ("waiting", "listing", "indexing", "finishing")


@dataclass(frozen=True, slots=True)
class LastRun:
    """How a run ended; an ``interrupted`` one was killed, so the time of its end is unknown."""

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
    """The progress of one repository."""

    repository_id: UUID
    root: str
    progress: IndexingProgress


@dataclass(slots=True)
class _Facts:
    """The newest run and the jobs of one repository."""

    root: str
    run: RunState | None = None
    pending: list[IndexJob] = field(default_factory=list)
    ended: IndexJob | None = None


def by_repository(
    repositories: Iterable[tuple[UUID, str]],
    runs: Iterable[RunState],
    jobs: Iterable[IndexJob],
) -> list[RepositoryProgress]:
    """The progress of each repository that is indexed, being indexed or queued; sorted by root.

    ``jobs`` are sorted from oldest to newest.
    """
    known = {of: _Facts(root) for of, root in repositories}
    for run in runs:
        known.setdefault(run.repository_id, _Facts(run.root)).run = run
    for job in jobs:
        facts = known.setdefault(job.repository_id, _Facts(job.root))
        if job.is_pending:
            facts.pending.append(job)
        else:
            facts.ended = job
    found = [RepositoryProgress(of, facts.root, _progress_of(facts)) for of, facts in known.items()]
    return sorted(found, key=lambda one: one.root)


def combined(found: Sequence[RepositoryProgress]) -> IndexingProgress:
    """The total of the repositories being indexed, or else of all, with the run that ended last."""
    going = [one.progress for one in found if one.progress.is_indexing]
    counted = going or [one.progress for one in found]
    done, total = sum(p.files_done for p in counted), sum(p.files_total for p in counted)
    left = [p.seconds_left for p in going]
    phases = {p.phase for p in going}
    ends = [p.last_run for p in (one.progress for one in found) if p.last_run is not None]
    return IndexingProgress(
        is_indexing=bool(going),
        queued=any(p.queued for p in going),
        percent=_percent(done, total),
        files_done=done,
        files_total=total,
        current_file=next((p.current_file for p in going if p.current_file), None),
        seconds_left=None if None in left else sum(s for s in left if s is not None),
        phase=next((one for one in _IN_ORDER if one in phases), "idle"),
        last_run=max(ends, key=_when, default=None),
    )


def _progress_of(facts: _Facts) -> IndexingProgress:
    run, pending = facts.run, facts.pending
    is_running = run is not None and run.is_running
    counted = run
    if pending and not is_running and run is not None:
        # A job that goes on where another process left off; any other begins anew.
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
        last_run=_last_run(facts),
    )


def _percent(done: int, total: int) -> float:
    return round(100 * done / total, 1) if total else 0.0


def _phase(run: RunState | None, pending: Sequence[IndexJob]) -> Phase:
    """What is being done, by the run that counts; a job goes on after that has stored all files."""
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


def _last_run(facts: _Facts) -> LastRun | None:
    """What ended last: the run, or a job that ended before its run began."""
    ends = []
    run, job = facts.run, facts.ended
    if run is not None and run.status != "running":
        ends.append(
            LastRun(
                run.operation_id,
                run.status,
                run.ended_at,
                run.files_indexed,
                run.chunks_created,
                run.errors,
            )
        )
    if (
        job is not None
        and job.status in ("failed", "cancelled")
        and (run is None or run.operation_id != job.operation_id or run.status == "interrupted")
    ):
        errors = (str(job.error["message"]),) if job.error else ()
        status: EndStatus = "failed" if job.status == "failed" else "cancelled"
        ends.append(LastRun(job.operation_id, status, job.ended_at, errors=errors))
    return max(ends, key=_when, default=None)


def _when(end: LastRun) -> float:
    return end.ended_at.timestamp() if end.ended_at else 0.0
