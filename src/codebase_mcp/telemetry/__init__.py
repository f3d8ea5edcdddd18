"""What does the product do right now? Counted, timed, logged and traced, for whoever operates it.

Every other room may call this one; it knows none of them. Nothing is counted and no span is made
until `enable` or `start` says so: a server on stdio pays for neither.
"""

from __future__ import annotations

from collections.abc import Iterable

from codebase_mcp.telemetry import logs, tracing
from codebase_mcp.telemetry.metrics import enable, process_ended, render

__all__ = ["enable", "end", "process_ended", "render", "start"]


def start(
    level: str, form: str = "text", *, secrets: Iterable[str] = (), otlp_endpoint: str | None = None
) -> None:
    """Let this process log, and make spans where a collector is named; each process does so itself.

    Raises:
        InvalidInput: spans are asked for, and the packages for them are not installed.
    """
    logs.configure(level, form, secrets)
    if otlp_endpoint is not None:
        tracing.enable(otlp_endpoint)


def end() -> None:
    """Send the spans that are left."""
    tracing.flush()
