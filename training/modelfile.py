"""How does a table of piece vectors lie on disk, and how does it come back?

The Model2Vec layout: ``model.safetensors`` with ``embeddings`` [V, d] and ``weights`` [V],
``tokenizer.json``, ``config.json``. Rows are int8, each scaled to its own largest entry, and the
scale is part of the row's weight: a rare and a common piece keep the same relative precision.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer


def write(folder: Path, table: NDArray[np.float32], tokenizer: Tokenizer, origin: str) -> None:
    """Write ``table`` [V, d] and its tokenizer as a Model2Vec folder."""
    folder.mkdir(parents=True, exist_ok=True)
    largest = np.abs(table).max(axis=1)
    scale = np.where(largest == 0, 1, largest) / 127
    embeddings = np.rint(table / scale[:, None]).astype(np.int8)
    weights = np.where(largest == 0, 0, scale)
    # A common factor changes no unit vector; with it, weights are near 1 and fit float16.
    weights = (weights / weights[weights > 0].mean()).astype(np.float16)
    target = folder / "model.safetensors"
    save_file({"embeddings": embeddings, "weights": weights}, target)
    target.chmod(0o644)  # safetensors writes for the owner alone; a package is read by all
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "tokenizer_name": origin,
        "hidden_dim": int(table.shape[1]),
        "normalize": True,
        "max_length": None,
        "embedding_dtype": "int8",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[NDArray[np.float32], Tokenizer]:
    """The table [V, d] with its weights multiplied in, and the tokenizer."""
    tensors = load_file(folder / "model.safetensors")
    table = tensors["embeddings"].astype(np.float32)
    if "weights" in tensors:
        table *= tensors["weights"].astype(np.float32)[:, None]
    return table, Tokenizer.from_file(str(folder / "tokenizer.json"))
