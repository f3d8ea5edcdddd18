"""How long do answers about names take in a large tree?

    python benchmarks/symbol_times.py TREE [--names 200]

The tree is indexed, and definitions are chosen by chance, always the same ones. Asked for are their
references, their callers down to three levels, and the references of the names that most files use.
For searches of the same names, the line that says where the first result is called from is timed
by itself. ``work`` is processor time, ours and the database's, which hardly depends on
how busy the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from codebase_mcp.app.app import App
from codebase_mcp.app.extras import usage_of_first
from codebase_mcp.errors import NotFound
from codebase_mcp.replies.text import search_text
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from codebase_mcp.symbols.answer import SymbolQuestion
from latency import Latencies, Work, percentile
from own_server import own_folder

PROJECT = "bench-symbols"

T = TypeVar("T")

_NAMES = """
SELECT s.name
FROM symbol AS s
JOIN view_file AS f ON f.blob_id = s.blob_id
WHERE s.kind IN ('function', 'method', 'class', 'struct', 'interface')
ORDER BY md5(s.qualified || s.blob_id::text)
LIMIT %(count)s
"""
_COMMON = """
SELECT used.name
FROM blob_reference AS r, unnest(r.names) AS used (name)
WHERE EXISTS (SELECT FROM symbol AS s WHERE s.name = used.name AND s.kind IN ('function', 'method'))
GROUP BY used.name
ORDER BY count(*) DESC, used.name
LIMIT 20
"""


def main() -> None:
    """Index the tree, ask, and print what it took."""
    parser = argparse.ArgumentParser(description="Times of symbol, and of its line in a search")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--names", type=int, default=200)
    options = parser.parse_args()
    with own_folder("bench-symbols-") as folder:
        asyncio.run(measure(folder, options.tree, options.names))


async def measure(folder: Path, tree: Path, count: int) -> None:
    """Ask about every name, and print a row for each kind of question."""
    # Files are not looked at: the line has nothing to do with that.
    settings = replace(Settings.load(), data_dir=folder / "data", check_ms=0)
    async with await App.open(settings) as app:
        await app.index(tree, PROJECT)
        async with app.enter(PROJECT, readonly=True) as here:
            names = [name for (name,) in await here.tx.fetch_all(_NAMES, count=count)]
            common = [name for (name,) in await here.tx.fetch_all(_COMMON)]
            [(files, chunks)] = await here.tx.fetch_all(
                "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM chunk)"
            )
        clock = Clock(folder / "data")
        print(f"{chunks:,} chunks of {files:,} files; {', '.join(common[:5])} … are common\n")
        print(
            "| asked | calls | p50 ms | p95 ms | work p50 ms | work p95 ms |\n" + "|---" * 6 + "|"
        )
        for operation, depth, asked, label in (
            ("references", 1, names, "references"),
            ("callers", 3, names, "callers, depth 3"),
            ("references", 1, common, "references of common names"),
            ("callers", 3, common, "callers of common names, depth 3"),
        ):

            async def ask(name: str, operation: str = operation, depth: int = depth) -> None:
                question = SymbolQuestion(operation, name=name, depth=depth)  # type: ignore[arg-type]
                await app.symbols.ask(question, PROJECT)

            print_row(label, await times_of(ask, asked, clock))
        await measure_searches(app, names, clock)


class Clock:
    """Times calls, and the work that they are."""

    def __init__(self, data: Path) -> None:
        [pid, *_] = (data / "cluster/postmaster.pid").read_text().split()
        self._work = Work(int(pid))

    async def time(self, call: Awaitable[T], times: Latencies) -> T:
        """What a call gives; its times are added to the others."""
        self._work.refresh()
        before = self._work.now()
        started = time.perf_counter()
        result = await call
        times.taken.append((time.perf_counter() - started) * 1000)
        times.work.append(self._work.since(before))
        return result


async def measure_searches(app: App, names: Sequence[str], clock: Clock) -> None:
    """Searches, and what their line takes and how many characters it has."""
    said = []
    for is_warm in (False, True):
        whole, line = Latencies(), Latencies()
        for name in names:
            search = app.search(name, PROJECT, Request(by_definition=True))
            report = await clock.time(search, whole)
            usage = usage_of_first(app.database, report.project, report.answer)
            if await clock.time(usage, line) is not None and is_warm:
                without = search_text(replace(report, usage=None))
                said.append(len(search_text(report)) - len(without))
    print_row("search, with its line", whole)
    print_row("the line alone", line)
    print(f"\nShown for {len(said)} of {len(names)} searches, {percentile(said, 0.5)} characters.")


async def times_of(
    ask: Callable[[str], Awaitable[None]], names: Sequence[str], clock: Clock
) -> Latencies:
    """The times for all names, the second time that they are asked."""
    for _ in range(2):
        times = Latencies()
        for name in names:
            with suppress(NotFound):  # prose
                await clock.time(ask(name), times)
    return times


def print_row(label: str, times: Latencies) -> None:
    """A row of the table."""
    facts = times.facts()
    figures = (facts[name] for name in ("p50_ms", "p95_ms", "work_p50_ms", "work_p95_ms"))
    cells = " | ".join(f"{figure:.1f}" for figure in figures)
    print(f"| {label} | {len(times.taken)} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
