"""Which files change again and again, as logs do? They are indexed now and then only."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

# A file that was let through so often within so many seconds is made to wait.
_TIMES = 10
_WITHIN_S = 10.0


class Restless:
    """Holds paths back that were let through too often; ``clock`` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passed: dict[str, deque[float]] = {}
        self._held: set[str] = set()

    @property
    def has_any(self) -> bool:
        """Whether any path waits."""
        return bool(self._held)

    def let_through(self, paths: set[str]) -> set[str]:
        """Those of some paths that may go now; the others wait."""
        now = self._clock()
        self._passed = {
            path: times for path, times in self._passed.items() if times[-1] > now - _WITHIN_S
        }
        through = {path for path in paths if self._may_pass(path, now)}
        self._held |= paths - through
        self._held -= through
        for path in through:
            self._passed.setdefault(path, deque(maxlen=_TIMES)).append(now)
        return through

    def due(self) -> set[str]:
        """The paths that need not wait any longer."""
        now = self._clock()
        return {path for path in self._held if self._may_pass(path, now)}

    def due_s(self, most_s: float) -> float:
        """In how many seconds the next of them need not wait any longer."""
        now = self._clock()
        waits = [self._passed.get(path, [now])[0] + _WITHIN_S - now for path in self._held]
        return max(min([*waits, most_s]), 0.0)

    def _may_pass(self, path: str, now: float) -> bool:
        times = self._passed.get(path)
        return times is None or len(times) < _TIMES or times[0] <= now - _WITHIN_S
