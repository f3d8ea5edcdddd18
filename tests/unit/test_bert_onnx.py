"""The network that is written down for a BERT: does it compute what BERT's authors say?"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnxruntime import InferenceSession
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from bert_onnx import build, export

sys.path.pop(0)

CONFIG = {
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "layer_norm_eps": 1e-12,
}
IDS = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])

Weights = dict[str, NDArray[np.float32]]


def make_weights() -> Weights:
    """A tiny BERT's, at random."""
    random = np.random.default_rng(5)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (11, 8),
        "embeddings.position_embeddings.weight": (16, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
    }
    for norm in ("embeddings", *(f"encoder.layer.{n}.{p}" for n in (0, 1) for p in
                                 ("attention.output", "output"))):  # fmt: skip
        shapes |= {f"{norm}.LayerNorm.weight": (8,), f"{norm}.LayerNorm.bias": (8,)}
    for n in (0, 1):
        sizes = {f"attention.self.{part}": (8, 8) for part in ("query", "key", "value")} | {
            "attention.output.dense": (8, 8),
            "intermediate.dense": (20, 8),
            "output.dense": (8, 20),
        }
        for name, size in sizes.items():
            shapes[f"encoder.layer.{n}.{name}.weight"] = size
            shapes[f"encoder.layer.{n}.{name}.bias"] = size[:1]
    return {name: random.standard_normal(size).astype(np.float32) for name, size in shapes.items()}


def bert(w: Weights, ids: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
    """The same, one text at a time and without what it does not see (Devlin et al. 2018)."""
    out = np.zeros((*ids.shape, 8))
    for row, (some, seen) in enumerate(zip(ids, mask, strict=True)):
        count = int(seen.sum())
        x = w["embeddings.word_embeddings.weight"][some[:count]]
        x = x + w["embeddings.position_embeddings.weight"][:count]
        x = norm(w, "embeddings", x + w["embeddings.token_type_embeddings.weight"][0])
        for n in (0, 1):
            layer = f"encoder.layer.{n}"
            q, k, v = (
                dense(w, f"{layer}.attention.self.{p}", x) for p in ("query", "key", "value")
            )
            heads = []
            for head in (slice(0, 4), slice(4, 8)):
                scores = np.exp(q[:, head] @ k[:, head].T / math.sqrt(4))
                heads.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, head])
            mixed = dense(w, f"{layer}.attention.output.dense", np.concatenate(heads, axis=1))
            x = norm(w, f"{layer}.attention.output", mixed + x)
            inner = dense(w, f"{layer}.intermediate.dense", x)
            gelu = inner * np.vectorize(lambda z: (1 + math.erf(z / math.sqrt(2))) / 2)(inner)
            x = norm(w, f"{layer}.output", dense(w, f"{layer}.output.dense", gelu) + x)
        out[row, :count] = x
    return out


def dense(w: Weights, name: str, x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(x @ w[f"{name}.weight"].T + w[f"{name}.bias"])


def norm(w: Weights, name: str, x: NDArray[Any]) -> NDArray[Any]:
    x = x - x.mean(axis=1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-12)
    return np.asarray(x * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"])


def test_the_network_computes_what_bert_does() -> None:
    weights = make_weights()
    session = InferenceSession(build(weights, CONFIG).SerializeToString())
    [found] = session.run(None, {"input_ids": IDS, "attention_mask": MASK})
    expected = bert(weights, IDS, MASK)
    seen = MASK.astype(bool)
    assert found[seen] == pytest.approx(expected[seen], abs=1e-4)


def test_a_folder_is_exported_with_its_settings(tmp_path: Path) -> None:
    source, target = tmp_path / "bert", tmp_path / "onnx-bert"
    (source / "1_Pooling").mkdir(parents=True)
    save_file(make_weights(), source / "model.safetensors")
    (source / "config.json").write_text(json.dumps(CONFIG))
    (source / "1_Pooling" / "config.json").write_text("{}")
    export(source, target, eight_bits=False)
    files = {file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file()}
    assert files == {"onnx/model.onnx", "config.json", "1_Pooling/config.json"}
