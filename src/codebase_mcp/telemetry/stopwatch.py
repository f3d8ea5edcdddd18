"""Times the steps of a search or an index run.

A stopwatch applies to the code in its block, including tasks and threads started there. Each step
is also a span of a trace.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from codebase_mcp.telemetry import tracing
from codebase_mcp.telemetry.metrics import DATABASE_ROUND_TRIP_DURATION

Statement = tuple[str, Mapping[str, object]]
Statements = Sequence[Statement]


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """Statements sent together, and the time until their results."""

    statements: Statements
    seconds: float


@dataclass(slots=True)
class Stopwatch:
    """The times so far. ``round_trips`` are only kept for searches, as they hold values."""

    name: str
    on_step: Callable[[str, float], None]
    keeps_statements: bool = False
    started: float = field(default_factory=time.perf_counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    round_trips: list[RoundTrip] = field(default_factory=list)

    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started

    def add(self, step: str, seconds: float) -> None:
        self.seconds[step] += seconds
        self.on_step(step, seconds)

    def in_words(self) -> str:
        """The steps, the longest first: ``candidates 480 ms, embed 12 ms``."""
        return steps_in_words(self.seconds)


_current: ContextVar[Stopwatch | None] = ContextVar("watch", default=None)
_step: ContextVar[Step | None] = ContextVar("step", default=None)


@contextmanager
def stopwatch(
    name: str, on_step: Callable[[str, float], None], *, keeps_statements: bool = False
) -> Iterator[Stopwatch]:
    """Time the steps of what runs in the block."""
    watch = Stopwatch(name, on_step, keeps_statements)
    token = _current.set(watch)
    try:
        with tracing.span(name):
            yield watch
    finally:
        _current.reset(token)


class Step:
    """A timed step, for ``with`` or ``async with``; does nothing without a stopwatch.

    The time of an inner step does not count for the outer step.
    """

    __slots__ = ("_inner_s", "_name", "_outer", "_span", "_started", "_watch")

    def __init__(self, name: str) -> None:
        self._name = name
        self._watch = _current.get()
        self._started = 0.0
        self._inner_s = 0.0
        self._outer: Step | None = None
        self._span: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        if self._watch is None:
            return
        if tracing.is_on():
            self._span = tracing.span(f"{self._watch.name} {self._name}")
            self._span.__enter__()
        self._outer = _step.get()
        _step.set(self)
        self._started = time.perf_counter()

    def __exit__(self, *error: Any) -> None:
        if self._watch is None:
            return
        seconds = time.perf_counter() - self._started
        _step.set(self._outer)
        if self._outer is not None:
            self._outer._inner_s += seconds
        self._watch.add(self._name, max(seconds - self._inner_s, 0.0))
        if self._span is not None:
            self._span.__exit__(*error)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, *error: Any) -> None:
        self.__exit__(*error)


def step(name: str) -> Step:
    return Step(name)


@contextmanager
def no_stopwatch() -> Iterator[None]:
    """Time no steps in the block: a task that is started there goes on after the search."""
    watch, outer = _current.set(None), _step.set(None)
    try:
        yield
    finally:
        _current.reset(watch)
        _step.reset(outer)


@contextmanager
def round_trip(statements: Statements) -> Iterator[None]:
    started = time.perf_counter()
    attributes: dict[str, tracing.Value] = {
        "db.system.name": "postgresql",
        "db.operation.batch.size": len(statements),
    }
    try:
        with tracing.span("postgresql", "client", attributes):
            yield
    finally:
        seconds = time.perf_counter() - started
        DATABASE_ROUND_TRIP_DURATION.observe(seconds)
        watch = _current.get()
        if watch is not None and watch.keeps_statements:
            watch.round_trips.append(RoundTrip(statements, seconds))


def steps_in_words(seconds_by_step: Mapping[str, float]) -> str:
    """The steps with their times, the longest first."""
    steps = sorted(seconds_by_step.items(), key=lambda step: -step[1])
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in steps)


def duration(seconds: float) -> str:
    """A duration for people: ``480 ms``, ``12.3 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
