"""Which files change again and again, as logs do? They are indexed at a limited rate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

# A file may pass this many times within the window; after that it has to wait.
_LIMIT = 10
_WINDOW_S = 10.0


class Throttle:
    """Limits how often each path passes; ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passed: dict[str, deque[float]] = {}
        self._waiting: set[str] = set()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def admit(self, paths: set[str]) -> set[str]:
        """The paths that may pass now; the rest waits."""
        now = self._clock()
        self._passed = {
            path: times for path, times in self._passed.items() if times[-1] > now - _WINDOW_S
        }
        admitted = {path for path in paths if self._may_pass(path, now)}
        self._waiting |= paths - admitted
        self._waiting -= admitted
        for path in admitted:
            self._passed.setdefault(path, deque(maxlen=_LIMIT)).append(now)
        return admitted

    def due(self) -> set[str]:
        now = self._clock()
        return {path for path in self._waiting if self._may_pass(path, now)}

    def due_in_s(self, limit_s: float) -> float:
        """Seconds until the next waiting path may pass, at most ``limit_s``."""
        now = self._clock()
        waits = [self._passed.get(path, [now])[0] + _WINDOW_S - now for path in self._waiting]
        return max(min([*waits, limit_s]), 0.0)

    def _may_pass(self, path: str, now: float) -> bool:
        times = self._passed.get(path)
        return times is None or len(times) < _LIMIT or times[0] <= now - _WINDOW_S
