"""How fast are searches while files are edited?

    python benchmarks/editing.py TREE [--files 6723] [--rate 20] [--seconds 60]

Asked are ten questions in turn, one every 200 ms, in a process that follows the files:
first while nothing changes, then while some files a second get a line. The share of searches that
found an index of the newest state in memory is told, too.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import time
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.settings.loading import Settings
from context_samples import CODE
from latency import percentile
from own_server import own_folder

PAUSE_S = 0.2
QUESTIONS = (
    "where is the configuration read and validated",
    "retry a request after a failure",
    "how are old entries deleted",
    "convert between units",
    "open a connection and authenticate",
    "parse a date",
    "write the state to a file",
    "register a callback for events",
    "run tasks one after the other",
    "what happens when a device is not reachable",
)


def copy_of(tree: Path, root: Path, most: int) -> list[Path]:
    """Copies the code files of a tree; returns them."""
    copied = []
    for file in sorted(tree.rglob("*")):
        if CODE.search(file.name) and file.is_file() and len(copied) < most:
            copied.append(root / file.relative_to(tree))
            copied[-1].parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied[-1])
    return copied


async def edit(files: list[Path], rate: float) -> None:
    """Adds a line to a file, ``rate`` times a second, until cancelled."""
    chance = random.Random(1)
    while True:
        with chance.choice(files).open("a") as file:
            file.write(f"\n# {time.time()}\n")
        await asyncio.sleep(1 / rate)


async def ask(app: App, seconds: float) -> str:
    """Searches for some time; how long they take, and how many used memory."""
    times, in_memory, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        question = QUESTIONS[len(times) % len(QUESTIONS)]
        report = await app.search(question, "bench")
        times.append(report.latency_ms)
        async with app.enter("bench", readonly=True) as here:
            in_memory += app.memory_indexes.get(here.project) is not None
        await asyncio.sleep(PAUSE_S)
    p50, p95 = percentile(times, 0.5), percentile(times, 0.95)
    share = in_memory / len(times)
    return f"p50 {p50:5.1f} ms, p95 {p95:5.1f}, {share:.0%} of {len(times)} in memory"


async def measure(root: Path, data: Path, files: list[Path], rate: float, seconds: float) -> None:
    """Index, ask, edit and ask, print."""
    async with await App.open(Settings.load({"CODEBASE_MCP_DATA_DIR": str(data)})) as app:
        await app.index(root, "bench")
        await app.search(QUESTIONS[0], "bench")
        await app.memory_indexes.wait_idle()
        print("quiet      ", await ask(app, seconds))
        editing = asyncio.create_task(edit(files, rate))
        print(f"{rate:g} edits/s ", await ask(app, seconds))
        editing.cancel()


def main() -> None:
    """Copy the tree and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--files", type=int, default=6_723)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # calls on a busy machine are slow
    with own_folder("bench-editing-") as folder:
        files = copy_of(options.tree, folder / "tree", options.files)
        asyncio.run(measure(folder / "tree", folder / "data", files, options.rate, options.seconds))


if __name__ == "__main__":
    main()
