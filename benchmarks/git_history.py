"""How long does it take to store and to search the history of a large repository?

    python benchmarks/git_history.py [--commits 50000] [--depth 1000]

Generates a repository with ``git fast-import``: 2,000 modules, each commit a change of lines in
one to four of them, every tenth a merge. Then measures storing the newest commits, storing ten new
ones, and searches. Processor time is that of this process, of git and of PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codebase_mcp import App
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.search.history import HistoryFilters
from codebase_mcp.settings.loading import Settings
from latency import percentile
from processes import Meter

FILES, LINES = 2_000, 60
NEW_COMMITS = 10
REPEATS = 100

VERBS = "raise lower split cache retry drop validate rename log batch close open parse".split()
NOUNS = (
    "retry limit;connection pool;upload queue;session cookie;invoice total;cache key;token refresh;"
    "rate limiter;search index;worker heartbeat;config file;error message;database lock;user avatar"
).split(";")
REASONS = (
    "The service is away for a minute when it is deployed.",
    "Customers saw the old value until the next day.",
    "Two workers could hold it at once.",
    "Profiles show a third of the time here.",
    "It failed on paths with spaces.",
)
QUESTIONS = (
    "why was the retry limit raised",
    "two workers hold the database lock at once",
    "when did we start to cache the session cookie",
    "paths with spaces",
)


def history(commits: int, seed: int = 1) -> Iterator[bytes]:
    """The input of ``git fast-import`` for a repository with this number of commits."""
    chance = random.Random(seed)
    texts = {
        f"src/{n % 40:02}/module_{n}.py": [f"value_{n}_{i} = {i}" for i in range(LINES)]
        for n in range(FILES)
    }
    names = list(texts)
    yield commit("Begin", 0, names, texts)
    for number in range(1, commits):
        changed = chance.sample(names, chance.randint(1, 4))
        for name in changed:
            texts[name][chance.randrange(LINES)] = f"value = {number}"
        said = f"{chance.choice(VERBS).capitalize()} the {chance.choice(NOUNS)} ({number})"
        message = f"{said}\n\n{chance.choice(REASONS)}"
        merged = number - 5 if number % 10 == 0 else None
        yield commit(message, number, changed, texts, merged)


def commit(
    message: str,
    number: int,
    names: list[str],
    texts: dict[str, list[str]],
    merged: int | None = None,
) -> bytes:
    """One commit of an import; marks begin at 1."""
    at = 1_500_000_000 + 600 * number
    lines = [
        "commit refs/heads/main",
        f"mark :{number + 1}",
        f"committer Author {number % 50} <a{number % 50}@example.org> {at} +0000",
        f"data {len(message)}",
        message,
    ]
    if number:
        lines.append(f"from :{number}")
    if merged:
        lines.append(f"merge :{merged}")
    for name in names:
        text = "\n".join(texts[name]) + "\n"
        lines += [f"M 100644 inline {name}", f"data {len(text)}", text]
    return ("\n".join(lines) + "\n").encode()


def generate(root: Path, commits: int) -> None:
    """A repository with this number of commits, its newest files checked out."""
    root.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
    importer = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=root, stdin=subprocess.PIPE)
    assert importer.stdin is not None
    for piece in history(commits):
        importer.stdin.write(piece)
    importer.stdin.close()
    assert importer.wait() == 0
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=root, check=True)


def commit_more(root: Path) -> None:
    """Ten new commits on top."""
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for number in range(NEW_COMMITS):
        with (root / "src/00/module_0.py").open("a") as file:
            file.write(f"new = {number}\n")
        subprocess.run(
            ["git", *identity, "commit", "-q", "-am", f"New {number}"], cwd=root, check=True
        )


@contextmanager
def measured(what: str, data_dir: Path) -> Iterator[None]:
    """Print how long a block takes, and how much processor time."""
    meter, before, started = Meter(str(data_dir)), processor_s(), time.perf_counter()
    yield
    wall_s, own_s = time.perf_counter() - started, processor_s() - before
    used = meter.stop()
    print(
        f"{what:<28} {wall_s:6.2f} s, processor {own_s + used.total_core_s:6.2f} s"
        f" (PostgreSQL {used.total_core_s:.2f} s)"
    )


def processor_s() -> float:
    """The processor time of this process and of its children that ended."""
    uses = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


async def measure(root: Path, data_dir: Path, depth: int) -> None:
    """Store and search the history of a repository in a new data directory."""
    settings = Settings.load({"CODEBASE_MCP_DATA_DIR": str(data_dir)})
    async with await App.open(settings) as app:
        with measured("index the files", data_dir):
            await app.index(root)
        with measured(f"store {depth} commits", data_dir):
            report = await app.index(root, history_depth=depth)
        assert report.commits == depth
        commit_more(root)
        with measured(f"{NEW_COMMITS} new commits, one search", data_dir):
            found = await app.history.search("New 3")
        assert found.commits
        for name, filters in (("", None), (" in a directory", HistoryFilters(path="src/07"))):
            times = []
            for number in range(REPEATS):
                question = QUESTIONS[number % len(QUESTIONS)]
                times.append((await app.history.search(question, filters=filters)).latency_ms)
            print(
                f"search{name}: p50 {percentile(times, 0.5):.1f} ms,"
                f" p95 {percentile(times, 0.95):.1f} ms"
            )


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=50_000)
    parser.add_argument("--depth", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-git-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        started = time.perf_counter()
        generate(place / "repository", options.commits)
        print(f"{options.commits} commits generated in {time.perf_counter() - started:.0f} s")
        server = EmbeddedServer(Embedded(place / "data", idle_minutes=0.001))
        server.join()
        asyncio.run(measure(place / "repository", place / "data", options.depth))
        server.leave()
        server.wait_until_ended()


if __name__ == "__main__":
    main()
