"""How does one project behave with a hundred repositories and a million chunks?

    python benchmarks/scale.py [--repositories 100] [--chunks 1000000] [--at 300000,600000]
                               [--folder FOLDER] [--cache FOLDER] [--memory-mb 4096] [--json FILE]

Real files, each text once (``packages.py``; Home Assistant and Ansible come first), are cut into
repositories of the same size, in the order of their paths, and indexed one after the other into one
project. At each number of chunks of ``--at``, and at the end, everything is measured: searches over
all repositories and over one, from the database and from memory; what the vector index misses;
memory, disk; an edit until it is found; commands; a repository removed while others search.

With ``--folder`` trees and index are kept there, and a later call goes on where it ended.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.request import Request as HttpRequest
from urllib.request import urlopen
from uuid import UUID

from building import Builds, has_vector_index
from codebase_mcp import App
from codebase_mcp.database.nearest import EXACT_NUMBERS
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from corpora import Source, standing, write
from latency import Latencies, Work, parent_of, percentile
from load import free_port, listening, served
from our_indexing import RELATIONS, held_bytes
from packages import MORE_PACKAGES, PACKAGES, folder_of
from processes import held_mb, pss_mb
from questions import Question, make_questions
from recall import exactly, nearest_share

PROJECT = "scale"
# The usual size of a chunk of code, in bytes.
CHUNK_BYTES = 808
# Of the built-in model.
DIMENSION = 256
ROUNDS = 2
EDITS = 5
COMMANDS = 3
BUILT_WITHIN_S = 7_200.0

COUNTS = """
SELECT (SELECT count(*) FROM repository), (SELECT count(*) FROM file),
       (SELECT count(*) FROM blob), (SELECT count(*) FROM chunk)
