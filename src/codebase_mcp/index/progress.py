"""The progress of an index run."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

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


def estimate_seconds_left(files: int, indexed: int, seconds: float) -> int:
    """The seconds, at least 1, for ``files`` more after ``indexed`` files took ``seconds``.

    ``indexed`` excludes unchanged files, which take no time.
    """
    file_s = seconds / indexed if indexed and seconds > 0 else TYPICAL_FILE_S
    return max(1, ceil(files * file_s))
