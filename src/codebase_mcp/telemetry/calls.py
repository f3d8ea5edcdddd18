"""Measures incoming calls of tools and outgoing calls of embedders."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from codebase_mcp.errors import CodebaseError
from codebase_mcp.telemetry import metrics, tracing
from codebase_mcp.telemetry.logs import bound
from codebase_mcp.telemetry.stopwatch import duration

_log = logging.getLogger(__name__)


@contextmanager
def tool_call(
    tool: str, report: Callable[[str, float], None] = lambda outcome, seconds: None
) -> Iterator[None]:
    """Count, time and log a tool call, as part of the request's span; reports how it ended."""
    started = time.perf_counter()
    outcome = "ok"
    metrics.TOOL_CALLS_IN_PROGRESS.add()
    try:
        with bound(tool=tool), _request_span(tool):
            yield
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    except Exception as error:
        outcome = error.code if isinstance(error, CodebaseError) else CodebaseError.code
        tracing.fail(error)
        raise
    finally:
        seconds = time.perf_counter() - started
        _count(tool, outcome, seconds)
        report(outcome, seconds)


def _request_span(tool: str) -> AbstractContextManager[None]:
    """The span of a call, unless FastMCP has made a span already."""
    if not tracing.is_on() or tracing.is_in_span():
        return nullcontext()
    return tracing.span(f"tools/call {tool}", "server", {"gen_ai.tool.name": tool})


def _count(tool: str, outcome: str, seconds: float) -> None:
    """``outcome`` is ok, cancelled, or the code of an error."""
    metrics.TOOL_CALLS_IN_PROGRESS.add(amount=-1)
    metrics.TOOL_CALL_DURATION.observe(seconds, tool)
    if outcome in ("ok", "cancelled"):
        metrics.TOOL_CALLS.add(tool, outcome)
    else:
        metrics.TOOL_CALLS.add(tool, "error")
        metrics.TOOL_ERRORS.add(tool, outcome)
    if _log.isEnabledFor(logging.INFO):
        with bound(tool=tool, outcome=outcome, duration_ms=round(seconds * 1000, 2)):
            _log.info("%s: %s in %s", tool, outcome, duration(seconds))


@contextmanager
def embedding_call(provider: str, model: str, texts: int) -> Iterator[None]:
    """Count and time a call of the embedder for a number of texts."""
    started = time.perf_counter()
    try:
        with tracing.span(
            f"embeddings {model}",
            "internal" if provider == "static" else "client",
            {
                "gen_ai.operation.name": "embeddings",
                "gen_ai.provider.name": provider,
                "gen_ai.request.model": model,
                "codebase_mcp.texts": texts,
            },
        ):
            yield
    except Exception:
        metrics.EMBEDDING_ERRORS.add(provider, model)
        raise
    metrics.EMBEDDING_DURATION.observe(time.perf_counter() - started, provider, model)
    texts_embedded(provider, model, texts)


def texts_embedded(provider: str, model: str, texts: int) -> None:
    """Count embedded texts; called directly for those embedded in worker processes."""
    metrics.EMBEDDING_TEXTS.add(provider, model, amount=texts)


def looked_up(cache: str, *, hit: bool) -> None:
    metrics.CACHE_LOOKUPS.add(cache, "hit" if hit else "miss")


def connection_opened() -> None:
    metrics.DATABASE_CONNECTIONS_OPENED.add()


def pool_state(size: int, *, in_use: int, idle: int, waiting: int) -> None:
    metrics.DATABASE_POOL_SIZE.set(size)
    metrics.DATABASE_POOL_CONNECTIONS.set(in_use, "in_use")
    metrics.DATABASE_POOL_CONNECTIONS.set(idle, "idle")
    metrics.DATABASE_POOL_WAITING.set(waiting)
