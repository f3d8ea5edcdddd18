"""All metrics, and the page that Prometheus reads.

Labels have few values: tools, error codes, steps, models; never a project, a path or a text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from codebase_mcp.telemetry.instruments import RUN_BUCKETS, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

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
    "Look-ups by result (hit, miss) in a cache: project, context_file, workflow.",
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
    "index_run_duration_seconds", "Time that an index run takes.", (), RUN_BUCKETS
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

INSTRUMENTS = tuple(i for i in globals().values() if isinstance(i, Counter | Gauge | Histogram))

_registry: CollectorRegistry | None = None


def enable(shared: Path | None = None) -> None:
    """Start counting; calling it again has no effect.

    ``shared`` is the folder in which several processes store their values, the same that was passed
    to `settings.share_metrics_in`: a scrape of any process shows the sum.
    """
    global _registry  # noqa: PLW0603 - a process has one page of metrics
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

        from codebase_mcp.telemetry.process_metrics import LiveProcesses  # noqa: PLC0415

        MultiProcessCollector(registry, path=str(shared))
        registry.register(LiveProcesses(shared))
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
