"""All metrics, and the page that Prometheus reads.

Labels have few values: tools, error codes, steps, models; never a project, a path or a text.
A metric is declared once and counts nothing until `enable` is called. Only then is
prometheus-client imported: a server on stdio does without it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

# From a query of the word index (about a millisecond) to a minute, when clients have given up.
LATENCY_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
RUN_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)


class Instrument:
    """A metric of prometheus-client, which is made when the instrument is bound to a registry."""

    kind: ClassVar[str]
    defaults: ClassVar[Mapping[str, object]] = {}
    """Options of prometheus-client for each metric of this kind."""

    def __init__(
        self, name: str, meaning: str, labels: tuple[str, ...] = (), **options: Any
    ) -> None:
        self.name = f"codebase_mcp_{name}"
        self.meaning = meaning
        self.labels = labels
        self._options = {**self.defaults, **options}
        self._metric: Any = None
        self._children: dict[tuple[str, ...], Any] = {}

    def bind(self, registry: CollectorRegistry | None) -> None:
        """Count in a registry; without a registry, processes share the values in files."""
        import prometheus_client  # noqa: PLC0415 - not for a server on stdio

        self.unbind()
        make = getattr(prometheus_client, self.kind.capitalize())
        self._metric = make(
            self.name, self.meaning, self.labels, registry=registry, **self._options
        )

    def unbind(self) -> None:
        self._metric = None
        self._children = {}

    def _child(self, labels: tuple[str, ...]) -> Any:
        """The metric of some label values; prometheus-client's own look-up takes twice as long."""
        if not labels:
            return self._metric
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels)
        return child


class Counter(Instrument):
    """A value that only increases."""

    kind = "counter"

    def add(self, *labels: str, amount: float = 1) -> None:
        if self._metric is not None:
            self._child(labels).inc(amount)


class Gauge(Counter):
    """A value that goes up and down; summed over the live processes."""

    kind = "gauge"
    defaults: ClassVar = {"multiprocess_mode": "livesum"}

    def set(self, value: float, *labels: str) -> None:
        if self._metric is not None:
            self._child(labels).set(value)


class Histogram(Instrument):
    """A distribution of durations in seconds."""

    kind = "histogram"
    defaults: ClassVar = {"buckets": LATENCY_BUCKETS}

    def observe(self, seconds: float, *labels: str) -> None:
        if self._metric is not None:
            self._child(labels).observe(seconds)


TOOL_CALLS = Counter(
    "tool_calls_total", "Calls of tools by outcome: ok, error, cancelled.", ("tool", "outcome")
)
TOOL_ERRORS = Counter("tool_errors_total", "Calls that failed, by error code.", ("tool", "code"))
TOOL_CALL_DURATION = Histogram(
    "tool_call_duration_seconds", "Time from a call's arrival to its reply.", ("tool",)
)
TOOL_CALLS_IN_PROGRESS = Gauge("tool_calls_in_progress", "Calls that are being answered.")

AUDIT_ENTRIES_DROPPED = Counter(
    "audit_entries_dropped_total", "Calls that are missing in the audit log."
)

SEARCH_STEP_DURATION = Histogram(
    "search_step_duration_seconds", "Time that a step of searching code takes.", ("step",)
)
SLOW_SEARCHES = Counter("slow_searches_total", "Searches that took over 500 ms.")

DATABASE_ROUND_TRIP_DURATION = Histogram(
    "database_round_trip_duration_seconds",
    "Time from sending statements to their last answer, waiting for a connection included.",
)
DATABASE_CONNECTIONS_OPENED = Counter(
    "database_connections_opened_total", "Connections opened to PostgreSQL."
)
DATABASE_POOL_CONNECTIONS = Gauge(
    "database_pool_connections", "Connections of the pool by state: in_use, idle.", ("state",)
)
DATABASE_POOL_SIZE = Gauge(
    "database_pool_size", "Connections that may be in use at once, overflow included."
)
DATABASE_POOL_WAITING = Gauge(
    "database_pool_waiting", "Callers that wait until a connection is free."
)

EMBEDDING_DURATION = Histogram(
    "embedding_duration_seconds",
    "Time of one call of the embedder, for a question or a batch of texts.",
    ("provider", "model"),
)
EMBEDDING_TEXTS = Counter(
    "embedding_texts_total", "Texts that were embedded.", ("provider", "model")
)
EMBEDDING_ERRORS = Counter(
    "embedding_errors_total", "Calls of the embedder that failed.", ("provider", "model")
)

CACHE_LOOKUPS = Counter(
    "cache_lookups_total",
    "Look-ups by result (hit, miss) in a cache: project, workflow.",
    ("cache", "result"),
)

