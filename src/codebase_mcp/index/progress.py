"""How far is an index run?"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; ``total`` is 0 while the files are being listed."""

    done: int
    total: int
    message: str
