"""What does a sentence transformer know about each single word piece?

Every piece of the teacher's vocabulary goes through the teacher alone, and so does each word of
``vocabulary.py``; what comes out, reduced by PCA and weighted so that common pieces count less, is
a static model: the start of ``train.py``, and usable as it is. Takes a minute on one core.

    python training/distil.py --words build/words.txt --out build/distilled
"""

from __future__ import annotations

import argparse
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

import modelfile
from teacher import NAME, Teacher, teacher_folder

# Of the added words, which have no rank; what the piece of rank 4,000 has.
WEIGHT_OF_WORD = 0.8
KEPT_SPECIAL = ("[PAD]", "[UNK]")


def is_word(piece: str) -> bool:
    """Whether the piece has a letter or a digit; the product's splitter drops all others."""
    return any(unicodedata.category(c)[0] in "LNM" for c in piece.removeprefix("##"))


def student_tokenizer(folder: Path, words: list[str]) -> tuple[Tokenizer, list[int]]:
    """The teacher's tokenizer with only pieces that occur in words, and their ids in the teacher.

    ``words`` become pieces of their own, behind all others.

    ``[PAD]`` and ``[UNK]`` stay in front; ``[unused…]``, sentence marks and punctuation go.
    """
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    by_id = sorted(raw["model"]["vocab"].items(), key=lambda item: item[1])
    kept = [(p, i) for p, i in by_id if p in KEPT_SPECIAL or (is_word(p) and p[0] != "[")]
    raw["model"]["vocab"] = {
        piece: new for new, piece in enumerate([*(piece for piece, _ in kept), *words])
    }
    raw["added_tokens"] = [
        {**token, "id": new}
        for new, special in enumerate(KEPT_SPECIAL)
        for token in raw["added_tokens"]
        if token["content"] == special
    ]
    raw["truncation"] = raw["padding"] = raw["post_processor"] = None
    return Tokenizer.from_str(json.dumps(raw)), [i for _, i in kept]


def teacher_vectors(
    teacher: Teacher, pieces: Sequence[Sequence[int]], batch: int = 512
) -> NDArray[np.float32]:
    """What the teacher makes of each word alone, ``[CLS] pieces [SEP]``, mean pooled: [n, 384]."""
    first, last = teacher.tokenizer.encode("").ids  # [CLS] and [SEP]
    rows = []
    for at in range(0, len(pieces), batch):
        states, held = teacher.states([[first, *p, last] for p in pieces[at : at + batch]])
        rows.append(np.einsum("tpd,tp->td", states, held) / held.sum(axis=1, keepdims=True))
    return np.concatenate(rows)


def principal_axes(vectors: NDArray[np.float32], dimensions: int) -> NDArray[np.float64]:
    """The first principal axes of the vectors: [n, dimensions]."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dimensions]
    # An axis has no direction of its own; fixing it keeps two runs alike.
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return np.asarray(axes)


def zipf_weights(size: int, smoothing: float) -> NDArray[np.float32]:
    """SIF weights a / (a + p): the vocabulary lies in order of frequency, so p falls with rank."""
    share = 1 / np.arange(2, size + 2, dtype=np.float64)
    return np.asarray(smoothing / (smoothing + share / share.sum()), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--smoothing", type=float, default=1e-4, help="a in a / (a + p)")
    parser.add_argument("--words", type=Path, help="words for rows of their own")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    words = args.words.read_text(encoding="utf-8").split() if args.words else []
    tokenizer, ids = student_tokenizer(teacher_folder(), words)
    teacher = Teacher(eight_bits=False, threads=args.threads)
    single = teacher_vectors(teacher, [[i] for i in ids])
    weights = zipf_weights(len(single), args.smoothing)
    if words:
        encoded = teacher.tokenizer.encode_batch_fast(words, add_special_tokens=False)
        whole = teacher_vectors(teacher, [e.ids for e in encoded])
        weights = np.append(weights, np.full(len(words), WEIGHT_OF_WORD, np.float32))
        vectors = np.concatenate([single, whole])
    else:
        vectors = single
    centred = vectors - single.mean(axis=0)
    table = (centred @ principal_axes(single, args.dimensions)).astype(np.float32)
    table *= weights[:, None]
    table[: len(KEPT_SPECIAL)] = 0
    modelfile.write(args.out, table, tokenizer, NAME)
    print(f"{len(table)} pieces x {args.dimensions} -> {args.out}")


if __name__ == "__main__":
    main()
