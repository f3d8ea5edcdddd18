"""The progress of an index run."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

RunPhase = Literal["listing", "indexing", "finishing"]
"""What a run is doing: when all files are stored, statistics, branches and the history remain."""

Phase = Literal["idle", "waiting", RunPhase]
"""What is being done for a repository; a request may wait for a worker."""

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
        """What the run is doing."""
        return phase_of(self.done, self.total)


def phase_of(done: int, total: int) -> RunPhase:
    """What a run with this progress is doing."""
    if not total:
        return "listing"
    return "indexing" if done < total else "finishing"


def estimate_seconds_left(files: int, indexed: int, seconds: float) -> int:
    """How long a run takes that has ``files`` left, and indexed others in some seconds; at least 1.

    The number of indexed files excludes unchanged ones, which take no time.
    """
    file_s = seconds / indexed if indexed and seconds > 0 else TYPICAL_FILE_S
    return max(1, ceil(files * file_s))
