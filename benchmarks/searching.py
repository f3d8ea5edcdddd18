"""How long does a search take, what does it find, and how many are answered at once?

    python benchmarks/searching.py [--chunks 1000,10000,60000,300000] [--source DIR]…
                                   [--seconds 5] [--json FILE] [--semble PYTHON]

For each size a tree with this number of chunks is made of real code (``--source``, or what
``corpora.py`` fetches), in two repositories of one project, in a new data folder. Questions are
made of that code. Then: latencies with and without filters; right after a tenth of the files was
indexed again, and settled; while an index run goes on, and while the vector index is built;
searches a second of several callers at once, in this process and over HTTP beside a tool that does
nothing; and what the vector index misses. ``--semble`` names an interpreter that has semble, which
is then asked the same of the same tree.

A search's work in this process and in the database is given beside its time, since machines are
busy with other things, too.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import codebase_mcp
from building import (
    Builds,
    drop_vector_indexes,
    has_vector_index,
    until_built,
    until_settled,
)
from codebase_mcp import App
from codebase_mcp.search.scope import FileFilters
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings
from corpora import Source, collect
from findings import NO_FILTER, RIGHT_AFTER, Findings, show
from latency import Latencies, Work, parent_of
from load import EMPTY_SERVER, free_port, listening, load, served
from narrowing import NOTHING, Narrowing, find_narrowings
from questions import Question, make_questions
from recall import exactly, nearest_share, recall
from trees import Tree, sources_below

SIZES = "1000,10000,60000,300000"
ROUNDS = 3
CALLERS = (1, 8, 100)
HERE = Path(__file__).parent
MODEL = Path(codebase_mcp.__file__).parent / "embedding/builtin"

# The usual size of a chunk of code in bytes; what is missing then is added by what was found.
CHUNK_BYTES = 800
CLOSE_ENOUGH = 0.01


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement works with."""

    app: App
    tree: Tree
    questions: Sequence[Question]
    findings: Findings
    server_pid: int
    seconds: float


async def timed(app: App, question: Question, filters: FileFilters = NOTHING.filters) -> float:
    """The ms that one search took."""
    started = time.perf_counter()
    await app.search(question.text, request=Request(filters))
    return (time.perf_counter() - started) * 1000


async def ask_all(
    bench: Bench, filters: FileFilters = NOTHING.filters, *, rounds: int
) -> dict[str, Latencies]:
    """One caller asks everything, some rounds of it; what each kind of question took."""
    work = Work(bench.server_pid)
    by_kind: defaultdict[str, Latencies] = defaultdict(Latencies)
    for question in itertools.chain(*(bench.questions for _ in range(rounds))):
        before = work.now()
        by_kind[question.kind].taken.append(await timed(bench.app, question, filters))
        by_kind[question.kind].work.append(work.since(before))
    return by_kind


def together(by_kind: Mapping[str, Latencies]) -> Latencies:
    """What all kinds took."""
    return Latencies(
        [ms for some in by_kind.values() for ms in some.taken],
        work=[work for some in by_kind.values() for work in some.work],
    )


async def alone(bench: Bench, narrowing: Narrowing) -> None:
    """The figures of one caller, after a round that is not counted."""
    await ask_all(bench, narrowing.filters, rounds=1)
    by_kind = await ask_all(bench, narrowing.filters, rounds=ROUNDS)
    bench.findings.add(narrowing.label, together(by_kind))
    if narrowing == NOTHING:
        for kind, latencies in sorted(by_kind.items()):
            bench.findings.add(f"{NO_FILTER}: {kind}", latencies)


async def at_once(bench: Bench, callers: int) -> Latencies:
    """Several callers in this process that never pause."""
    work = Work(bench.server_pid)
    before = work.now()
    started = time.perf_counter()
    taken: list[float] = []

    async def caller(number: int) -> None:
        chance = random.Random(number)
        while time.perf_counter() - started < bench.seconds:
            taken.append(await timed(bench.app, chance.choice(bench.questions)))

    await asyncio.gather(*(caller(number) for number in range(callers)))
    seconds = time.perf_counter() - started
    work.refresh()
    ours, theirs = work.since(before)
    return Latencies(taken, seconds, [(ours / len(taken), theirs / len(taken))])


