"""Another tool's indexing, in an environment of its own; ``indexing.py`` runs it and asks.

    PYTHON benchmarks/semble_indexing.py MODEL CACHE [TREE]

Reads one request a line and answers each with a line of JSON, as ``our_indexing.py`` does; with a
TREE it indexes that, keeps the index and ends. Nothing of ours is imported:
``SUFFIXES`` are the kinds of files whose grammars it reads beforehand.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODEL, CACHE = sys.argv[1:3]
os.environ["SEMBLE_CACHE_LOCATION"] = CACHE

from semble import SembleIndex  # noqa: E402 - reads the environment when it is imported
from semble.cache import get_validated_cache, save_index_to_cache  # noqa: E402
from semble.index.dense import load_model  # noqa: E402
from semble.types import ContentType  # noqa: E402

CONTENT = tuple(ContentType)


class Side:
    """What it can be asked to do."""

    def __init__(self) -> None:
        self._parts: dict[str, SembleIndex] = {}

    def cold(self, tree: str) -> dict[str, Any]:
        """A first index in memory; what keeping it on disk takes is said apart."""
        started = time.perf_counter()
        index = self._indexed(tree)
        built_s = time.perf_counter() - started
        started = time.perf_counter()
        save_index_to_cache(index, tree)
        stats = index.stats
        return {
            "seconds": built_s,
            "kept_s": time.perf_counter() - started,
            "files": stats.indexed_files,
            "chunks": stats.total_chunks,
        }

    def unchanged(self, tree: str) -> dict[str, Any]:
        """What its server does before each answer: is the index still true?"""
        started = time.perf_counter()
        found = get_validated_cache(tree, MODEL, CONTENT)
        seconds = time.perf_counter() - started
        assert found is not None
        return {"seconds": seconds}

    def edit(self, tree: str, path: str, name: str) -> dict[str, Any]:
        """After an edit, until it can be searched; then keep it, untimed."""
        started = time.perf_counter()
        index = self._indexed(tree)
        seconds = time.perf_counter() - started
        save_index_to_cache(index, tree)
        hits = index.search(name, top_k=10)
        return {"seconds": seconds, "found": any(hit.chunk.file_path == path for hit in hits)}

    def second(self, tree: str) -> dict[str, Any]:
        """Another repository beside the first, and one index over both."""
        started = time.perf_counter()
        self._indexed(tree)
        SembleIndex.merge(list(self._parts.items()))
        return {"seconds": time.perf_counter() - started}

    def disk(self, tree: str) -> dict[str, Any]:
        """The bytes that are kept."""
        files = [file for file in Path(CACHE).rglob("*") if file.is_file()]
        return {"bytes": sum(file.stat().st_size for file in files)}

    def _indexed(self, tree: str) -> SembleIndex:
        index = SembleIndex.from_path(tree, model_path=MODEL, content=CONTENT)
        self._parts[tree] = index
        return index


def warm_up() -> None:
    """Read the model and every grammar, as a server has that was used before."""
    load_model(MODEL)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in json.loads(os.environ["SUFFIXES"]):
            Path(folder, f"nothing{suffix}").write_text("nothing\n")
        SembleIndex.from_path(folder, model_path=MODEL, content=CONTENT)


def main() -> None:
    """Answer until the input ends."""
    side = Side()
    if len(sys.argv) > 3:
        side.cold(sys.argv[3])
        return
    warm_up()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(side, request.pop("do"))(**request)), flush=True)


if __name__ == "__main__":
    main()
