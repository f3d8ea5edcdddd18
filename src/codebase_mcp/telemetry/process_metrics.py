"""Memory and CPU time of the processes that share one page of metrics."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_GAUGES_OF = re.compile(r"gauge_live\w+_(\d+)\.db")
_LEAST = ("process_start_time_seconds", "process_max_fds")


class LiveProcesses(Collector):
    """The sums over all live processes; the minimum of start times and limits."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for pid in self._pids():
            for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                known = found.setdefault(metric.name, metric)
                if known is not metric:
                    _merge(known, metric)
        yield from found.values()

    def _pids(self) -> list[int]:
        names = (_GAUGES_OF.fullmatch(file.name) for file in self._shared.iterdir())
        return sorted(int(name[1]) for name in names if name)


def _merge(into: Metric, other: Metric) -> None:
    combine = min if into.name in _LEAST else operator.add
    into.samples = [
        ours._replace(value=combine(ours.value, theirs.value))
        for ours, theirs in zip(into.samples, other.samples, strict=True)
    ]
