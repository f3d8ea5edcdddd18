"""Times calls, and the steps of a search or an index run; each is also a span of a trace.

A stopwatch applies to the code in its block, including tasks and threads started there. Spans are
OpenTelemetry's, made if a collector is configured: FastMCP makes the span of each MCP request and
reads the caller's trace from ``_meta``; ours are its children.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

from codebase_mcp.errors import CodebaseError, InvalidInput
from codebase_mcp.telemetry import metrics

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

# Its name is in the lines of the log, which operators search for.
_log = logging.getLogger("codebase_mcp.telemetry.calls")

NAME = "codebase-mcp"

EXPORT_TIMEOUT_S = 5
# An unavailable collector must not delay the end of the process.
FLUSH_S = 1.5

Kind = Literal["internal", "server", "client"]
Value = str | bool | int | float

_provider: TracerProvider | None = None
_tracer: Tracer | None = None

log_fields: ContextVar[Mapping[str, object]] = ContextVar("log_fields", default={})  # noqa: B039
"""What is added to each line of the log; see `bound`."""


def enable_traces(endpoint: str) -> None:
    """Send spans to an OpenTelemetry collector over HTTP; calling it again has no effect.

    Raises:
        InvalidInput: the packages that this needs are not installed.
    """
    global _provider, _tracer  # noqa: PLW0603 - OpenTelemetry has a single provider a process, too
    if _provider is not None:
        return
    try:
        from opentelemetry import trace  # noqa: PLC0415 - only when tracing is enabled
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInput(
            f"OTEL_EXPORTER_OTLP_ENDPOINT is set, but {error.name or 'a package'} is not installed",
            hint="Run pip install 'codebase-mcp[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT.",
        ) from error
    from importlib.metadata import version  # noqa: PLC0415 - not where no spans are made

    facts = {"service.version": version(NAME)}
    resource = Resource.create()
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        facts["service.name"] = NAME
    _provider = TracerProvider(resource=resource.merge(Resource(facts)), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=EXPORT_TIMEOUT_S)
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(_provider)
    _tracer = _provider.get_tracer(NAME, version(NAME))


def flush_traces() -> None:
    """Send the remaining spans, and disable tracing."""
    global _provider, _tracer
    provider, _provider, _tracer = _provider, None, None
    if provider is not None:
        sending = Thread(target=provider.shutdown, daemon=True)
        sending.start()
        sending.join(FLUSH_S)


def span(
    name: str, kind: Kind = "internal", attributes: Mapping[str, Value] | None = None
) -> AbstractContextManager[None]:
    return nullcontext() if _tracer is None else _span(_tracer, name, kind, attributes or {})


@contextmanager
def _span(tracer: Tracer, name: str, kind: Kind, attributes: Mapping[str, Value]) -> Iterator[None]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    # An error message may contain parts of a query or a text, so only its type is recorded.
    with tracer.start_as_current_span(
        name,
        kind=SpanKind[kind.upper()],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as made:
        try:
            yield
        except Exception as error:
            _fail(made, error)
            raise


def _fail(failed: Span, error: Exception) -> None:
    """Mark a span as failed, with the contract's code of the error, or the name of its class."""
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415

    kind = error.code if isinstance(error, CodebaseError) else type(error).__qualname__
    failed.set_attribute("error.type", kind)
    failed.set_status(Status(StatusCode.ERROR))


def identifiers() -> dict[str, str]:
    """The ids of the current trace and span, for log lines."""
    if _tracer is None:
        return {}
    from opentelemetry.trace import format_span_id, format_trace_id  # noqa: PLC0415
    from opentelemetry.trace import get_current_span as current  # noqa: PLC0415

    context = current().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": format_trace_id(context.trace_id),
        "span_id": format_span_id(context.span_id),
    }


@contextmanager
def continued(headers: Mapping[str, str]) -> Iterator[None]:
    """Continue the trace in a request's headers within the block."""
    if _tracer is None:
        yield
        return
    from opentelemetry import context, propagate  # noqa: PLC0415

    token = context.attach(propagate.extract(headers))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Add these fields to each line that is logged in the block."""
    token = log_fields.set({**log_fields.get(), **fields})
    try:
        yield
    finally:
        log_fields.reset(token)


@dataclass(slots=True)
class Stopwatch:
    """The times so far, and the number of round trips to the database."""

    name: str
    on_step: Callable[[str, float], None]
    started: float = field(default_factory=time.perf_counter)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    round_trips: int = 0

    def elapsed_s(self) -> float:
        return time.perf_counter() - self.started

    def add(self, step: str, seconds: float) -> None:
        self.seconds[step] += seconds
        self.on_step(step, seconds)

    def in_words(self) -> str:
        return steps_in_words(self.seconds)


_current: ContextVar[Stopwatch | None] = ContextVar("watch", default=None)
_step: ContextVar[step | None] = ContextVar("step", default=None)


@contextmanager
def stopwatch(name: str, on_step: Callable[[str, float], None]) -> Iterator[Stopwatch]:
    """Time the steps of what runs in the block."""
    watch = Stopwatch(name, on_step)
    token = _current.set(watch)
    try:
        with span(name):
            yield watch
    finally:
        _current.reset(token)


class step:  # noqa: N801 - used like a function
    """A timed step, for ``with`` or ``async with``; does nothing without a stopwatch.

    The time of an inner step does not count for the outer step.
    """

    __slots__ = ("_inner_s", "_name", "_outer", "_span", "_started", "_watch")

    def __init__(self, name: str) -> None:
        self._name = name
        self._watch = _current.get()
        self._started = 0.0
        self._inner_s = 0.0
        self._outer: step | None = None
        self._span: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        if self._watch is None:
            return
        if _tracer is not None:
            self._span = span(f"{self._watch.name} {self._name}")
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
def round_trip(statements: int) -> Iterator[None]:
    """Time that many statements, which are sent together."""
    started = time.perf_counter()
    attributes: dict[str, Value] = {
        "db.system.name": "postgresql",
        "db.operation.batch.size": statements,
    }
    try:
        with span("postgresql", "client", attributes):
            yield
    finally:
        metrics.DATABASE_ROUND_TRIP_DURATION.observe(time.perf_counter() - started)
        if (watch := _current.get()) is not None:
            watch.round_trips += 1


def steps_in_words(seconds_by_step: Mapping[str, float]) -> str:
    """The steps, the longest first: ``candidates 480 ms, embed 12 ms``."""
    steps = sorted(seconds_by_step.items(), key=lambda step: -step[1])
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in steps)


def duration(seconds: float) -> str:
    """A duration for people: ``480 ms``, ``12.3 s``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


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
    except Exception as error:
        outcome = error.code if isinstance(error, CodebaseError) else CodebaseError.code
        if _tracer is not None:
            from opentelemetry.trace import get_current_span  # noqa: PLC0415

            _fail(get_current_span(), error)
        raise
    except BaseException:
        outcome = "cancelled"
        raise
    finally:
        seconds = time.perf_counter() - started
        _count(tool, outcome, seconds)
        report(outcome, seconds)


def _request_span(tool: str) -> AbstractContextManager[None]:
    """The span of a call, unless FastMCP has made a span already."""
    if _tracer is None:
        return nullcontext()
    from opentelemetry.trace import get_current_span  # noqa: PLC0415

    if get_current_span().is_recording():
        return nullcontext()
    return span(f"tools/call {tool}", "server", {"gen_ai.tool.name": tool})


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
        with span(
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
    metrics.EMBEDDING_TEXTS.add(provider, model, amount=texts)
