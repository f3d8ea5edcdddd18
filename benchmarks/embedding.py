"""How many chunks a second does the built-in model embed on one core, and how long takes a query?

Chunks of about 1,000 characters from a folder of real code, in batches, through the same calls as
indexing: words are counted once for the word index and the vectors alike, so that step is told
apart. The words are known already, as they are after the first files of a run. CPU time, which
other work on the machine hardly changes.

    python benchmarks/embedding.py --code DIR
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from codebase_mcp.embedding.embedder import Passages
from codebase_mcp.embedding.static import StaticEmbedder
from codebase_mcp.text.counting import Lexicon
from codebase_mcp.text.tokens import words_of

CHUNK_CHARS = 1000
BATCH = 256
MOST_CHUNKS = 20_000
ROUNDS = 3

LEAST_CHUNKS_PER_S = 8_000
MOST_MS_PER_QUERY = 0.5

SUFFIXES = frozenset(
    """.py .js .ts .tsx .go .rs .java .kt .c .h .cpp .cc .hpp .cs .rb .php .swift .zig .ex .exs .lua
    .sh .scala .hs""".split()
)

QUERIES = 2_000
WORDS_OF_QUERY = 6


def chunks_of(text: str) -> Iterator[str]:
    """Whole lines, joined until a chunk is full."""
    held, size = [], 0
    for line in text.splitlines(keepends=True):
        held.append(line)
        size += len(line)
        if size >= CHUNK_CHARS:
            yield "".join(held)[:CHUNK_CHARS]
            held, size = [], 0


def chunks_under(root: Path) -> list[str]:
    """Chunks of the code under a folder, in the order of the paths."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            if file.suffix in SUFFIXES and file.is_file():
                found += chunks_of(file.read_text(encoding="utf-8", errors="replace"))
        if len(found) >= MOST_CHUNKS:
            break
    return found[:MOST_CHUNKS]


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least CPU time of some rounds."""
    took = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        took.append(time.process_time() - started)
    return min(took)


def batches(chunks: Sequence[str]) -> list[Sequence[str]]:
    """As indexing makes them."""
    return [chunks[at : at + BATCH] for at in range(0, len(chunks), BATCH)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--code", type=Path, default=Path(__file__).parents[1] / "src")
    args = parser.parse_args()
    chunks = chunks_under(args.code)
    embedder, lexicon = StaticEmbedder.load(), Lexicon()
    texts = batches(chunks)
    counted = [Passages(batch, lexicon.bags(batch)) for batch in texts]
    for passages in counted:
        embedder.encode_passages(passages)

    counting = cpu_seconds(lambda: [lexicon.bags(batch) for batch in texts])
    vectors = cpu_seconds(lambda: [embedder.encode_passages(p) for p in counted])
    questions = [" ".join(words_of(chunk)[:WORDS_OF_QUERY]) for chunk in chunks[:QUERIES]]
    # No question twice: the last ones are remembered.
    started = time.process_time()
    for question in questions:
        embedder.encode_query(question)
    query = (time.process_time() - started) / len(questions)

    size = len(chunks)
    print(f"{size} chunks of up to {CHUNK_CHARS} characters, {len(lexicon)} different words")
    print(f"counting words          {size / counting:8.0f} chunks/s (shared with the word index)")
    print(f"vectors                 {size / vectors:8.0f} chunks/s (at least {LEAST_CHUNKS_PER_S})")
    print(f"both                    {size / (counting + vectors):8.0f} chunks/s")
    print(f"a query's vector        {query * 1e3:8.3f} ms (at most {MOST_MS_PER_QUERY})")
    if size / vectors < LEAST_CHUNKS_PER_S or query * 1e3 > MOST_MS_PER_QUERY:
        raise SystemExit("slower than promised")


if __name__ == "__main__":
    main()
