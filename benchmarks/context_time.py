"""How long does find_context take on a large repository with a long history?

    python benchmarks/context_time.py TREE [--files 10000] [--commits 10000]

The code files of a real tree are committed, and then commits are generated, each a new line in one
to four of the files and a message with words of their paths. Asked are 60 tasks, each once, after
three others: messages like those of the commits, the same with a trace, and with a given file. The
history has been read before. It is the whole call in a running process, without the text of the
reply.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from codebase_mcp.app.app import App
from codebase_mcp.app.context import ContextQuestion
from codebase_mcp.settings.loading import Settings
from context_samples import CODE
from git_history import REASONS, VERBS, commit
from latency import percentile
from own_server import own_folder

TASKS, BEFORE = 60, 3
CHARS = 60_000  # of a file


def texts_of(tree: Path, most: int) -> dict[str, list[str]]:
    """The lines of code files, by path."""
    texts = {}
    for file in sorted(tree.rglob("*")):
        if CODE.search(file.name) and file.is_file() and file.stat().st_size < CHARS:
            text = file.read_bytes().decode("utf-8", errors="replace")
            texts[file.relative_to(tree).as_posix()] = (
                text.encode("ascii", "replace").decode().splitlines()
            )
            if len(texts) == most:
                break
    return texts


def message_of(paths: list[str], chance: random.Random) -> str:
    """A message with words of the first path."""
    words = " ".join(re.findall(r"[a-z]{3,}", paths[0].rpartition(".")[0].lower())[-3:])
    return f"{chance.choice(VERBS).capitalize()} {words}\n\n{chance.choice(REASONS)}"


def history(texts: dict[str, list[str]], commits: int, chance: random.Random) -> Iterator[bytes]:
    """The input of ``git fast-import``."""
    names = list(texts)
    yield commit("Begin", 0, names, texts)
    for number in range(1, commits):
        start = chance.randrange(len(names))
        changed = names[start : start + chance.randint(1, 4)]
        for name in changed:
            texts[name].append(f"# {number}")
        yield commit(message_of(changed, chance), number, changed, texts)


def questions(names: list[str], chance: random.Random) -> Iterator[ContextQuestion]:
    """The tasks."""
    for number in range(BEFORE + TASKS):
        paths = chance.sample(names, 3)
        task = message_of(paths, chance)
        if number % 3 == 1:
            task += "\n" + "\n".join(f'  File "{path}", line {9 + number}, in f' for path in paths)
        yield ContextQuestion(task, (paths[1],) if number % 3 == 2 else None)


async def measure(root: Path, data: Path, names: list[str]) -> None:
    """Index, ask, print."""
    settings = Settings.load({"CODEBASE_MCP_DATA_DIR": str(data)})
    async with await App.open(settings) as app:
        await app.index(root, "bench")
        asked = list(questions(names, random.Random(2)))
        for question in asked[:BEFORE]:
            await app.context.find(question, "bench")
        await app.memory_indexes.wait_idle()
        reports = [await app.context.find(question, "bench") for question in asked[BEFORE:]]
        times = [report.latency_ms for report in reports]
        parts = {name: times[at::3] for at, name in enumerate(("message", "trace", "given file"))}
        for name, part in {**parts, "all": times}.items():
            print(
                f"{name:<11} p50 {percentile(part, 0.5):4.0f} ms, p95 {percentile(part, 0.95):4.0f}"
            )


def main() -> None:
    """Generate the repository and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=10_000)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # calls on a busy machine are slow
    texts = texts_of(options.tree, options.files)
    names = list(texts)
    with own_folder("bench-context-time-") as folder:
        root = folder / "repository"
        root.mkdir()
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
        stream = b"".join(history(texts, options.commits, random.Random(1)))
        subprocess.run(["git", "fast-import", "--quiet"], cwd=root, input=stream, check=True)
        subprocess.run(["git", "reset", "-q", "--hard"], cwd=root, check=True)
        print(f"{len(names)} files, {options.commits} commits")
        asyncio.run(measure(root, folder / "data", names))


if __name__ == "__main__":
    main()
