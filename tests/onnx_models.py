"""Folders with real, tiny networks in ONNX, as sentence-transformers lays them out.

A network looks its tokens up in a table and hands their vectors on: what is made of these, and all
that comes before, is the embedder's own work.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

WORDS = ("[PAD]", "[UNK]", "[CLS]", *"login authenticate password delete erase file user".split())
DIMENSION = 8

# What means the same to these networks.
SAME = {"login": "authenticate", "erase": "delete"}


def table() -> NDArray[np.float32]:
    """A vector for each word; none for padding, and words of one meaning share theirs."""
    vectors = np.random.default_rng(7).standard_normal((len(WORDS), DIMENSION)).astype(np.float32)
    vectors[WORDS.index("[PAD]")] = 50.0  # whoever counts padding is found out
    for word, meaning in SAME.items():
        vectors[WORDS.index(word)] = vectors[WORDS.index(meaning)]
    return vectors


def make_folder(folder: Path, file: str = "onnx/model.onnx", **settings: Any) -> Path:
    """A folder with such a network; ``settings`` are files by the stem of their name."""
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    shape: list[Any] = ["texts", "tokens"]
    graph = helper.make_graph(
        [
            # The mask is asked for as by any network; here it changes nothing.
            helper.make_node("Mul", ["input_ids", "attention_mask"], ["seen"]),
            helper.make_node("Gather", ["table", "seen"], ["last_hidden_state"]),
        ],
        "words",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask")
        ],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, [*shape, DIMENSION]
            )
        ],
        [numpy_helper.from_array(table(), "table")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / file)
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", WORDS.index("[CLS]"))]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in settings.items():
        place = folder / ("1_Pooling/config.json" if name == "pooling" else f"{name}.json")
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(content))
    return folder
