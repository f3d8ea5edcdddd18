"""What do branches, worktrees and clones cost, and are a branch's answers its own?

A repository of real files is made with git, with branches that each change some of them. Every
state is searched beside a fresh index of that state alone, in one run. Sizes are those of the
project's tables with their indexes.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.search.search import Request
from codebase_mcp.settings.loading import Settings

PROJECT, FRESH = "bench-git", "bench-git-fresh"
CHANGED = 100
SMALL_CHANGE = 10

QUESTIONS = (
    "where are failed requests retried",
    "how is the configuration validated",
    "temperature sensor state is updated",
    "parse command line arguments",
    "async_setup_entry",
    "open a network connection",
    "what happens when a device is removed",
    "cache of translations",
    "load the manifest of an integration",
    "DataUpdateCoordinator",
)


def main() -> None:
    """Make the repository, and print a figure a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="a tree of real files")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--branches", type=int, default=1_000)
    parser.add_argument("--worktrees", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-git-") as folder:
        Path(folder).chmod(0o755)
        root = Path(folder) / "repo"
        count = make_repository(root, options.source, options.files)
        print(f"files: {count}")
        try:
            asyncio.run(measure(Path(folder), root, options))
        finally:
            EmbeddedServer(Embedded(Path(folder) / "data")).stop()


async def measure(folder: Path, root: Path, options: argparse.Namespace) -> None:
    """Index the repository, then its branches and worktrees."""
    settings = replace(Settings.load(), data_dir=folder / "data", search_memory_mb=2_000)
    async with await App.open(settings) as app:
        started = time.perf_counter()
        await app.index(root, PROJECT)
        print(f"working tree indexed: {time.perf_counter() - started:.1f} s")
        whole = await size(app)
        print(f"size: {whole / 1e6:.1f} MB")
        await branch_of_few_changes(app, root, whole)
        await compare_with_fresh(app, folder, root, options.rounds, "before")
        if options.worktrees:
            await worktrees(app, folder, root, options.worktrees, whole)
        if options.branches:
            await many_branches(app, root, options.branches)
            await compare_with_fresh(app, folder, root, options.rounds, "with all branches")


async def branch_of_few_changes(app: App, root: Path, whole: int) -> None:
    """A first commit beside the working tree, then a branch that changes few files."""
    for ref in ("main", "feature"):
        before = await size(app)
        started, processor = time.perf_counter(), time.process_time()
        await app.search(QUESTIONS[0], PROJECT, ref=ref)
        taken, processor = time.perf_counter() - started, time.process_time() - processor
        added = await size(app) - before
        print(
            f"{ref}: searched after {taken:.2f} s ({processor:.2f} s of our processor time),"
            f" {added / 1e6:.2f} MB more, {added / whole:.1%}"
        )


async def worktrees(app: App, folder: Path, root: Path, count: int, whole: int) -> None:
    """Linked worktrees of the repository, indexed one after another; the last is measured."""
    for number in range(count):
        tree = folder / "trees" / f"w{number}"
        git(root, "worktree", "add", "-q", "--detach", str(tree), "feature")
        before = await size(app)
        started = time.perf_counter()
        await app.index(tree, PROJECT)
        taken = time.perf_counter() - started
        added = await size(app) - before
        if number in (0, count - 1):
            print(
                f"worktree {number + 1}: {taken:.2f} s, {added / 1e6:.2f} MB more,"
                f" {added / whole:.1%}"
            )
    for number in range(count):
        await app.remove(folder / "trees" / f"w{number}", PROJECT)


async def many_branches(app: App, root: Path, count: int) -> None:
    """Branches that each change few files, all searchable at once."""
    project, _ = await app.resolver.resolve(PROJECT, ANONYMOUS)
    report = await app.search("anything", PROJECT)
    repository_id = report.answer.snapshots[0].repository_id
    before = await size(app)
    started = time.perf_counter()
    names = list(make_branches(root, count))
    print(f"{count} branches made: {time.perf_counter() - started:.0f} s")
    started = time.perf_counter()
    await app.views.index(project, repository_id, root, names, is_kept=True)
    taken = time.perf_counter() - started
    after = await size(app)
    print(
        f"{count} branches indexed: {taken:.0f} s, {1000 * taken / count:.0f} ms each,"
        f" {(after - before) / 1e6:.1f} MB more, {after / 1e6:.1f} MB in all"
    )


async def compare_with_fresh(app: App, folder: Path, root: Path, rounds: int, when: str) -> None:
    """Answers and times in the branch, beside those of a fresh index of it, in memory."""
    clone = folder / "fresh"
    if not clone.exists():
        git(folder, "clone", "-q", "--branch", "feature", str(root), str(clone))
        await app.index(clone, FRESH)
    wanted = [(FRESH, None), (PROJECT, "feature")]
    for project, ref in wanted:  # loads the copies in memory
        await app.search(QUESTIONS[0], project, ref=ref)
    await asyncio.sleep(2)
    await app.memory_indexes.wait_idle()
    times: dict[str, list[float]] = {FRESH: [], PROJECT: []}
    differing = 0
    for _ in range(rounds):
        for question in QUESTIONS:
            answers = []
            for project, ref in wanted:
                started = time.perf_counter()
                report = await app.search(question, project, Request(by_definition=True), ref=ref)
                times[project].append(time.perf_counter() - started)
                answers.append(
                    [(hit.file_path, hit.similarity_score) for hit in report.answer.hits]
                )
            differing += answers[0] != answers[1]
    fresh, branch = (statistics.median(times[name]) * 1000 for name in (FRESH, PROJECT))
    print(
        f"search in the branch, {when}: p50 {branch:.1f} ms, fresh index {fresh:.1f} ms,"
        f" {branch / fresh:.2f} times; answers that differ: {differing}"
    )


async def size(app: App) -> int:
    """The bytes of all tables of the project with their indexes."""
    async with app.enter(PROJECT) as here:
        await here.tx.become_owner()
        await here.tx.fetch_all("SELECT gin_clean_pending_list('chunk_terms')")
        row = await here.tx.fetch_one(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
            " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
    assert row is not None
    return int(row[0])


def make_repository(root: Path, source: Path, most: int) -> int:
    """A repository with files of a tree, and a branch that changes some; their number."""
    files = sorted(path for path in source.rglob("*") if path.is_file())[:most]
    for file in files:
        place = root / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    git(root.parent, "init", "-q", "-b", "main", str(root))
    commit(root, "all files")
    git(root, "checkout", "-q", "-b", "feature")
    chosen = random.Random(7).sample([f for f in files if f.suffix == ".py"], CHANGED)
    for number, file in enumerate(chosen):
        place = root / file.relative_to(source)
        place.write_text(place.read_text() + f"\n\ndef added_{number}(value):\n    return value\n")
    commit(root, f"{CHANGED} files change")
    git(root, "checkout", "-q", "main")
    return len(files)


def make_branches(root: Path, count: int) -> Iterator[str]:
    """Branches off main that change a few files each, made without a checkout."""
    files = git(root, "ls-tree", "-r", "--name-only", "main", "--", "*.py").splitlines()
    files = [path for path in files if path.endswith(".py")] or git(
        root, "ls-tree", "-r", "--name-only", "main"
    ).splitlines()
    chance = random.Random(11)
    stream = []
    for number in range(count):
        stream.append(
            f"commit refs/heads/topic-{number}\n"
            f"committer A <a@example.org> {1_700_000_000 + number} +0000\n"
            f"data 5\ntopic\nfrom refs/heads/main^0\n"
        )
        for path in chance.sample(files, SMALL_CHANGE):
            text = f"def topic_{number}_{abs(hash(path)) % 1000}(value):\n    return value\n"
            stream.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
    subprocess.run(
        ["git", "-C", str(root), "fast-import", "--quiet"],
        input="".join(stream).encode(),
        check=True,
    )
    for number in range(count):
        yield f"topic-{number}"


def commit(root: Path, message: str) -> None:
    """Commit everything."""
    git(root, "add", "-A")
    git(root, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", message)


def git(root: Path, *arguments: str) -> str:
    """The output of git."""
    command: Sequence[str] = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
