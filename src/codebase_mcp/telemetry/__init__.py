"""Metrics, timings, logs and traces for operators.

All packages may import this package; it imports none of them. No metric is counted and no span
is made before `enable` or `start` is called, so a server on stdio has no overhead.
"""

from __future__ import annotations

from collections.abc import Iterable

from codebase_mcp.telemetry import logs
from codebase_mcp.telemetry.metrics import enable, process_ended, render
from codebase_mcp.telemetry.stopwatch import enable_traces
from codebase_mcp.telemetry.stopwatch import flush_traces as end

__all__ = ["enable", "end", "process_ended", "render", "start"]


def start(
    level: str, form: str = "text", *, secrets: Iterable[str] = (), otlp_endpoint: str | None = None
) -> None:
    """Configure logging, and tracing if there is an OTLP endpoint; called once per process."""
    logs.configure(level, form, secrets)
    if otlp_endpoint is not None:
        enable_traces(otlp_endpoint)
