"""A page of metrics for each test, and a way to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from codebase_mcp.telemetry import metrics

Page = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read_page(text: str) -> Page:
    """Each series of a page with its value."""
    return {
        (sample.name.removeprefix("codebase_mcp_"), tuple(sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def page() -> Iterator[Callable[[], Page]]:
    """Count from nothing; call it to see what has been counted."""
    metrics.disable()
    metrics.enable()
    yield lambda: read_page(metrics.render()[1].decode())
    metrics.disable()
