"""OpenTelemetry spans, if a collector is configured.

FastMCP makes the span of each MCP request and reads the caller's trace from ``_meta``; our spans
are its children.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Thread
from typing import TYPE_CHECKING, Literal

from codebase_mcp.errors import CodebaseError, InvalidInput

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

NAME = "codebase-mcp"

EXPORT_TIMEOUT_S = 5
# An unavailable collector must not delay the end of the process.
FLUSH_S = 1.5

Kind = Literal["internal", "server", "client"]
Value = str | bool | int | float

_provider: TracerProvider | None = None
_tracer: Tracer | None = None


def enable(endpoint: str) -> None:
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
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
    named = Resource.create().attributes
    from importlib.metadata import version  # noqa: PLC0415 - not where no spans are made

    facts = {"service.version": version(NAME)}
    if str(named.get("service.name", "")).startswith("unknown_service"):
        facts["service.name"] = NAME
    resource = Resource.create().merge(Resource(facts))
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=EXPORT_TIMEOUT_S)
    _provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(_provider)
    _tracer = _provider.get_tracer(NAME, version(NAME))


def flush() -> None:
    """Send the remaining spans, and disable tracing."""
    global _provider, _tracer
    provider, _provider, _tracer = _provider, None, None
    if provider is not None:
        sending = Thread(target=provider.shutdown, daemon=True)
        sending.start()
        sending.join(FLUSH_S)


def is_on() -> bool:
    return _tracer is not None


def span(
    name: str, kind: Kind = "internal", attributes: Mapping[str, Value] | None = None
) -> AbstractContextManager[None]:
    return nullcontext() if _tracer is None else _span(_tracer, name, kind, attributes or {})


@contextmanager
def _span(tracer: Tracer, name: str, kind: Kind, attributes: Mapping[str, Value]) -> Iterator[None]:
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

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
            made.set_attribute("error.type", error_type(error))
            made.set_status(Status(StatusCode.ERROR))
            raise


def is_in_span() -> bool:
    if _tracer is None:
        return False
    from opentelemetry.trace import get_current_span  # noqa: PLC0415

    return get_current_span().is_recording()


def fail(error: Exception) -> None:
    """Mark the current span, which another component made, as failed."""
    if _tracer is not None:
        from opentelemetry.trace import Status, StatusCode, get_current_span  # noqa: PLC0415

        current = get_current_span()
        current.set_attribute("error.type", error_type(error))
        current.set_status(Status(StatusCode.ERROR))


def error_type(error: Exception) -> str:
    """The contract's code of an error, or the name of its class."""
    return error.code if isinstance(error, CodebaseError) else type(error).__qualname__


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
