"""Metrics that cost nothing unless they are enabled.

An instrument is declared once, under its name, and does nothing until it is bound to a registry.
Only then is prometheus-client imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client import Counter as PrometheusCounter
    from prometheus_client import Gauge as PrometheusGauge
    from prometheus_client import Histogram as PrometheusHistogram

    Metric = TypeVar("Metric", PrometheusCounter, PrometheusGauge, PrometheusHistogram)
else:
    Metric = TypeVar("Metric")

PREFIX = "codebase_mcp_"

# From a query of the word index (about a millisecond) to a minute, when clients have given up.
LATENCY_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
RUN_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)


class Instrument(Generic[Metric]):
    """A name, a description and labels; the base of the three kinds."""

    kind = ""

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...] = ()) -> None:
        self.name = PREFIX + name
        self.meaning = meaning
        self.labels = labels
        self._metric: Metric | None = None
        self._children: dict[tuple[str, ...], Metric] = {}

    def bind(self, registry: CollectorRegistry | None) -> None:
        """Count in a registry; without one the values are kept in files that processes share."""
        self._children = {}
        self._metric = self._make(registry)

    def unbind(self) -> None:
        """Stop counting."""
        self._metric = None
        self._children = {}

    def _make(self, registry: CollectorRegistry | None) -> Metric:
        raise NotImplementedError

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Metric:
        """The metric of some label values; prometheus-client's own look-up takes twice as long."""
        if not labels:
            return metric
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = metric.labels(*labels)
        return child


class Counter(Instrument["PrometheusCounter"]):
    """A value that only increases."""

    kind = "counter"

    def add(self, *labels: str, amount: float = 1) -> None:
        """Increase it by an amount."""
        if self._metric is not None:
            self._child(self._metric, labels).inc(amount)

    def _make(self, registry: CollectorRegistry | None) -> PrometheusCounter:
        from prometheus_client import Counter as Made  # noqa: PLC0415

        return Made(self.name, self.meaning, self.labels, registry=registry)


class Gauge(Instrument["PrometheusGauge"]):
    """A value that goes up and down; summed over the live processes."""

    kind = "gauge"

    def add(self, *labels: str, amount: float = 1) -> None:
        """Change it by an amount, which may be negative."""
        if self._metric is not None:
            self._child(self._metric, labels).inc(amount)

    def set(self, value: float, *labels: str) -> None:
        """Set its value."""
        if self._metric is not None:
            self._child(self._metric, labels).set(value)

    def _make(self, registry: CollectorRegistry | None) -> PrometheusGauge:
        from prometheus_client import Gauge as Made  # noqa: PLC0415

        return Made(
            self.name, self.meaning, self.labels, registry=registry, multiprocess_mode="livesum"
        )


class Histogram(Instrument["PrometheusHistogram"]):
    """A distribution of durations in seconds."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: tuple[str, ...] = (),
        buckets: tuple[float, ...] = LATENCY_BUCKETS,
    ) -> None:
        super().__init__(name, meaning, labels)
        self.buckets = buckets

    def observe(self, seconds: float, *labels: str) -> None:
        """Add one duration."""
        if self._metric is not None:
            self._child(self._metric, labels).observe(seconds)

    def _make(self, registry: CollectorRegistry | None) -> PrometheusHistogram:
        from prometheus_client import Histogram as Made  # noqa: PLC0415

        return Made(self.name, self.meaning, self.labels, buckets=self.buckets, registry=registry)