async def meanwhile(
    bench: Bench, work: Callable[[], Awaitable[object]]
) -> tuple[list[tuple[float, float]], float]:
    """Ask one question after the other until the work is done: (when, ms) of each; its seconds."""
    started = time.perf_counter()
    task = asyncio.ensure_future(work())
    asked = []
    for question in itertools.cycle(bench.questions):
        if task.done():
            break
        asked.append((time.perf_counter(), await timed(bench.app, question)))
    await task
    return asked, time.perf_counter() - started


async def index_all(bench: Bench) -> None:
    """Bring both repositories up to date."""
    for repository in bench.tree.repositories:
        run = (await bench.app.index(repository)).run
        if run.status == "failed":
            raise SystemExit("; ".join(run.errors))


async def after_a_tenth(bench: Bench) -> None:
    """Index a tenth of the files again: searches meanwhile, and right after."""
    edited = bench.tree.edit(10)
    asked, seconds = await meanwhile(bench, lambda: index_all(bench))
    first = together(await ask_all(bench, rounds=1))
    bench.findings.add("while a tenth is indexed again", Latencies([ms for _, ms in asked]))
    bench.findings.add(RIGHT_AFTER, first)
    bench.findings.notes.append(f"{edited} files indexed again in {seconds:.2f} s, while asked")
    async with exactly(bench.app) as exact:
        shares = [
            await nearest_share(bench.app, exact, question.text, NOTHING.filters)
            for question in bench.questions
        ]
    known = [share for share in shares if share is not None]
    bench.findings.add_recall(RIGHT_AFTER, {"nearest": mean(known)})
    await until_settled(bench.app)


async def while_built(bench: Bench) -> None:
    """The same while the vector index is built: it was dropped before."""
    if not await has_vector_index(bench.app):
        bench.findings.notes.append("no vector index at this size: all vectors are compared")
        return
    await drop_vector_indexes(bench.app)
    bench.tree.edit(10)
    run_s = 0.0

    async def until_there() -> None:
        nonlocal run_s
        started = time.perf_counter()
        await index_all(bench)
        run_s = time.perf_counter() - started
        await until_built(bench.app)

    async with Builds.watched(bench.app) as builds:
        asked, _ = await meanwhile(bench, until_there)
    there = await has_vector_index(bench.app)
    during = [ms for at, ms in asked if builds.was_building(at, at + ms / 1000)]
    bench.findings.add("while the vector index is built", Latencies(during))
    bench.findings.notes.append(
        f"the same without a vector index in {run_s:.2f} s; built for {builds.seconds():.2f} s, "
        + ("there again" if there else "NOT there when settled")
    )


async def compared(bench: Bench, narrowings: Sequence[Narrowing]) -> None:
    """What the vector index misses, with each filter."""
    async with exactly(bench.app) as exact:
        for narrowing in (NOTHING, *narrowings):
            asked = [*bench.questions, *narrowing.own]
            found = await recall(bench.app, exact, asked, narrowing.filters)
            bench.findings.add_recall(narrowing.label, asdict(found))
        check = await recall(exact, exact, bench.questions[:20], NOTHING.filters)
        if check.nearest < 1:
            bench.findings.notes.append(f"the exact search finds only {check.nearest:.3f} itself")


async def grow(app: App, tree: Tree, chunks: int) -> int:
    """Write and index files until the index has enough chunks; returns their number."""
    there, wanted_bytes = 0, chunks * CHUNK_BYTES * 0.9
    while tree.add(wanted_bytes):
        for repository in tree.repositories:
            await app.index(repository)
        async with app.enter(readonly=True) as here:
            [[found]] = await here.tx.fetch_all("SELECT count(*) FROM chunk")
        there = int(found)
        if there >= chunks * (1 - CLOSE_ENOUGH):
            return there
        wanted_bytes = (chunks - there) * tree.written_bytes / there
    raise SystemExit(f"The sources have only {there} chunks: name more with --source")


