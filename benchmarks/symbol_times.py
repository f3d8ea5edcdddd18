"""How long do answers about names take in a large tree, and what does the line of a search cost?

    python benchmarks/symbol_times.py TREE [--names 200] [--data FOLDER]

The tree is indexed, in a folder that is deleted or in one that is given, where it stays. The names
are functions, methods and types of the tree, each once, drawn by chance, always the same ones: as
many from each tenth of all such names, from those that nothing uses to those that are used most.
The twenty most used names are asked for as well. Asked for are references, and callers down to
three levels. Searches for the names are made with and without the line that says where the first
result is called from.

``work`` is processor time, ours and the database's, which hardly depends on how busy the machine
is. ``step`` is the longest time that one step of the event loop computes: other calls wait for it.
As in our server, what is loaded at the start is not searched for garbage. Everything is asked once
before it is measured. On a large tree the first row takes minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from asyncio.events import Handle
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

from codebase_mcp.app.app import App
from codebase_mcp.app.searching import usage_of_first
from codebase_mcp.cli.main import LOADED_OBJECTS
from codebase_mcp.errors import TimeLimitExceeded
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from codebase_mcp.symbols.answer import Operation, SymbolQuestion
from codebase_mcp.tools.replies.search import search_text
from latency import Work, percentile
from own_server import own_folder

PROJECT = "bench-symbols"

# A use is a line of a text: `text/references.py` says how they are packed.
_NAMES = r"""
WITH used AS MATERIALIZED (
    SELECT u.name, sum(1 + length(u.uses) - length(translate(u.uses, E',\n', ''))) AS uses
    FROM blob_reference AS r
    JOIN view_file AS f ON f.blob_id = r.blob_id, unnest(r.names, r.uses) AS u (name, uses)
    GROUP BY u.name
), defined AS (
    SELECT DISTINCT s.name
    FROM symbol AS s
    JOIN view_file AS f ON f.blob_id = s.blob_id
    WHERE s.kind IN ('function', 'method', 'class', 'struct', 'interface')
), tenths AS (
    SELECT d.name, coalesce(u.uses, 0)::integer AS uses,
           ntile(10) OVER (ORDER BY coalesce(u.uses, 0), md5(d.name)) AS tenth,
           row_number() OVER (ORDER BY coalesce(u.uses, 0) DESC, d.name) AS place
    FROM defined AS d
    LEFT JOIN used AS u ON u.name = d.name
), drawn AS (
    SELECT name, uses, place, row_number() OVER (PARTITION BY tenth ORDER BY md5(name)) AS number
    FROM tenths
)
SELECT name, uses, place <= 20, number <= %(each)s
FROM drawn
WHERE place <= 20 OR number <= %(each)s
ORDER BY uses, name
"""


@dataclass(slots=True)
class Times:
    """What some calls took, in ms: by the clock, as work, and in their longest steps."""

    taken: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)


def main() -> None:
    """Index the tree, ask, and print what it took."""
    parser = argparse.ArgumentParser(description="Times of symbol, and of its line in a search")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--names", type=int, default=200)
    parser.add_argument("--data", type=Path, help="data folder to use again")
    options = parser.parse_args()
    gc.set_threshold(LOADED_OBJECTS, 10, 10)
    given = nullcontext(options.data and options.data.resolve())
    with own_folder("bench-symbols-") if options.data is None else given as folder:
        asyncio.run(measure(folder, options.tree.resolve(), options.names))


async def measure(folder: Path, tree: Path, count: int) -> None:
    """Ask about every name, and print a row for each kind of question."""
    # Files are not looked at: the line has nothing to do with that.
    settings = replace(Settings.load(), data_dir=folder / "data", check_ms=0)
    async with await App.open(settings) as app:
        await app.index(tree, PROJECT)
        async with app.enter(PROJECT) as here:
            rows = await here.tx.fetch_all(_NAMES, each=count // 10)
            [(files, chunks)] = await here.tx.fetch_all(
                "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM chunk)"
            )
        gc.freeze()
        clock = Clock(folder / "data")
        names = [name for name, _, _, is_drawn in rows if is_drawn]
        common = [name for name, _, is_common, _ in rows if is_common]
        print(f"{chunks:,} chunks of {files:,} files. Uses of the names that are asked for:")
        print(spread("names", [uses for _, uses, _, is_drawn in rows if is_drawn]))
        print(spread("common names", [uses for _, uses, is_common, _ in rows if is_common]))
        columns = ("ms p50", "p90", "max", "work p50", "p90", "max", "step max")
        print(f"\n| asked | calls | {' | '.join(columns)} |\n" + "|---" * 9 + "|", flush=True)
        asked: tuple[tuple[Operation, int, Sequence[str], str], ...] = (
            ("references", 1, names, "references"),
            ("callers", 3, names, "callers, depth 3"),
            ("references", 1, common, "references of common names"),
            ("callers", 3, common, "callers of common names, depth 3"),
        )
        for operation, depth, those, label in asked:
            questions = [SymbolQuestion(operation, name=name, depth=depth) for name in those]
            times, stopped = Times(), set()
            for kept in (Times(), times):
                for question in questions:
                    try:
                        await clock.time(app.symbols.ask(question, PROJECT), kept)
                    except TimeLimitExceeded:
                        stopped.add(question.name)
            print_row(label, times)
            if stopped:
                print(f"Stopped by the time limit: {', '.join(map(str, stopped))}", flush=True)
        await measure_searches(app, names, clock)


def spread(label: str, uses: Sequence[int]) -> str:
    """How many uses some names have."""
    shown = ", ".join(f"{percentile(uses, tenth / 10):,}" for tenth in range(1, 10))
    return f"- {label}: {len(uses)}, deciles {shown}, maximum {max(uses):,}"


class Clock:
    """Times calls, the work that they are, and the steps of the event loop."""

    def __init__(self, data: Path) -> None:
        [pid, *_] = (data / "cluster/postmaster.pid").read_text().split()
        self._work = Work(int(pid))
        self._longest = 0.0

    async def time(self, call: Awaitable[object], times: Times) -> None:
        """Await a call; its times are added to the others."""
        run: Callable[[Handle], object] = Handle._run

        def timed(handle: Handle) -> None:
            before = time.thread_time()
            run(handle)
            self._longest = max(self._longest, time.thread_time() - before)

        self._work.refresh()
        self._longest = 0.0
        before = self._work.now()
        started = time.perf_counter()
        with patch.object(Handle, "_run", timed):
            await call
        times.taken.append((time.perf_counter() - started) * 1000)
        times.work.append(sum(self._work.since(before)))
        times.steps.append(self._longest * 1000)


async def measure_searches(app: App, names: Sequence[str], clock: Clock) -> None:
    """Searches with and without their line, in turns, and how many characters it has."""
    said = []
    without, whole, used, unused = Times(), Times(), Times(), Times()
    for is_warm in (False, True):
        without, whole, used, unused = Times(), Times(), Times(), Times()
        for name in names:
            with patch("codebase_mcp.app.app.usage_of_first", _no_usage):
                await clock.time(app.search(name, PROJECT, Request(by_definition=True)), without)
            search = asyncio.ensure_future(app.search(name, PROJECT, Request(by_definition=True)))
            await clock.time(search, whole)
            report = search.result()
            line = usage_of_first(app.database, report.project, report.answer)
            await clock.time(line, unused if report.usage is None else used)
            if is_warm and report.usage is not None:
                bare = search_text(replace(report, usage=None))
                said.append(len(search_text(report)) - len(bare))
    print_row("search, without its line", without)
    print_row("search, with its line", whole)
    print_row("the line alone, shown", used)
    print_row("the line alone, not shown", unused)
    print(f"\nShown for {len(said)} of {len(names)} searches, {percentile(said, 0.5)} characters.")


async def _no_usage(*_: object) -> None:
    """No line."""


def print_row(label: str, times: Times) -> None:
    """A row of the table."""
    if not times.taken:
        print(f"| {label} | 0 |" + " |" * 7, flush=True)
        return
    figures = [
        percentile(values, share) for values in (times.taken, times.work) for share in (0.5, 0.9, 1)
    ]
    cells = " | ".join(f"{figure:.1f}" for figure in (*figures, max(times.steps)))
    print(f"| {label} | {len(times.taken)} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
