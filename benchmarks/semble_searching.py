"""Another tool's search of the same tree, in an environment of its own; ``searching.py`` runs it.

    PYTHON benchmarks/semble_searching.py TREE MODEL < questions.json

Prints, as JSON, the seconds that indexing took, the number of chunks, and of each search the ms it
took and the ms of processor time.
"""

from __future__ import annotations

import json
import sys
import time

from semble import SembleIndex

ROUNDS = 3


def main() -> None:
    """Index, ask everything once to warm up, then measure."""
    tree, model = sys.argv[1:]
    questions = json.load(sys.stdin)
    started = time.perf_counter()
    index = SembleIndex.from_path(tree, model_path=model)
    indexed_s = time.perf_counter() - started
    taken, work = [], []
    for number in range(1 + ROUNDS):
        for question in questions:
            started, before = time.perf_counter(), time.process_time()
            index.search(question, top_k=10)
            if number:
                taken.append((time.perf_counter() - started) * 1000)
                work.append((time.process_time() - before) * 1000)
    told = {"indexed_s": indexed_s, "chunks": len(index.chunks), "taken": taken, "work": work}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