async def over_http(
    environment: dict[str, str], questions: Sequence[Question], findings: Findings, seconds: float
) -> None:
    """Searches over HTTP beside a tool of the same framework that does nothing."""
    port, empty_port = free_port(), free_port()
    ours = [sys.executable, "-m", "codebase_mcp.cli.main", "serve", "--transport", "http"]
    ours += ["--port", str(port)]
    empty = [sys.executable, "-c", EMPTY_SERVER, str(empty_port)]
    texts = [question.text for question in questions]
    calls: dict[str, tuple[int, Callable[[random.Random, list[str]], Any]]] = {
        "empty tool": (empty_port, lambda chance, _: ("nothing", {"query": chance.choice(texts)})),
        "ours": (port, lambda chance, _: ("search_code", {"query": chance.choice(texts)})),
    }
    with served(ours, environment), served(empty, environment):
        await asyncio.gather(listening(port), listening(empty_port))
        for callers, (name, (where, call)) in itertools.product((0, *CALLERS), calls.items()):
            outcome = await load(
                where, call, [], clients=max(callers, 1), seconds=seconds, pause_s=0
            )
            if callers:  # the first round opens the model and the database
                label = f"over HTTP, {callers} at once: {name}"
                findings.add(label, Latencies(outcome.all(), outcome.seconds))
            for error, times in outcome.errors.items():
                findings.notes.append(f"over HTTP, {name}: {times} times {error}")


def ask_semble(python: str, tree: Tree, questions: Sequence[Question], findings: Findings) -> None:
    """The other tool's figures for the same questions."""
    done = subprocess.run(
        [python, str(HERE / "semble_searching.py"), str(tree.root), str(MODEL)],
        input=json.dumps([question.text for question in questions]),
        env={**os.environ, "XDG_CACHE_HOME": str(tree.root.parent / "cache")},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        findings.notes.append(f"semble failed with exit code {done.returncode}")
        return
    told = json.loads(done.stdout)
    work = [(ms, 0.0) for ms in told["work"]]
    findings.add("semble, no filter", Latencies(told["taken"], work=work))
    findings.notes.append(f"semble: {told['chunks']} chunks, indexed in {told['indexed_s']:.1f} s")


async def measure_size(
    options: argparse.Namespace, sources: Sequence[Source], chunks: int
) -> Findings:
    """Everything about one size."""
    with tempfile.TemporaryDirectory(
        prefix="codebase-mcp-bench-", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)  # the database's user must get through, when run as root
        environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(Path(folder, "data"))}
        tree = Tree(Path(folder, "tree"), sources)
        findings = Findings(chunks)
        async with await App.open(Settings.load(environment)) as app:
            questions = await in_process(app, tree, findings, options.seconds)
        environment["CODEBASE_MCP_LOG_LEVEL"] = "ERROR"  # a hundred at once are slow, each of them
        await over_http(environment, questions, findings, options.seconds)
        if options.semble:
            ask_semble(options.semble, tree, questions, findings)
    return findings


async def in_process(
    app: App, tree: Tree, findings: Findings, seconds: float
) -> Sequence[Question]:
    """All that needs no server of ours; the questions that were asked."""
    there = await grow(app, tree, findings.chunks)
    await until_settled(app)
    async with app.enter(readonly=True) as here:
        questions = await make_questions(here.tx)
        narrowings, findings.notes = await find_narrowings(here.tx)
        [[backend]] = await here.tx.fetch_all("SELECT pg_backend_pid()")
    findings.tree = {
        "chunks": there,
        "files": len(tree.files),
        "mb": round(tree.written_bytes / 1e6, 1),
        "questions": len(questions),
    }
    print(f"{findings.tree}", file=sys.stderr, flush=True)
    bench = Bench(app, tree, questions, findings, parent_of(backend), seconds)
    for narrowing in (NOTHING, *narrowings):
        await alone(bench, narrowing)
    for callers in CALLERS:
        findings.add(f"in process, {callers} at once", await at_once(bench, callers))
    await compared(bench, narrowings)
    await after_a_tenth(bench)
    await while_built(bench)
    return questions


def main() -> None:
    """Read the options; measure and show one size after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", default=SIZES)
    parser.add_argument("--source", type=Path, action="append")
    parser.add_argument("--cache", type=Path, help="where fetched packages are kept")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--semble", metavar="PYTHON")
    options = parser.parse_args()
    logging.basicConfig(handlers=[logging.NullHandler()])
    sources = sources_below(options.source) if options.source else collect(options.cache)
    measured = []
    for size in map(int, options.chunks.split(",")):
        findings = asyncio.run(measure_size(options, sources, size))
        show(findings)
        measured.append(asdict(findings))
        if options.json:
            options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
