"""The progress of an index run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run; ``total`` is 0 while the files are being listed."""

    done: int
    total: int
    message: str
