"""What do metrics cost a call?

    python benchmarks/telemetry.py [SOURCE]

Calls tools as a transport does, with and without metrics in turn, in one process: a tool that does
nothing, and search_code over SOURCE (this package unless given).
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from codebase_mcp import App
from codebase_mcp.access.identity import Identity
from codebase_mcp.settings.loading import Settings
from codebase_mcp.telemetry import metrics
from codebase_mcp.tools.calling import reply_of
from codebase_mcp.tools.catalog import all_tools
from codebase_mcp.tools.reply import Reply
from codebase_mcp.tools.toolset import Arguments, Caller, Hints, ToolSpec

HERE = Path(__file__).parents[1]
QUESTIONS = ("where are failed requests retried", "read an ignore file", "StaticEmbedder")
Call = Callable[[int], Awaitable[Any]]


class Nothing(Arguments):
    """No arguments."""


async def do_nothing(_: Caller, __: Nothing) -> Reply:
    """Do nothing."""
    return Reply()


EMPTY = ToolSpec("nothing", "Nothing", Nothing, do_nothing, Reply, Hints(reads=True))


async def compare(name: str, call: Call, *, rounds: int, calls: int) -> None:
    """Time blocks of calls, with and without metrics in turn; print both medians."""
    spent: dict[bool, list[float]] = {False: [], True: []}
    for block in range(2 * rounds):
        is_on = bool(block % 2)
        metrics.disable()
        if is_on:
            metrics.enable()
        await call(0)
        for number in range(calls):
            started = time.perf_counter()
            await call(number)
            spent[is_on].append(time.perf_counter() - started)
    without, with_metrics = (statistics.median(spent[is_on]) * 1e6 for is_on in (False, True))
    print(
        f"{name}: {without:.1f} µs without, {with_metrics:.1f} µs with metrics:"
        f" {with_metrics - without:+.1f} µs a call, medians of {rounds * calls}"
    )


async def main() -> None:
    """Compare both tools."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "src"
    search = next(tool for tool in all_tools() if tool.name == "search_code")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        settings = Settings.load(
            {"CODEBASE_MCP_DATA_DIR": f"{folder}/data", "CODEBASE_MCP_IDLE_MINUTES": "0.01"}
        )
        async with await App.open(settings) as app:
            await app.index(source)

            async def opened() -> App:
                return app

            async def nothing(_: int) -> None:
                (await reply_of(EMPTY, {}, opened, Identity())).as_json()

            async def searched(number: int) -> None:
                query = QUESTIONS[number % len(QUESTIONS)]
                (await reply_of(search, {"query": query}, opened, Identity())).as_json()

            await compare("a tool that does nothing", nothing, rounds=20, calls=500)
            await compare("search_code", searched, rounds=10, calls=60)
        await asyncio.sleep(2)  # the embedded server is about to end


if __name__ == "__main__":
    asyncio.run(main())
