"""How does a BERT in safetensors become a network that the provider onnx runs?

Writes the network in ONNX by hand, so that no torch is needed, and lets onnxruntime make its
weights eight bits wide. The rest of the folder is copied as it is.

    python benchmarks/bert_onnx.py /path/to/sentence-transformers-folder /path/to/new-folder
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file

OPSET = 17
IR_VERSION = 8  # that of the time of this opset, so that older runtimes read it
SETTINGS = (
    "tokenizer.json", "tokenizer_config.json", "config.json", "modules.json",
    "sentence_bert_config.json", "1_Pooling/config.json",
)  # fmt: skip


class Graph:
    """A network as it is written down: what each step makes is known by a name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def step(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """One step; the name of what it makes."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, values: NDArray[Any]) -> str:
        """Numbers that are part of the network."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def linear(self, x: str, weight: NDArray[Any], bias: NDArray[Any]) -> str:
        """A dense layer; its weights are stored as torch does, output by input."""
        return self.step("Add", self.step("MatMul", x, self.weight(weight.T)), self.weight(bias))

    def model(self, output: str) -> onnx.ModelProto:
        """The whole network."""
        shape: list[str] = ["texts", "tokens"]
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [output], ["last_hidden_state"])],
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, shape)
                for name in ("input_ids", "attention_mask")
            ],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, None])],
            self.weights,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


def build(weights: dict[str, NDArray[Any]], config: dict[str, Any]) -> onnx.ModelProto:
    """BERT's encoder (Devlin et al. 2018), for texts of one segment."""
    graph, width, heads = Graph(), config["hidden_size"], config["num_attention_heads"]
    epsilon = float(config["layer_norm_eps"])

    def norm(x: str, name: str) -> str:
        scale, shift = (graph.weight(weights[f"{name}.LayerNorm.{p}"]) for p in ("weight", "bias"))
        return graph.step("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def dense(x: str, name: str) -> str:
        return graph.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def ints(*values: int) -> str:
        return graph.weight(np.array(values, np.int64))

    words = graph.weight(weights["embeddings.word_embeddings.weight"])
    places = weights["embeddings.position_embeddings.weight"]
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    length = graph.step("Shape", "input_ids", start=1, end=2)
    place = graph.step("Slice", graph.weight(places + segment), ints(0), length, ints(0))
    x = norm(graph.step("Add", graph.step("Gather", words, "input_ids"), place), "embeddings")
    seen = graph.step("Cast", graph.step("Unsqueeze", "attention_mask", ints(1, 2)), to=1)
    one, far = (graph.weight(np.array(v, np.float32)) for v in (1, -10_000))
    mask = graph.step("Mul", graph.step("Sub", one, seen), far)
    root = graph.weight(np.array((width // heads) ** -0.5, np.float32))
    apart, together = ints(0, 0, heads, width // heads), ints(0, 0, width)
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        parts = [
            graph.step("Reshape", dense(x, f"{layer}.attention.self.{part}"), apart)
            for part in ("query", "key", "value")
        ]
        query = graph.step("Transpose", parts[0], perm=[0, 2, 1, 3])
        key = graph.step("Transpose", parts[1], perm=[0, 2, 3, 1])
        value = graph.step("Transpose", parts[2], perm=[0, 2, 1, 3])
        scores = graph.step("Mul", graph.step("MatMul", query, key), root)
        share = graph.step("Softmax", graph.step("Add", scores, mask), axis=-1)
        mixed = graph.step("Transpose", graph.step("MatMul", share, value), perm=[0, 2, 1, 3])
        mixed = dense(graph.step("Reshape", mixed, together), f"{layer}.attention.output.dense")
        x = norm(graph.step("Add", mixed, x), f"{layer}.attention.output")
        inner = dense(x, f"{layer}.intermediate.dense")
        erf = graph.step(
            "Erf", graph.step("Div", inner, graph.weight(np.array(2**0.5, np.float32)))
        )
        half = graph.step("Mul", inner, graph.weight(np.array(0.5, np.float32)))
        gelu = graph.step("Mul", half, graph.step("Add", erf, one))
        x = norm(graph.step("Add", dense(gelu, f"{layer}.output.dense"), x), f"{layer}.output")
    return graph.model(x)


def export(source: Path, target: Path, *, eight_bits: bool = True) -> None:
    """Write the folder that the provider onnx takes."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    network = build(load_file(source / "model.safetensors"), config)
    onnx.checker.check_model(network)
    (target / "onnx").mkdir(parents=True, exist_ok=True)
    for name in SETTINGS:
        if (source / name).is_file():
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)
    if not eight_bits:
        onnx.save(network, target / "onnx" / "model.onnx")
        return
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "model.onnx")
        onnx.save(network, whole)
        quantize_dynamic(
            whole,
            target / "onnx" / "model_quantized.onnx",
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Gather"],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="folder as sentence-transformers writes it")
    parser.add_argument("target", type=Path, help="folder for the provider onnx")
    parser.add_argument("--whole", action="store_true", help="keep 32 bits")
    options = parser.parse_args()
    export(options.source, options.target, eight_bits=not options.whole)


if __name__ == "__main__":
    main()
