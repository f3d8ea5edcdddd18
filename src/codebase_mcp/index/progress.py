"""How far is an index run, and how fast? Updates metrics, and warns about slow runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

from codebase_mcp.telemetry import metrics
from codebase_mcp.telemetry.stopwatch import Stopwatch, bound, duration, step, stopwatch

if TYPE_CHECKING:
    from codebase_mcp.index.build import RunResult

_log = logging.getLogger(__name__)

# The speed of smaller runs is not meaningful.
LEAST_FILES = 1_000
FILES_PER_MINUTE = 10_000

RunPhase = Literal["listing", "indexing", "finishing"]
"""After all files are stored, statistics, branches and the history remain: ``finishing``."""

Phase = Literal["idle", "waiting", RunPhase]
"""The phase of a repository; a request may wait for a worker."""

# How long a file is assumed to take before the first batch is stored: two cores index 140 to 550
# files a second (benchmarks/results.md).
TYPICAL_FILE_S = 0.005


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run; ``total`` is 0 while the files are being listed."""

    done: int
    total: int
    message: str

    @property
    def phase(self) -> RunPhase:
        return phase_of(self.done, self.total)


def phase_of(done: int, total: int) -> RunPhase:
    if not total:
        return "listing"
    return "indexing" if done < total else "finishing"


def percent(done: int, total: int) -> float:
    """The share that is done, with a decimal; 0 of nothing."""
    return round(100 * done / total, 1) if total else 0.0


def estimate_seconds_left(files: int, indexed: int, seconds: float) -> int:
    """The seconds, at least 1, for ``files`` more after ``indexed`` files took ``seconds``.

    ``indexed`` excludes unchanged files, which take no time.
    """
    file_s = seconds / indexed if indexed and seconds > 0 else TYPICAL_FILE_S
    return max(1, ceil(files * file_s))


class Pace:
    """Measures a run; ``follow`` passes its progress on."""

    def __init__(self, watch: Stopwatch, progress: Callable[[RunProgress], None]) -> None:
        self._watch = watch
        self._progress = progress
        self._pending = 0

    def follow(self, progress: RunProgress) -> None:
        self.set_pending(progress.total - progress.done)
        self._progress(progress)

    def end(self, run: RunResult) -> None:
        """Count what the run did, and warn if it was slow."""
        metrics.INDEX_RUNS.add(run.status)
        metrics.INDEX_FILES.add("indexed", amount=run.files_indexed)
        metrics.INDEX_FILES.add("unchanged", amount=run.files_unchanged)
        metrics.INDEX_FILES.add("removed", amount=run.files_removed)
        metrics.INDEX_FILES.add("skipped", amount=sum(run.files_skipped.values()))
        metrics.INDEX_CHUNKS.add(amount=run.chunks_created)
        seconds = run.duration_s - self._watch.seconds["wait"]
        if is_slow(run.files_read, seconds):
            metrics.SLOW_INDEX_RUNS.add()
            _warn(run, seconds, self._watch)

    def set_pending(self, files: int) -> None:
        """Update the metric of files that still wait in all runs."""
        metrics.INDEX_FILES_PENDING.add(amount=files - self._pending)
        self._pending = files


@contextmanager
def paced(progress: Callable[[RunProgress], None]) -> Iterator[Pace]:
    """Measure a run in the block: metrics, times, and a span with its steps."""
    metrics.INDEX_RUNS_IN_PROGRESS.add()
    with stopwatch("index", _count_step) as watch:
        pace = Pace(watch, progress)
        pace.follow(RunProgress(0, 0, "Listing files"))
        try:
            yield pace
        except asyncio.CancelledError:
            metrics.INDEX_RUNS.add("cancelled")
            raise
        except Exception:
            metrics.INDEX_RUNS.add("failed")
            raise
        finally:
            pace.set_pending(0)
            metrics.INDEX_RUNS_IN_PROGRESS.add(amount=-1)
            metrics.INDEX_RUN_DURATION.observe(watch.elapsed_s())


@contextmanager
def waiting() -> Iterator[None]:
    """Count and time the wait for another run of the same repository."""
    metrics.INDEX_RUNS_WAITING.add()
    try:
        with step("wait"):
            yield
    finally:
        metrics.INDEX_RUNS_WAITING.add(amount=-1)


def is_slow(files: int, seconds: float) -> bool:
    """Whether reading and indexing these files should have taken less time."""
    return files >= LEAST_FILES and files * 60 < FILES_PER_MINUTE * seconds


def _count_step(name: str, seconds: float) -> None:
    metrics.INDEX_STEP_SECONDS.add(name, amount=seconds)


def _warn(run: RunResult, seconds: float, watch: Stopwatch) -> None:
    rate = round(run.files_read * 60 / seconds)
    steps = {name: round(spent * 1000) for name, spent in watch.seconds.items()}
    with bound(duration_ms=round(seconds * 1000), files=run.files_read, steps_ms=steps):
        _log.warning(
            "the index run of %s was slow: %d files in %s, %d a minute (%s; batches overlap)",
            run.name,
            run.files_read,
            duration(seconds),
            rate,
            watch.in_words(),
        )