INDEX_RUNS = Counter(
    "index_runs_total", "Index runs by outcome: success, partial, failed, cancelled.", ("status",)
)
INDEX_RUNS_IN_PROGRESS = Gauge("index_runs_in_progress", "Index runs under way.")
INDEX_RUNS_WAITING = Gauge(
    "index_runs_waiting", "Index runs that wait for another of the same repository."
)
INDEX_RUN_DURATION = Histogram(
    "index_run_duration_seconds", "Time that an index run takes.", buckets=RUN_BUCKETS
)
INDEX_FILES = Counter(
    "index_files_total",
    "Files by what a run made of them: indexed, unchanged, removed, skipped.",
    ("result",),
)
INDEX_CHUNKS = Counter("index_chunks_total", "Chunks that were new.")
INDEX_FILES_PENDING = Gauge("index_files_pending", "Files that runs under way have yet to look at.")
INDEX_STEP_SECONDS = Counter(
    "index_step_seconds_total",
    "Time spent in the steps of index runs; steps of one run may overlap.",
    ("step",),
)
SLOW_INDEX_RUNS = Counter(
    "slow_index_runs_total", "Runs of 1,000 files or more below 10,000 files a minute."
)

BUILD_INFO = Gauge(
    "build_info", "How many processes of this version answer.", ("version", "python")
)

INSTRUMENTS = tuple(value for value in globals().values() if isinstance(value, Instrument))

_registry: CollectorRegistry | None = None


def looked_up(cache: str, *, hit: bool) -> None:
    CACHE_LOOKUPS.add(cache, "hit" if hit else "miss")


def pool_state(size: int, *, in_use: int, idle: int, waiting: int) -> None:
    DATABASE_POOL_SIZE.set(size)
    DATABASE_POOL_CONNECTIONS.set(in_use, "in_use")
    DATABASE_POOL_CONNECTIONS.set(idle, "idle")
    DATABASE_POOL_WAITING.set(waiting)


def enable(shared: Path | None = None) -> None:
    """Start counting; calling it again has no effect.

    ``shared`` is the folder in which several processes store their values, the same that was passed
    to `settings.share_metrics_in`: a scrape of any process shows the sum.
    """
    global _registry  # noqa: PLW0603 - a process has a single page of metrics
    if _registry is not None:
        return
    import platform  # noqa: PLC0415
    from importlib.metadata import version  # noqa: PLC0415

    from prometheus_client import (  # noqa: PLC0415 - not for a server on stdio
        CollectorRegistry,
        ProcessCollector,
        disable_created_metrics,
    )

    disable_created_metrics()
    registry = CollectorRegistry()
    if shared is None:
        ProcessCollector(registry=registry)
    else:
        from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415

        MultiProcessCollector(registry, path=str(shared))
        registry.register(_LiveProcesses(shared))
    for instrument in INSTRUMENTS:
        instrument.bind(registry if shared is None else None)
    BUILD_INFO.set(1, version("codebase-mcp"), platform.python_version())
    _registry = registry


def disable() -> None:
    """Reset all metrics, and stop counting."""
    global _registry  # noqa: PLW0603
    for instrument in INSTRUMENTS:
        instrument.unbind()
    _registry = None


def render() -> tuple[str, bytes]:
    """The page of metrics: its content type and its text; empty if metrics are disabled."""
    from prometheus_client import generate_latest  # noqa: PLC0415
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4  # noqa: PLC0415

    page = b"" if _registry is None else generate_latest(_registry)
    return CONTENT_TYPE_PLAIN_0_0_4, page


def process_ended(shared: Path, pid: int) -> None:
    """Remove the gauges of a process that has ended; its counters stay."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

    mark_process_dead(pid, str(shared))


_GAUGES_OF = re.compile(r"gauge_live\w+_(\d+)\.db")
# Summed start times and limits would mean nothing.
_MINIMA = ("process_start_time_seconds", "process_max_fds")


class _LiveProcesses:
    """Memory and CPU time, summed over the processes that share a page of metrics."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        from prometheus_client import ProcessCollector  # noqa: PLC0415

        totals: dict[str, Metric] = {}
        for pid in self._pids():
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                total = totals.setdefault(metric.name, metric)
                if total is not metric:
                    _merge(total, metric)
        yield from totals.values()

    def _pids(self) -> list[int]:
        names = (_GAUGES_OF.fullmatch(file.name) for file in self._shared.iterdir())
        return sorted(int(name[1]) for name in names if name)


def _merge(into: Metric, added: Metric) -> None:
    combine = min if into.name in _MINIMA else operator.add
    into.samples = [
        ours._replace(value=combine(ours.value, theirs.value))
        for ours, theirs in zip(into.samples, added.samples, strict=True)
    ]
