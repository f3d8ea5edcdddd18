"""How long does a search take, warm and in process?

    python benchmarks/searching.py [SOURCE]

Indexes SOURCE (Home Assistant's Python files unless given) in a new data directory and asks each
question several times. "Only common words" is the bad case: every term is in a large share of the
chunks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from codebase_mcp import App
from codebase_mcp.search.candidates import Filters
from codebase_mcp.search.search import Request
from codebase_mcp.settings import Settings
from sources import on_a_tree

REPEATS = 10
QUESTIONS = (
    "where are sensors polled for updates", "config flow for mqtt", "how is a light turned on",
    "parse webhook payload", "entity registry cleanup", "retry failed requests with backoff",
    "AlarmControlPanelEntity", "async_setup_entry", "user login", "convert temperature units",
    "discover devices over zeroconf", "store credentials", "template rendering sandbox",
    "rate limit api calls", "camera stream snapshot", "bluetooth advertisement parsing",
    "get state of the device", "automation trigger time pattern", "recorder purge old data",
    "device class battery sensor",
)  # fmt: skip
COMMON = (
    "self return import def", "get set value name", "if not none return true false",
    "the homeassistant config data", "async def await self hass",
)  # fmt: skip


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


async def ask(app: App, label: str, questions: Sequence[str], request: Request) -> None:
    """Ask every question several times and print the latencies."""
    for question in questions:
        await app.search(question, request=request)
    taken = []
    for _ in range(REPEATS):
        for question in questions:
            started = time.perf_counter()
            await app.search(question, request=request)
            taken.append((time.perf_counter() - started) * 1000)
    print(
        f"{label}: p50 {percentile(taken, 0.5):.1f} ms, p95 {percentile(taken, 0.95):.1f} ms, "
        f"max {max(taken):.1f} ms"
    )


async def measure(source: Path, data_dir: Path) -> None:
    """Index, ask, print."""
    settings = Settings.load({**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app:
        run = (await app.index(source)).run
        print(f"{run.files_indexed} files, {run.chunks_created} chunks")
        await ask(app, "right after indexing", QUESTIONS, Request())
        await ask(app, "settled", QUESTIONS, Request())
        await ask(app, "only common words", COMMON, Request())
        narrow = Request(Filters(directory="**/components/mqtt"))
        await ask(app, "in one directory", QUESTIONS, narrow)
        await ask(app, "one language", QUESTIONS, Request(Filters(languages=("python",))))


if __name__ == "__main__":
    on_a_tree(measure, __doc__)