"""
SETTLED = """
SELECT count(*) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND (state <> 'idle' OR backend_type = 'autovacuum worker')
"""

Figures = dict[str, Any]


@dataclass(slots=True)
class Bench:
    """Where everything is, and what was measured so far."""

    folder: Path
    memory_mb: int
    figures: Figures = field(default_factory=dict)
    questions: Sequence[Question] = ()

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def environment(
        self, memory_mb: int | None = None, check_ms: int | None = None
    ) -> dict[str, str]:
        """That of a program; None leaves the default."""
        ours = {"CODEBASE_MCP_DATA_DIR": str(self.data_dir), "CODEBASE_MCP_PROJECT": PROJECT}
        if memory_mb is not None:
            ours["CODEBASE_MCP_SEARCH_MEMORY_MB"] = str(memory_mb)
        if check_ms is not None:
            ours["CODEBASE_MCP_CHECK_MS"] = str(check_ms)
        return {**os.environ, **ours}

    @asynccontextmanager
    async def app(
        self, memory_mb: int | None = None, check_ms: int | None = None
    ) -> AsyncIterator[App]:
        async with await App.open(Settings.load(self.environment(memory_mb, check_ms))) as app:
            yield app

    def note(self, name: str, value: Any) -> None:
        """Keep a figure, and tell those that wait."""
        self.figures[name] = round(value, 3) if isinstance(value, float) else value
        print(f"  {name}: {self.figures[name]}", file=sys.stderr, flush=True)


def repositories(folder: Path, chunks: int, cache: Path | None) -> Iterator[Path]:
    """The trees, one after the other, written if they are missing."""
    root, files, size = folder / "trees", list[Source](), 0
    for source in _distinct(cache):
        files.append(source)
        size += source.size
        if size >= chunks * CHUNK_BYTES:
            yield _written(files, root)
            files, size = [], 0


def _written(files: Sequence[Source], root: Path) -> Path:
    tree = root / sha256("\n".join(f.path for f in files).encode()).hexdigest()[:12]
    if not tree.is_dir():
        partial = tree.with_suffix(".partial")
        write(files, partial)
        partial.rename(tree)
    return tree


def _distinct(cache: Path | None) -> Iterator[Source]:
    """All files in the order of packages and paths, each text once."""
    seen = set[bytes]()
    for package in (*PACKAGES, *MORE_PACKAGES):
        for source in sorted(standing(folder_of(package, cache)), key=lambda file: file.path):
            text = sha256(source.location.read_bytes()).digest()
            if text not in seen:
                seen.add(text)
                yield source


async def counts(app: App) -> dict[str, int]:
    """How many repositories, files, different texts and chunks there are."""
    async with app.enter(readonly=True) as here:
        [row] = await here.tx.fetch_all(COUNTS)
    return dict(zip(("repositories", "files", "texts", "chunks"), map(int, row), strict=True))


async def grow(bench: Bench, trees: Iterator[Path], repository_count: int) -> list[Path]:
    """Index repositories up to ``repository_count``; returns their trees."""
    there, taken = list[Path](), list[float]()
    known = bench.folder / "times.json"
    times: dict[str, float] = json.loads(known.read_text()) if known.exists() else {}
    async with bench.app() as app:
        for tree in itertools.islice(trees, repository_count):
            there.append(tree)
            if tree.name not in times:
                started = time.perf_counter()
                run = (await app.index(tree)).run
                if run.status == "failed":
                    raise SystemExit("; ".join(run.errors))
                times[tree.name] = time.perf_counter() - started
                known.write_text(json.dumps(times))
                print(f"  {len(times)}: {times[tree.name]:.1f} s", file=sys.stderr, flush=True)
            taken.append(times[tree.name])
        bench.note("counts", await counts(app))
    if len(there) < repository_count:
        raise SystemExit(f"There are only files for {len(there)} repositories")
    tenth = max(repository_count // 10, 1)
    bench.note("index, s", sum(taken))
    bench.note("index, s a repository: the first tenth", mean(taken[:tenth]))
    bench.note("index, s a repository: the last tenth", mean(taken[-tenth:]))
    return there


async def build(bench: Bench) -> None:
    """Have the vector index built, and ask meanwhile."""
    async with bench.app(0) as app, Builds.watched(app) as builds:
        async with app.enter(readonly=True) as here:
            bench.questions = await make_questions(here.tx)
        is_small = bench.figures["counts"]["chunks"] * DIMENSION < EXACT_NUMBERS
        if is_small or await has_vector_index(app):
            return
        started, taken = time.perf_counter(), list[float]()
        for question in itertools.cycle(bench.questions):
            taken.append(await _timed(app, question))
            await asyncio.sleep(0.5)
            waited = time.perf_counter() - started
            if await has_vector_index(app) or waited > BUILT_WITHIN_S:
                break
        bench.note("searches without the vector index, ms", Latencies(taken).facts())
        bench.note("vector index built in, s", builds.seconds())


async def settle(app: App) -> None:
    """Wait until vacuum and other work in the background is over."""
    while True:
        async with app.enter(readonly=True) as here:
            [[busy]] = await here.tx.fetch_all(SETTLED)
        if not busy:
            return
        await asyncio.sleep(1)


async def _timed(app: App, question: Question, filters: FileFilters | None = None) -> float:
    started = time.perf_counter()
    await app.search(question.text, request=Request(filters or FileFilters()))
    return (time.perf_counter() - started) * 1000


async def search(bench: Bench, trees: Sequence[Path]) -> None:
    """Searches from the database, then from memory; of all repositories, then of one."""
    for name, memory_mb, check_ms in (
        ("database", 0, 150),
        ("database, files not checked", 0, 0),
        ("memory, files not checked", bench.memory_mb, 0),
    ):
        async with bench.app(memory_mb, check_ms) as app:
            await app.search(bench.questions[0].text)
            async with app.enter(readonly=True) as here:
                [[backend]] = await here.tx.fetch_all("SELECT pg_backend_pid()")
            work, started = Work(parent_of(backend)), time.perf_counter()
            await app.memory_indexes.wait_idle()
            if memory_mb:
                bench.note("image made in, s", time.perf_counter() - started)
                made = held_bytes(bench.data_dir / "indexes") / 1e6
                bench.note("image, MB", made)
            for where, filters in (
                ("all", FileFilters()),
                ("one", FileFilters(repository_id=await _id_of(app, trees[len(trees) // 2]))),
            ):
                for question in bench.questions:  # not counted
                    await _timed(app, question, filters)
                measured = Latencies()
                for question in [*bench.questions] * ROUNDS:
                    before = work.now()
                    measured.taken.append(await _timed(app, question, filters))
                    measured.work.append(work.since(before))
                bench.note(f"search, {name}, {where}, ms", measured.facts())


async def _id_of(app: App, tree: Path) -> UUID:
    async with app.enter(readonly=True) as here:
        rows = await here.tx.fetch_all(
            "SELECT id FROM repository WHERE root = %(root)s", root=str(tree)
        )
    return UUID(str(rows[0][0]))


async def recall(bench: Bench) -> None:
    """What the vector index misses of the ten nearest."""
    async with bench.app(0) as app, exactly(app) as exact:
        shares = [
            await nearest_share(app, exact, question.text, FileFilters())
            for question in bench.questions
        ]
    bench.note("recall of the 10 nearest", mean(s for s in shares if s is not None))


async def edit(bench: Bench, tree: Path) -> None:
    """Save a file, as an editor does: until it can be found, told of it and not told."""
    told, unseen = list[float](), list[float]()
    [victim, *_] = (f for f in sorted(tree.rglob("*.py")) if 2_000 < f.stat().st_size < 20_000)
    before = victim.read_bytes()
    async with bench.app() as app:
        await app.search(bench.questions[0].text)
        for number in range(2 * EDITS):
            name = f"edited_at_{time.time_ns()}"
            changed = victim.with_name(victim.name + ".new")
            changed.write_bytes(before + f"\n\ndef {name}():\n    return 1\n".encode())
            changed.replace(victim)
            started = time.perf_counter()
            if number % 2:
                await app.update(tree, [victim.relative_to(tree).as_posix()])
            while victim.name not in await _found(app, name):
                if time.perf_counter() - started > 60:
                    raise SystemExit("An edit is not found")
            (told if number % 2 else unseen).append(time.perf_counter() - started)
    bench.note("edit until found, told which file, s", percentile(told, 0.5))
    bench.note("edit until found by searches alone, s", percentile(unseen, 0.5))


async def _found(app: App, name: str) -> set[str]:
    hits = (await app.search(name)).answer.hits
    return {Path(hit.file_path).name for hit in hits if name in hit.content}


async def serve(bench: Bench) -> None:
    """A server that is asked all questions: by default, watching files, and with more memory."""
    for name, memory_mb, flags in (
        ("default", None, ()),
        ("watching", None, ("--watch",)),
        ("memory, watching", bench.memory_mb, ("--watch",)),
    ):
        port = free_port()
        command = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--transport", "http"]
        command += ["--port", str(port), *flags]
        with served(command, bench.environment(memory_mb)) as process:
            await listening(port)
            taken = list[float]()
            for question in (*bench.questions, *bench.questions):
                started = time.perf_counter()
                await asyncio.to_thread(_ask, port, question.text)
                taken.append((time.perf_counter() - started) * 1000)
            bench.note(f"server, {name}, first search, ms", taken[0])
            half = taken[len(taken) // 2 :]
            bench.note(
                f"server, {name}, p50 and p95, ms", [percentile(half, s) for s in (0.5, 0.95)]
            )
            bench.note(f"server, {name}, MB", pss_mb(process.pid))
            bench.note(
                f"server, {name}, with PostgreSQL, MB", held_mb(str(bench.data_dir), process.pid)
            )


def _ask(port: int, query: str) -> None:
    request = HttpRequest(
        f"http://127.0.0.1:{port}/tools/search_code",
        json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )
    urlopen(request).read()


async def commands(bench: Bench) -> None:
    """Whole commands, from start to exit."""
    for name in (("search", bench.questions[0].text), ("status",), ("projects",), ("doctor",)):
        bench.note(f"command {name[0]}, s", command_s(name, bench.environment()))


def command_s(
    arguments: Sequence[str], environment: Mapping[str, str], where: Path | None = None
) -> float:
    """The median seconds of a command."""
    program, taken = str(Path(sys.executable).with_name("codebase-mcp")), list[float]()
    for _ in range(COMMANDS):
        started = time.perf_counter()
        subprocess.run(
            [program, *arguments], cwd=where, env=environment, stdout=subprocess.DEVNULL, check=True
        )
        taken.append(time.perf_counter() - started)
    return percentile(taken, 0.5)


async def disk(bench: Bench) -> None:
    """What tables, indexes and everything else hold."""
    async with bench.app() as app, app.enter(readonly=True) as here:
        statement = RELATIONS.replace("%s", "%(schema)s")
        found = await here.tx.fetch_all(statement, schema=f"project_{PROJECT}")
    tables = sum({table: int(size) for table, size, _, _ in found}.values())
    indexes = {str(index): int(size) for _, _, index, size in found if index}
    near = sum(size for index, size in indexes.items() if "vector_near" in index)
    bench.note("tables, GB", tables / 1e9)
    bench.note("indexes, GB", (sum(indexes.values()) - near) / 1e9)
    bench.note("vector index, GB", near / 1e9)
    bench.note("data folder, GB", held_bytes(bench.data_dir) / 1e9)


async def remove(bench: Bench, tree: Path) -> None:
    """Remove a repository while others search, and index it again."""
    async with bench.app() as app:
        await app.search(bench.questions[0].text)
        started = time.perf_counter()
        removing, taken = asyncio.ensure_future(app.remove(tree)), list[float]()
        for question in itertools.cycle(bench.questions):
            if removing.done():
                break
            taken.append(await _timed(app, question))
        await removing
        bench.note("a repository removed, while searched, s", time.perf_counter() - started)
        bench.note("searches meanwhile, ms", Latencies(taken).facts())
        started = time.perf_counter()
        await app.index(tree)
        bench.note("indexed again, s", time.perf_counter() - started)


async def measure(bench: Bench, trees: Sequence[Path]) -> None:
    """Everything about the repositories that are indexed."""
    await build(bench)
    async with bench.app() as app:
        await settle(app)
    await disk(bench)
    await search(bench, trees)
    await recall(bench)
    await serve(bench)
    await commands(bench)
    await edit(bench, trees[0])
    await remove(bench, trees[-1])


async def run(options: argparse.Namespace, folder: Path) -> None:
    """Grow and measure, again and again."""
    per_repository = options.chunks // options.repositories
    results = []
    for chunks in (*options.at, options.chunks):
        bench = Bench(folder, options.memory_mb)
        wanted = repositories(folder, per_repository, options.cache)
        there = await grow(bench, wanted, round(chunks / per_repository))
        await measure(bench, there)
        results.append(bench.figures)
        print(json.dumps(bench.figures, indent=1), flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")


def numbers(text: str) -> list[int]:
    """Numbers between commas."""
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """Read the options, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repositories", type=int, default=100)
    parser.add_argument("--chunks", type=int, default=1_000_000)
    parser.add_argument("--at", type=numbers, default=[])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cache", type=Path, help="where fetched packages are kept")
    parser.add_argument("--memory-mb", type=int, default=4_096)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # searches of a million chunks are slow
    with tempfile.TemporaryDirectory(prefix="codebase-mcp-scale-") as name:
        folder: Path = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # the database's user must get through, when run as root
        try:
            asyncio.run(run(options, folder.resolve()))
        finally:
            EmbeddedServer(Embedded(folder.resolve() / "data")).stop()


if __name__ == "__main__":
    main()
