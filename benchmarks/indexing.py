"""How fast is an index run, and how much memory does it take?

    python benchmarks/indexing.py [SOURCE]

Without SOURCE it downloads the source package of Home Assistant and takes its Python files. In a
new data directory: a cold run, runs of the unchanged tree, runs after one edit, and a second copy
of the tree in the same project. Memory is the peak of the sum over all our processes, PostgreSQL's
included, of what each holds in proportion (PSS).
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from pathlib import Path

from codebase_mcp import App
from codebase_mcp.settings import Settings
from processes import PeakMemory
from sources import on_a_tree

REPEATS = 5


async def measure(source: Path, data_dir: Path) -> None:
    """Run and print all figures."""
    settings = Settings.load({**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)})
    files = [file for file in source.rglob("*") if file.is_file()]
    size_mb = sum(file.stat().st_size for file in files) / 1e6
    print(f"{len(files)} files, {size_mb:.1f} MB")
    async with await App.open(settings) as app:
        memory = PeakMemory(str(data_dir))
        cold = await app.index(source)
        peak = memory.stop()
        run = cold.run
        print(
            f"cold: {run.duration_s:.2f} s, {run.files_indexed / run.duration_s:.0f} files/s, "
            f"{run.chunks_created} chunks, peak {peak:.0f} MB, status {run.status}"
        )
        same = [(await app.index(source)).run.duration_s for _ in range(REPEATS)]
        print(f"unchanged: {statistics.median(same):.3f} s")
        edited = []
        victim = next(f for f in sorted(files) if f.suffix == ".py" and f.stat().st_size > 2000)
        for number in range(REPEATS):
            with victim.open("a") as stream:
                stream.write(f"\n\ndef edit_{number}():\n    return {number}\n")
            edited.append((await app.index(source)).run.duration_s)
        print(f"one edit: {statistics.median(edited):.3f} s")
        copy = source.with_name(source.name + "-second")
        shutil.copytree(source, copy)
        started = time.perf_counter()
        second = (await app.index(copy)).run
        print(
            f"a copy in the same project: {time.perf_counter() - started:.2f} s, "
            f"{second.chunks_created} new chunks"
        )


if __name__ == "__main__":
    on_a_tree(measure, __doc__)
