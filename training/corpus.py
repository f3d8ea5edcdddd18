"""The mined pairs as counted pieces, ready to be drawn from.

Pairs are thinned so that no language drowns the others, and kept in the order of the archives, so
that neighbours in the arrays are neighbours in a package.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, load_npz, save_npz

from bags import Bags

MOST_OF_A_LANGUAGE = {
    "doc": 60_000, "name": 15_000, "test": 15_000, "message": 10_000, "prose": 5_000,
    "commit": 10_000,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pair ``i``: words ``words[i]``, code ``code[i]``; ``line`` is its line in the pairs file.

    ``package`` and ``language`` number the packages and languages; ``words_key`` is equal where
    the words are equal.
    """

    words: csr_matrix
    code: csr_matrix
    line: NDArray[np.int64]
    package: NDArray[np.int64]
    language: NDArray[np.int64]
    words_key: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.line)


def _thinned(pairs: Path, always: set[int]) -> list[int]:
    groups: dict[tuple[str, str], list[tuple[bytes, int]]] = defaultdict(list)
    with pairs.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number in always:
                continue
            pair = json.loads(line)
            key = blake2b(line.encode("utf-8", "replace"), digest_size=8).digest()
            groups[pair["language"], pair["kind"]].append((key, number))
    kept = set(always)
    for (_, kind), rows in groups.items():
        kept.update(number for _, number in sorted(rows)[: MOST_OF_A_LANGUAGE[kind]])
    return sorted(kept)


def load(pairs: Path, bags: Bags, always: NDArray[np.int64], cache: Path) -> Corpus:
    """The thinned pairs as bags; ``always`` are line numbers to keep. ``cache`` is a folder."""
    arrays = cache / "corpus.npz"
    if not arrays.exists():
        cache.mkdir(parents=True, exist_ok=True)
        _count(pairs, bags, set(always.tolist()), cache)
    stored = np.load(arrays)
    return Corpus(
        words=load_npz(cache / "words.npz"),
        code=load_npz(cache / "code.npz"),
        **{name: stored[name] for name in ("line", "package", "language", "words_key")},
    )


def _count(pairs: Path, bags: Bags, always: set[int], cache: Path) -> None:
    kept = _thinned(pairs, always)
    wanted = set(kept)
    packages, languages, keys = [], [], []

    def texts(field: str) -> Iterator[str]:
        with pairs.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number in wanted:
                    pair = json.loads(line)
                    if field == "words":
                        packages.append(pair["package"])
                        languages.append(pair["language"])
                        words = pair["words"].lower().encode("utf-8", "replace")
                        keys.append(int.from_bytes(blake2b(words, digest_size=7).digest(), "big"))
                    yield pair[field]

    for field in ("words", "code"):
        save_npz(cache / f"{field}.npz", bags.matrix(texts(field)), compressed=False)
    np.savez(
        cache / "corpus.npz",
        line=np.asarray(kept),
        package=np.unique(packages, return_inverse=True)[1],
        language=np.unique(languages, return_inverse=True)[1],
        words_key=np.asarray(keys),
    )
