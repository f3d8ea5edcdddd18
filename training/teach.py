"""What would the transformer say about these texts?

Encodes with the teacher the words of a balanced sample of the mined pairs, the code of some of
them, and everyday phrases. ``train.py`` lets the static table learn from how alike the teacher
finds each question and each piece of code. The slow step: 10,000 pieces a second on one core.

    python training/teach.py --pairs build/pairs.jsonl --out build/taught.npz
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from hashlib import blake2b
from pathlib import Path

import numpy as np

from teacher import Teacher

PIECES_OF_WORDS = 40
PIECES_OF_CODE = 96


def balanced_sample(path: Path, wanted: int) -> list[int]:
    """Line numbers of documented pairs, as evenly over the languages as their numbers allow."""
    by_language: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            pair = json.loads(line)
            if pair["kind"] == "doc":
                key = blake2b(pair["words"].encode("utf-8", "replace"), digest_size=8).digest()
                by_language[pair["language"]].append((key, number))
    kept: list[int] = []
    left = len(by_language)
    for rows in sorted(by_language.values(), key=len):
        share = (wanted - len(kept)) // left
        kept += [number for _, number in sorted(rows)[:share]]
        left -= 1
    return sorted(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs-kept", type=int, default=150_000)
    parser.add_argument("--code-kept", type=int, default=60_000, help="of these, with their code")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    rows = balanced_sample(args.pairs, args.pairs_kept)
    # The smaller sample is a part of the larger: both take the first keys of each language.
    coded = balanced_sample(args.pairs, args.code_kept)
    assert set(coded) <= set(rows)
    wanted = set(rows)
    with args.pairs.open(encoding="utf-8") as lines:
        pairs = {n: json.loads(line) for n, line in enumerate(lines) if n in wanted}
    teacher = Teacher(threads=args.threads)
    words = teacher.encode([pairs[n]["words"] for n in rows], PIECES_OF_WORDS)
    np.savez(args.out.with_suffix(".words.npz"), rows=np.asarray(rows), words=words)
    code = teacher.encode([pairs[n]["code"] for n in coded], PIECES_OF_CODE)
    np.savez(args.out, rows=np.asarray(rows), words=words, coded=np.asarray(coded), code=code)


if __name__ == "__main__":
    main()
