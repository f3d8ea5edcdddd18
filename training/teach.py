"""What would the transformer say about these texts?

Encodes a balanced sample of the mined pairs, words and code, with the teacher. ``train.py`` lets
the static table learn from how alike the teacher finds each question and each piece of code.
The slow step: some 7,000 pieces a second on one core with bfloat16.

    python training/teach.py --pairs build/pairs.jsonl --out build/taught.npz --pairs-kept 24000
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from hashlib import blake2b
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import AutoModel

from distil import teacher_folder
from everyday import phrases

PIECES_OF_WORDS = 32
PIECES_OF_CODE = 96
PIECES_IN_A_BATCH = 8192


class Teacher:
    """The sentence transformer, as its authors pool it: mean over pieces, unit length."""

    def __init__(self) -> None:
        folder = teacher_folder()
        self._model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).eval()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(self, texts: list[str], most_pieces: int) -> NDArray[np.float16]:
        """Unit vectors, [texts, 384]; each text is cut after ``most_pieces``."""
        self._tokenizer.enable_truncation(most_pieces)
        self._tokenizer.no_padding()
        ids = [e.ids for e in self._tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors = np.zeros((len(ids), 384), np.float16)
        started, done, at = time.monotonic(), 0, 0
        while at < len(order):
            longest = len(ids[order[min(at + 256, len(order)) - 1]])
            rows = order[at : at + max(1, PIECES_IN_A_BATCH // longest)]
            longest = max(len(ids[i]) for i in rows)
            batch = torch.tensor([ids[i] + [0] * (longest - len(ids[i])) for i in rows])
            mask = torch.tensor([[j < len(ids[i]) for j in range(longest)] for i in rows])
            with torch.inference_mode():
                states = self._model(batch, attention_mask=mask.long()).last_hidden_state
                held = mask.unsqueeze(-1)
                pooled = (states.float() * held).sum(1) / held.sum(1)
            vectors[rows] = torch.nn.functional.normalize(pooled).numpy().astype(np.float16)
            at += len(rows)
            done += batch.numel()
            if at // 5000 != (at - len(rows)) // 5000:
                print(f"{at}/{len(order)}, {done / (time.monotonic() - started):.0f}/s", flush=True)
        return vectors


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
    parser.add_argument("--phrases", type=Path, default=Path(__file__).parent / "everyday.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs-kept", type=int, default=24_000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = balanced_sample(args.pairs, args.pairs_kept)
    wanted = set(rows)
    with args.pairs.open(encoding="utf-8") as lines:
        pairs = [json.loads(line) for number, line in enumerate(lines) if number in wanted]
    teacher = Teacher()
    words = teacher.encode([p["words"] for p in pairs], PIECES_OF_WORDS)
    code = teacher.encode([p["code"] for p in pairs], PIECES_OF_CODE)
    said = teacher.encode(phrases(args.phrases), PIECES_OF_WORDS)
    np.savez(args.out, rows=np.asarray(rows), words=words, code=code, phrases=said)


if __name__ == "__main__":
    main()
