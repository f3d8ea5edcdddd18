"""Is exact search complete, and how long does it take, beside ripgrep?

Patterns are drawn from a tree and from a grammar of expressions. Each is asked of our index and of
ripgrep, which gets the same ignore rules and reads the same files; then some of them are timed:
ours through an MCP client on stdio, ripgrep as a command that lists every line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from codebase_mcp.app.app import App
from codebase_mcp.app.text_scan import TextQuestion
from codebase_mcp.database.server import Embedded, EmbeddedServer
from codebase_mcp.errors import IndexingFailed, InvalidInput
from codebase_mcp.search.text_pattern import TextQuery
from codebase_mcp.secrets.masking import mask
from codebase_mcp.settings.loading import Settings
from codebase_mcp.source.names import BINARY_EXTENSIONS

PROJECT = "bench-exact"


def main() -> None:
    """Index the trees, and print a line a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repo", type=Path, action="append", required=True)
    parser.add_argument("--ref", help="a commit of the last repository to search as well")
    parser.add_argument("--patterns", type=int, default=334, help="for each repository")
    parser.add_argument("--timed", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    if shutil.which("rg") is None:
        parser.error("ripgrep is missing: apt-get install ripgrep")
    with tempfile.TemporaryDirectory(prefix="bench-exact-") as folder:
        Path(folder).chmod(0o755)
        try:
            asyncio.run(measure(Path(folder) / "data", options))
        finally:
            EmbeddedServer(Embedded(Path(folder) / "data")).stop()


async def measure(data: Path, options: argparse.Namespace) -> None:
    settings = replace(Settings.load(), data_dir=data)
    random_ = random.Random(options.seed)
    for number, repo in enumerate(options.repo):
        tree = Searched(repo.resolve(), f"{PROJECT}-{number}", repo.resolve())
        queries = draw(tree.root, max(options.patterns, options.timed), random_)
        async with await App.open(settings) as app:
            started = time.perf_counter()
            run = (await app.index(tree.root, tree.project)).run
            took = time.perf_counter() - started
            print(f"{tree.root.name}: {run.files_indexed} files indexed in {took:.1f} s")
            started = time.perf_counter()
            await app.exact.find(TextQuestion(queries[0]), tree.project)
            print(f"the first question: {time.perf_counter() - started:.1f} s")
            await compare(app, tree, queries[: options.patterns])
            size = sum(path.stat().st_size for path in (data / "texts").glob(f"*{number}-*.texts"))
            source = sum(path.stat().st_size for path in texts_in(tree.root))
            print(f"image of the texts: {size / 1e6:.1f} MB, {size / source:.2f} of the source")
        await time_both(data, tree, queries[: options.timed])
    if options.ref is not None:
        await measure_ref(data, settings, tree, options, random_)


async def measure_ref(
    data: Path,
    settings: Settings,
    tree: Searched,
    options: argparse.Namespace,
    random_: random.Random,
) -> None:
    """The same for a commit, which ripgrep searches in a checkout of it."""
    with checked_out(tree.root, options.ref, data.parent / "checkout") as files:
        old = replace(tree, files=files, ref=options.ref)
        queries = draw(files, max(options.patterns, options.timed), random_)
        async with await App.open(settings) as app:
            while True:
                with suppress(IndexingFailed):
                    await app.exact.find(old.question(queries[0]), old.project)
                    break
                await asyncio.sleep(1)
            print(f"{tree.root.name} at {options.ref}")
            await compare(app, old, queries[: options.patterns])
        await time_both(data, old, queries[: options.timed])


@contextmanager
def checked_out(root: Path, ref: str, folder: Path) -> Iterator[Path]:
    """The files of a commit."""
    git = ["git", "-C", str(root), "worktree"]
    subprocess.run([*git, "add", "-q", "--detach", folder, ref], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", folder], check=True)


@dataclass(frozen=True)
class Searched:
    """A tree, its project, and the files that ripgrep reads."""

    root: Path
    project: str
    files: Path
    ref: str | None = None

    def question(self, query: TextQuery, limit: int = 50) -> TextQuestion:
        return TextQuestion(query, ref=self.ref, limit=limit)


def draw(root: Path, count: int, random_: random.Random) -> list[TextQuery]:
    """Patterns from the texts of a tree and from a grammar."""
    files = texts_in(root)
    sample = random_.sample(files, min(len(files), 400))
    texts = [path.read_text("utf-8", "ignore") for path in sample]
    words = sorted({word for text in texts for word in re.findall(r"[^\W\d]\w{3,24}", text)})
    lines = [line.strip() for text in texts for line in text.split("\n") if len(line.strip()) > 8]
    queries: list[TextQuery] = []
    for _ in range(count):
        word, other, line = map(random_.choice, (words, words, lines))
        first = random_.randrange(max(len(line) - 8, 1))
        piece = line[first : first + random_.randrange(4, 30)]
        pattern, regex = random_.choice([*literals(word, piece), *expressions(word, other)])
        ignore_case = random_.choice([False, False, True])
        queries.append(TextQuery(pattern, regex, ignore_case, whole_word=random_.random() < 0.1))
    return queries


def literals(word: str, piece: str) -> Iterator[tuple[str, bool]]:
    """Texts as they stand in the code."""
    yield from ((text, False) for text in (word, word, word, piece, piece, f'"{word}"'))


def expressions(a: str, b: str) -> Iterator[tuple[str, bool]]:
    """Expressions of two words: alternatives, classes, repetitions, anchors, other letters."""
    yield rf"{a}\(", True
    yield f"{a}|{b}", True
    yield rf"\b{a[:4]}\w+", True
    yield rf"^\s*(?:def|class|if|for) {a[:2]}", True
    yield rf"{a}\s*[=:]", True
    yield rf"{a[:3]}.*{b[:3]}$", True
    yield f"[{a[:3]}]+_{b[:3]}", True
    yield rf"{a[0]}{{2,3}}\d", True
    yield rf"\w+\.{a[:5]}\w*\(", True
    yield rf"[^\x00-\x7f]{a[:1]}", True
    yield f"(?:{a[:5]}|{b[:5]})[A-Z_]+", True
    yield "0x[0-9a-f]{2,}", True


async def compare(app: App, tree: Searched, queries: Sequence[TextQuery]) -> None:
    """Count the patterns for which both find the same lines."""
    equal, refused, masked = 0, 0, set[tuple[str, int]]()
    for query in queries:
        try:
            report = await app.exact.find(tree.question(query, limit=10_000_000), tree.project)
        except InvalidInput as error:
            refused += 1
            print(f"refused: {query.pattern!r}: {error.message}")
            continue
        ours = {(m.file.path, line.number) for m in report.files for line in m.lines}
        theirs = by_ripgrep(tree, query)
        differing = ours ^ theirs
        secret = {place for place in differing if is_masked(tree.files, place)}
        masked |= secret
        if differing - secret:
            sample = sorted(differing - secret)[:3]
            print(f"differs: {query}: {len(ours)} and {len(theirs)} lines, such as {sample}")
        else:
            equal += 1
    print(f"the same lines: {equal} of {len(queries)} patterns ({refused} refused)")
    print(f"lines that differ as they hold a secret: {len(masked)}")


def is_masked(root: Path, place: tuple[str, int]) -> bool:
    """Whether a line holds a secret, which we mask."""
    lines, masked = lines_of(root / place[0])
    return lines[place[1] - 1] != masked[place[1] - 1]


@cache
def lines_of(path: Path) -> tuple[list[str], list[str]]:
    """The lines of a file, as they stand and with the secrets masked."""
    text = path.read_text("utf-8", "ignore")
    return text.split("\n"), mask(text).text.split("\n")


def rg_command(tree: Searched, query: TextQuery) -> list[str]:
    pattern = query.pattern
    if query.regex:  # RE2's classes know ASCII alone
        pattern = re.sub(r"\\[wsd]", lambda match: f"(?-u:{match[0]})", pattern)
        pattern = re.sub(r"\\b", r"(?-u:\\b)", pattern)
    command = ["rg", "--no-config", "--hidden", "--no-ignore-dot", "--no-heading", "-n"]
    command += ["-i" if query.ignores_case else "-s", *(["-w"] if query.whole_word else [])]
    command += [] if query.regex else ["-F"]
    command += [] if tree.ref is None else ["--no-ignore"]  # all files of a commit are meant
    command += [f"--glob=!*.{extension}" for extension in sorted(BINARY_EXTENSIONS)]
    return [*command, "--glob=!.git", "-e", pattern, str(tree.files)]


def by_ripgrep(tree: Searched, query: TextQuery) -> set[tuple[str, int]]:
    """The lines that ripgrep finds."""
    places = set()
    for line in run_ripgrep([*rg_command(tree, query), "--null"]).split(b"\n"):
        path, null, rest = line.partition(b"\0")
        if null:
            relative = Path(path.decode("utf-8", "surrogateescape")).relative_to(tree.files)
            places.add((relative.as_posix(), int(rest.split(b":", 1)[0])))
    return places


def run_ripgrep(command: Sequence[str]) -> bytes:
    return subprocess.run(command, capture_output=True, check=False).stdout


def texts_in(root: Path) -> list[Path]:
    """The files that git does not ignore and whose names are not those of binary files."""
    command = ["rg", "--no-config", "--hidden", "--no-ignore-dot", "--files", "--null"]
    names = run_ripgrep([*command, "--glob=!.git", str(root)]).split(b"\0")
    paths = [Path(os.fsdecode(name)) for name in sorted(names) if name]
    return [path for path in paths if path.suffix[1:].lower() not in BINARY_EXTENSIONS]


async def time_both(data: Path, tree: Searched, queries: Sequence[TextQuery]) -> None:
    """Ask each pattern of both in turn, and print the times."""
    flags = ["--toolsets", "find", "--replies", "text", "--data-dir", str(data)]
    program = str(Path(sys.executable).with_name("codebase-mcp"))
    transport = StdioTransport(program, ["serve", *flags], cwd=str(tree.root))
    ours: list[float] = []
    theirs: list[float] = []
    characters: list[tuple[int, int]] = []
    async with Client(transport) as client:
        for round_ in range(2):
            for query in queries:
                arguments = {
                    "pattern": query.pattern,
                    "regex": query.regex,
                    "ignore_case": query.ignores_case,
                    "whole_word": query.whole_word,
                    "project_id": tree.project,
                    "ref": tree.ref,
                }
                started = time.perf_counter()
                reply = await client.call_tool("find_text", arguments, raise_on_error=False)
                took = time.perf_counter() - started
                started = time.perf_counter()
                listed = await asyncio.to_thread(run_ripgrep, rg_command(tree, query))
                if round_:
                    ours.append(took)
                    theirs.append(time.perf_counter() - started)
                    shown = listed.replace(f"{tree.files}/".encode(), b"")
                    characters.append((len(reply.content[0].text), len(shown)))
    for name, times in (("ours", ours), ("rg", theirs)):
        cut = statistics.quantiles(times, n=20)
        print(f"{name}: p50 {1000 * cut[9]:.1f} ms, p95 {1000 * cut[18]:.1f} ms")
    print(f"characters: ours {sum(a for a, _ in characters)}, rg {sum(b for _, b in characters)}")


if __name__ == "__main__":
    main()
