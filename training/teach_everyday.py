"""What would the transformer say about the everyday phrases, and about the code they ask for?

Texts that the output holds already are not encoded again.

python training/teach_everyday.py --pairs build/pairs.jsonl --out build/everyday.npz
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everyday import HERE, items, phrases
from teach import PIECES_OF_CODE, PIECES_OF_WORDS
from teacher import Teacher


def held(path: Path) -> dict[str, NDArray[np.float16]]:
    """The vectors by their texts, as far as they are there."""
    if not path.exists():
        return {}
    stored = np.load(path)
    return dict(zip(json.loads(str(stored["texts"])), stored["vectors"], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--texts", type=Path, default=HERE, help="everyday.json, concepts/, ...")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    found = items(args.texts, args.pairs)
    said = sorted(
        {*phrases(args.texts / "everyday.json")}
        | {text for item in found for text in (*item.phrases, item.comment)}
    )
    coded = sorted({" ".join(item.code) for item in found})
    teacher = Teacher(threads=args.threads)
    vector_of = held(args.out)
    for texts, most_pieces in ((said, PIECES_OF_WORDS), (coded, PIECES_OF_CODE)):
        new = [text for text in texts if text not in vector_of]
        vector_of.update(zip(new, teacher.encode(new, most_pieces), strict=True))
    texts = sorted(vector_of)
    vectors = np.stack([vector_of[text] for text in texts])
    np.savez(args.out, texts=json.dumps(texts), vectors=vectors)
    print(f"{len(found)} items, {len(said)} phrases and comments")


if __name__ == "__main__":
    main()
