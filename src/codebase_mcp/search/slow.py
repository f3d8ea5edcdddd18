"""Which searches took too long, and in which steps? At most one warning per second.

It gives the number of slow searches before it that were not logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from codebase_mcp.telemetry.metrics import SLOW_SEARCHES
from codebase_mcp.telemetry.stopwatch import Stopwatch, bound, duration, steps_in_words

_log = logging.getLogger(__name__)

SLOW_S = 0.5
WARNINGS_EVERY_S = 1.0

# The time outside of all steps: mostly waiting for the event loop while further calls compute.
OTHER = "other"


class SlowSearches:
    """Warns of slow searches; ``clock`` limits the rate of warnings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_warning = float("-inf")
        self._not_logged = 0

    def record(self, watch: Stopwatch) -> None:
        """Warn of a search that took too long."""
        seconds = watch.elapsed_s()
        if seconds < SLOW_S:
            return
        SLOW_SEARCHES.add()
        now = self._clock()
        if now < self._next_warning:
            self._not_logged += 1
            return
        self._next_warning = now + WARNINGS_EVERY_S
        not_logged, self._not_logged = self._not_logged, 0
        spent = {**watch.seconds, OTHER: max(seconds - sum(watch.seconds.values()), 0.0)}
        steps = {name: round(of_step * 1000, 1) for name, of_step in spent.items()}
        with bound(duration_ms=round(seconds * 1000, 1), steps_ms=steps):
            _log.warning(
                "a search took %s (%s)%s",
                duration(seconds),
                steps_in_words(spent),
                f"; {not_logged} slow searches before it were not logged" if not_logged else "",
            )
