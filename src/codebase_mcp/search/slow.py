"""Why was this search slow? A warning with its steps and the plan of its slowest statement.

A plan is made after the answer was sent, by running the statement again, at most once a minute:
plans must not add to the load of an overloaded database. There is at most a warning per second; it
gives the number of slow searches before it that were not logged.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import LiteralString

from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import Project
from codebase_mcp.errors import CodebaseError
from codebase_mcp.telemetry.metrics import SLOW_SEARCHES
from codebase_mcp.telemetry.stopwatch import (
    RoundTrip,
    Statement,
    Statements,
    Stopwatch,
    bound,
    duration,
    steps_in_words,
)

_log = logging.getLogger(__name__)

SLOW_S = 0.5
WARNINGS_EVERY_S = 1.0
PLANS_EVERY_S = 60.0
PLAN_TIMEOUT_S = 5.0

# The time outside of all steps: mostly waiting for the event loop while further calls compute.
OTHER = "other"

_RUN: LiteralString = "EXPLAIN (ANALYZE, BUFFERS) "
_ESTIMATE: LiteralString = "EXPLAIN "
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_EXECUTION = re.compile(r"Execution Time: ([\d.]+) ms")


class SlowSearches:
    """Warns of slow searches; ``clock`` limits the rate of warnings and plans."""

    def __init__(
        self,
        database: Database,
        *,
        slow_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._slow_s = SLOW_S if slow_s is None else slow_s
        self._clock = clock
        self._next_warning = float("-inf")
        self._next_plan = float("-inf")
        self._not_logged = 0
        self._explaining: asyncio.Task[None] | None = None

    def record(self, project: Project, watch: Stopwatch) -> None:
        """Warn of a search that took too long; its plan is made in the background."""
        seconds = watch.elapsed_s()
        if seconds < self._slow_s:
            return
        SLOW_SEARCHES.add()
        now = self._clock()
        if now < self._next_warning:
            self._not_logged += 1
            return
        self._next_warning = now + WARNINGS_EVERY_S
        not_logged, self._not_logged = self._not_logged, 0
        trip = slowest(watch.round_trips)
        if trip is None or now < self._next_plan:
            _warn(watch, seconds, not_logged)
            return
        self._next_plan = now + PLANS_EVERY_S
        explanation = self._explain(project, watch, seconds, not_logged, trip)
        self._explaining = asyncio.create_task(explanation)

    async def wait_idle(self) -> None:
        """Wait until no plan is being made."""
        if self._explaining is not None:
            await asyncio.wait([self._explaining])

    async def close(self) -> None:
        """Cancel a plan that is being made; the warning is logged without it."""
        if self._explaining is not None:
            self._explaining.cancel()
            await self.wait_idle()

    async def _explain(
        self, project: Project, watch: Stopwatch, seconds: float, not_logged: int, trip: RoundTrip
    ) -> None:
        plan = "cancelled"
        settings = [s for t in watch.round_trips for s in t.statements if _is_setting(s)]
        reading = [s for s in trip.statements if _reads_data(s)]
        try:
            plan = await self._plan(project, settings, reading)
        finally:
            _warn(watch, seconds, not_logged, plan)

    async def _plan(self, project: Project, settings: Statements, reading: Statements) -> str:
        """The plan of the slowest statement, or estimates if running them takes too long."""
        try:
            try:
                async with asyncio.timeout(PLAN_TIMEOUT_S):
                    plans = await self._plans(project, settings, reading, _RUN)
            except TimeoutError:
                plans = ["\n".join(await self._plans(project, settings, reading, _ESTIMATE))]
        except CodebaseError as error:
            return f"not available: {error.message}"
        return without_values(max(plans, key=execution_ms))

    async def _plans(
        self, project: Project, settings: Statements, reading: Statements, explain: LiteralString
    ) -> list[str]:
        async with self._database.transaction(project, readonly=True) as tx:
            for query, values in settings:
                await tx.execute(query, **values)
            rows = [await tx.fetch_all(explain + query, **values) for query, values in reading]
        return ["\n".join(line for (line,) in plan) for plan in rows]


def slowest(trips: Sequence[RoundTrip]) -> RoundTrip | None:
    """The slowest of the round trips that read data."""
    asking = [trip for trip in trips if any(_reads_data(s) for s in trip.statements)]
    return max(asking, key=lambda trip: trip.seconds, default=None)


def without_values(plan: str) -> str:
    """A plan without literals: they hold parts of the query, its vector, file names."""
    return _LITERAL.sub("'…'", plan)


def execution_ms(plan: str) -> float:
    """The execution time in a plan; 0 for an estimated plan."""
    match = _EXECUTION.search(plan)
    return float(match[1]) if match else 0.0


def _is_setting(statement: Statement) -> bool:
    return "set_config(" in statement[0]


def _reads_data(statement: Statement) -> bool:
    is_query = statement[0].lstrip().upper().startswith(("SELECT", "WITH"))
    return is_query and not _is_setting(statement)


def _warn(watch: Stopwatch, seconds: float, not_logged: int, plan: str = "") -> None:
    spent = {**watch.seconds, OTHER: max(seconds - sum(watch.seconds.values()), 0.0)}
    steps = {name: round(of_step * 1000, 1) for name, of_step in spent.items()}
    explained = {"plan": plan} if plan else {}
    with bound(duration_ms=round(seconds * 1000, 1), steps_ms=steps, **explained):
        _log.warning(
            "a search took %s (%s)%s%s",
            duration(seconds),
            steps_in_words(spent),
            f"; {not_logged} slow searches before it were not logged" if not_logged else "",
            f"; plan of its slowest statement:\n{plan}" if plan else "",
        )
