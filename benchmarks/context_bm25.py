"""BM25 over whole files: counts words, and knows nothing else of code.

The formula is Lucene's with k1 = 1.5 and b = 0.75. A word counts with its parts (``retryLimit`` as
``retry``, ``limit`` and itself), and a file's path belongs to its words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import log
from pathlib import Path

K1, B = 1.5, 0.75
MOST_BYTES, MOST_CHARS = 500_000, 200_000  # of a file; of a file's text

WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def words(text: str) -> Counter[str]:
    """How often each word and each part of one is in a text."""
    counts: Counter[str] = Counter()
    for word, count in Counter(WORD.findall(text)).items():
        parts = PART.findall(word)
        terms = [part.lower() for part in parts if len(part) > 1]
        for term in terms + [word.lower()] * (len(parts) > 1):
            counts[term] += count
    return counts


class FileWords:
    """The words of a tree's files; what did not change from one state to the next is kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[Counter[str], int]] = {}
        self._files: dict[str, tuple[Counter[str], int]] = {}

    def read(self, root: Path, blobs: Mapping[str, str]) -> None:
        """Take over the files of a state, given the blob of each path."""
        kept, self._kept, self._files = self._kept, {}, {}
        for key in blobs.items():
            entry = kept.get(key)
            file = root / key[0]
            if entry is None and file.is_file() and file.stat().st_size < MOST_BYTES:
                text = file.read_text("utf-8", errors="replace")[:MOST_CHARS]
                counts = words(f"{key[0]}\n{text}")
                entry = counts, counts.total()
            if entry is not None:
                self._kept[key] = self._files[key[0]] = entry

    def rank(self, text: str, most: int) -> list[str]:
        """The files in which a text's words count most, the best first."""
        asked = words(text)
        average = sum(length for _, length in self._files.values()) / max(len(self._files), 1)
        holders = Counter(
            term for counts, _ in self._files.values() for term in asked.keys() & counts.keys()
        )
        weights = {
            term: asked[term] * log(1 + (len(self._files) - held + 0.5) / (held + 0.5))
            for term, held in holders.items()
        }
        scores = {}
        for path, (counts, length) in self._files.items():
            norm = K1 * (1 - B + B * length / average)
            shared = weights.keys() & counts.keys()
            scores[path] = sum(weights[t] * counts[t] / (counts[t] + norm) for t in shared)
        return sorted(scores, key=lambda path: -scores[path])[:most]
