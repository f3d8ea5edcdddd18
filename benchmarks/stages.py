"""Where do the core-seconds of a cold index run go, and how far is each stage from its floor?

    python benchmarks/stages.py [--files 10000] [--json FILE] [--cache FOLDER]

Three looks at one corpus. A run as users have it, seen from outside: core-seconds by process. The
same run with everything prepared in one process and its stages timed. What it sent to PostgreSQL,
sent again: core-seconds of each table and index. A floor is what the same work would cost at least:
walking a tree without rules, reading bytes, parsing without asking anything of the tree, splitting
at blanks, adding up vectors, copying bytes, COPY without index and log.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from semble_grammars import get_language
from tree_sitter import Parser

from codebase_mcp import App
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.settings.loading import Settings
from codebase_mcp.text.tokens import WORD
from copies import Copy, Cost, record, replay
from corpora import Source, choose, collect, megabytes, write
from our_indexing import SCHEMA, Side
from processes import Meter
from sides import GRAMMARS, HERE, Program
from stage_clock import Clock

VOCABULARY = 29_190  # of the built-in model

IN_ORDER = ("list", "read", "parse", "query", "cut", "terms", "embed", "rows", "pickling")


def by_process(tree: Path, data_dir: Path, grammars: Path) -> dict[str, Any]:
    """A cold run in a program of its own: how long, and who computed."""
    program = Program(
        [sys.executable, HERE / "our_indexing.py", data_dir],
        str(data_dir),
        {GRAMMARS: str(grammars)},
    )
    answer, use = program.ask_watched("cold", tree=str(tree))
    program.close()
    EmbeddedServer(Embedded(data_dir)).stop()
    return {**answer, "core_s": use.core_s_by_role(), "peak_mb": use.peak_mb}


async def by_stage(tree: Path, data_dir: Path) -> tuple[Clock, list[Copy], float]:
    """A cold run within this process; its clock, what it copied, what the event loop computed."""
    settings = Settings.load({**os.environ, "CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app:
        side = Side(app, data_dir)
        await side.warm_up()
        clock, copies = Clock(), record()
        clock.watch_stages()
        clock.watch_pool()
        gc.freeze()
        started = time.thread_time()
        await side.cold(str(tree))
        loop_s = time.thread_time() - started - clock.core_s["pickling"]
        background = Meter(str(data_dir))
        await asyncio.to_thread(background.wait_until_idle)
        background.stop()
    return clock, copies, loop_s


def floors(tree: Path, files: Sequence[Source], copies: Sequence[Copy]) -> dict[str, float]:
    """What the stages would cost at least."""
    texts = {file: (tree / file.path).read_bytes() for file in files}
    decoded = [text.decode() for text in texts.values()]
    parsers = {language: _parser(language) for language in {file.language for file in files}}
    return {
        "list": _core_s(lambda: _walk(tree)),
        "read": _core_s(lambda: [(tree / file.path).read_bytes() for file in files]),
        "parse": _core_s(
            lambda: [
                parser.parse(text)
                for file, text in texts.items()
                if (parser := parsers[file.language]) is not None
            ]
        ),
        "terms": _core_s(lambda: [text.split() for text in decoded]),
        "embed": _adding_up(decoded),
        "rows": _core_s(lambda: b"".join(copy.payload for copy in copies)),
    }


def _walk(tree: Path) -> None:
    for folder, _, names in os.walk(tree):
        for name in names:
            os.stat(f"{folder}/{name}")  # noqa: PTH116 - the floor has no objects


def _parser(language: str) -> Parser | None:
    """One for a language that is taken apart by its syntax, not by lines."""
    queries = resources.files("codebase_mcp.chunking") / "queries"
    is_known = (queries / f"{language}.scm").is_file()
    return Parser(get_language(language)) if is_known else None


def _adding_up(texts: Sequence[str]) -> float:
    """Adding up as many vectors as the texts have different words, a thousand characters each."""
    pieces = [text[i : i + 1_000] for text in texts for i in range(0, len(text), 1_000)]
    words = [[hash(word) % VOCABULARY for word in set(WORD.findall(piece))] for piece in pieces]
    rows = [np.array(some, np.int64) for some in words]
    table = np.ones((VOCABULARY, StaticEmbedder.load().dimension), np.float32)
    return _core_s(lambda: [table[some].sum(axis=0) for some in rows])


def _core_s(work: Callable[[], object]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def table_of_stages(found: dict[str, Any]) -> list[tuple[str, float, float | None]]:
    """Every stage with its core-seconds and its floor; what is left over is said as such."""
    stages, bounds, processes = found["stages"], found["floors"], found["run"]["core_s"]
    costs: list[Cost] = found["costs"]
    rows = [(name, stages.get(name, 0.0), bounds.get(name)) for name in IN_ORDER]
    rows += [("event loop and driver", found["loop_s"], None)]
    ours = processes.get("main", 0.0) + processes.get("workers", 0.0)
    rows += [("starting workers, words met by each", ours - sum(row[1] for row in rows), None)]
    indexes = [core_s for cost in costs for core_s in cost.indexes.values()]
    postgres = sum(core_s for role, core_s in processes.items() if role.startswith("PostgreSQL"))
    stored = sum(cost.plain_s for cost in costs)
    rows += [
        ("COPY, without indexes", stored, sum(cost.unlogged_s for cost in costs)),
        ("indexes", sum(indexes), None),
        ("PostgreSQL's own, other statements", postgres - stored - sum(indexes), None),
    ]
    return rows


def report(found: dict[str, Any]) -> str:
    """Everything as Markdown."""
    size = found["source_mb"]
    lines = [
        f"{found['files']:,} files, {size:.1f} MB; a run of {found['run']['seconds']:.1f} s.\n",
        "| stage | core-s | MB/s | floor, core-s | times the floor |",
        "|---|---|---|---|---|",
    ]
    for name, core_s, floor in table_of_stages(found):
        speed = f"{size / core_s:,.1f}" if core_s > 0 else ""
        end = " | " if not floor else f"{floor:.2f} | {core_s / floor:.1f}"
        lines.append(f"| {name} | {core_s:.2f} | {speed} | {end} |")
    total = sum(found["run"]["core_s"].values())
    lines += [f"| all | {total:.2f} | {size / total:.1f} | | |"]
    lines += ["", "| process | core-s |", "|---|---|"]
    lines += [f"| {role} | {s:.2f} |" for role, s in found["run"]["core_s"].items() if s >= 0.01]
    lines += ["", "| table | MB sent | COPY, core-s | each index more |", "|---|---|---|---|"]
    for cost in sorted(found["costs"], key=lambda cost: -cost.plain_s):
        more = ", ".join(f"{name} {core_s:.2f}" for name, core_s in cost.indexes.items())
        lines.append(f"| {cost.table} | {cost.megabytes:.1f} | {cost.plain_s:.2f} | {more} |")
    return "\n".join(lines) + "\n"


def measure(files: Sequence[Source], folder: Path) -> dict[str, Any]:
    """All three looks."""
    tree, data_dir, grammars = folder / "corpus", folder / "data", folder / "grammars"
    write(files, tree)
    time.sleep(2.5)  # files are trusted from two seconds after their last change on
    os.environ[GRAMMARS] = str(grammars)
    run = by_process(tree, folder / "watched", grammars)
    clock, copies, loop_s = asyncio.run(by_stage(tree, data_dir))
    try:
        costs = replay(EmbeddedServer(Embedded(data_dir)).join(), SCHEMA, copies)
    finally:
        EmbeddedServer(Embedded(data_dir)).stop()
    return {
        "files": len(files),
        "source_mb": megabytes(files),
        "run": run,
        "stages": dict(clock.core_s),
        "sent_mb": clock.sent_bytes / 1e6,
        "loop_s": loop_s,
        "floors": floors(tree, files, copies),
        "costs": costs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="where all figures go")
    parser.add_argument("--cache", type=Path, help="where packages are kept")
    parser.add_argument("--folder", type=Path, help="where the corpus and databases are made")
    options = parser.parse_args()
    files = choose(collect(options.cache), options.files)
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", dir=options.folder, ignore_cleanup_errors=True
    ) as name:
        Path(name).chmod(0o755)  # the database's user must get through, when run as root
        found = measure(files, Path(name))
    print(report(found))
    if options.json is not None:
        plain = {**found, "costs": [asdict(cost) for cost in found["costs"]]}
        options.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
