"""The page of health: the state of the server, and its times."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from codebase_mcp import telemetry
from codebase_mcp.web.pages.site import Site, projects_of, require


@dataclass(slots=True)
class Times:
    """How long something took, from a histogram of the server's metrics.

    ``buckets`` are cumulative counts by upper bound (s), as Prometheus has them.
    """

    name: str
    count: int = 0
    total_s: float = 0.0
    buckets: list[tuple[float, int]] = field(default_factory=list)

    @property
    def mean_ms(self) -> float:
        return 1000 * self.total_s / self.count if self.count else 0.0

    def below_ms(self, share: float) -> float:
        """The upper bound of the bucket that this share of the times reaches."""
        bounds = (bound for bound, count in self.buckets if count >= share * self.count)
        return 1000 * next(bounds, float("inf"))

    def columns(self) -> list[tuple[float, float]]:
        """The buckets as columns of a picture of 100 by 20: x and height."""
        counts = [count for _, count in self.buckets]
        each = [now - before for now, before in zip(counts, [0, *counts], strict=False)]
        most, width = max(each, default=0) or 1, 100 / (len(each) or 1)
        return [(round(column * width, 2), round(20 * count / most, 1))
                for column, count in enumerate(each)]  # fmt: skip


async def status(site: Site, request: Request) -> Response:
    """The checks of ``doctor``, without its test index, and the metrics."""
    require(request, "read")
    projects = await projects_of(site, request)
    health = await site.call(request, "project", operation="get_health", project_id=projects.chosen)
    _, page = await asyncio.to_thread(telemetry.render)
    tools, steps, numbers = await asyncio.to_thread(_read, page.decode())
    return site.page(
        request,
        "status.html",
        projects=projects,
        health=health,
        tables=[("Tool", tools), ("Step of a search", steps)],
        numbers=numbers,
    )


def _read(page: str) -> tuple[list[Times], list[Times], dict[str, float]]:
    """The times of tools and of the steps of searches, and some single numbers."""
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    labels = {
        "codebase_mcp_tool_call_duration_seconds": "tool",
        "codebase_mcp_search_step_duration_seconds": "step",
    }
    shown = {
        "codebase_mcp_tool_calls_in_progress": "calls in progress",
        "codebase_mcp_index_runs_in_progress": "index runs in progress",
        "codebase_mcp_database_pool_waiting": "waiting for the database",
    }
    by_label: dict[str, dict[str, Times]] = {label: {} for label in labels.values()}
    numbers: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(page):
        if family.name in shown:
            numbers[shown[family.name]] += sum(sample.value for sample in family.samples)
        if (label := labels.get(family.name)) is None:
            continue
        for sample in family.samples:
            name = sample.labels[label]
            times = by_label[label].setdefault(name, Times(name))
            if sample.name.endswith("_bucket"):
                times.buckets.append((float(sample.labels["le"]), int(sample.value)))
            elif sample.name.endswith("_sum"):
                times.total_s = sample.value
            elif sample.name.endswith("_count"):
                times.count = int(sample.value)
    tools, steps = (
        sorted((t for t in times.values() if t.count), key=lambda times: -times.total_s)
        for times in by_label.values()
    )
    return tools, steps, dict(numbers)
