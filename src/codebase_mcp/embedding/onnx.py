"""Embeds texts with a transformer in this process.

A folder in the layout of sentence-transformers, with the network in ONNX: `model.onnx` beside
`tokenizer.json`, or in `onnx/`. onnxruntime, an optional dependency, runs it. The network is loaded
with the first text. Passages are embedded by threads of the lowest priority, a core each, so that
queries and index runs go first.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.embedding.embedder import ModelFacts, Vectors, unit_rows
from codebase_mcp.embedding.providers import Recipe, input_format_of, onnx_files
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.processes import task_group
from codebase_mcp.telemetry.stopwatch import embedding_call

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

# Raise when the same text would get a different vector from the same files.
ONNX_VERSION = 1

# Texts of similar length go through the network together. Larger batches are slower, as the
# activations between two layers leave the cache of a core: 16 texts by a fifth.
BATCH_TEXTS = 4

# Half the cores of a small machine, two of a large machine: no user waits for passages.
PASSAGE_THREADS = max(1, min(2, (os.cpu_count() or 1) // 2))

LOWEST_PRIORITY = 19

# How much a network reads where its folder does not tell, and the largest number that is believed.
DEFAULT_TOKENS = 512
MOST_TOKENS = 8192

INSTALL = "pip install 'codebase-mcp[onnx]'"


@dataclass(frozen=True, slots=True)
class Layout:
    """What the files of a folder tell about its model."""

    name: str
    network: Path
    tokenizer: Path
    max_tokens: int
    is_cls: bool
    query_prefix: str
    passage_prefix: str

    @classmethod
    def read(cls, recipe: Recipe) -> Layout:
        """The layout of a folder, or of a single network file in it.

        Raises:
            EmbeddingUnavailable: a file is missing or invalid.
        """
        path = Path(recipe.model or "").expanduser().absolute()
        folder, networks = path, onnx_files(path)
        if path.suffix == ".onnx" and path.is_file():
            folder, networks = path.parent, [path]
            if folder.name == "onnx":
                folder = folder.parent
        if not recipe.model or not networks:
            raise _no_model(f"There is no ONNX model in {path}", recipe)
        tokenizer = folder / "tokenizer.json"
        if not tokenizer.is_file():
            raise _no_model(f"There is no {tokenizer}", recipe)
        pooling = _pooling(folder, recipe)
        limits = (
            _json(folder / "sentence_bert_config.json").get("max_seq_length"),
            _json(folder / "tokenizer_config.json").get("model_max_length"),
        )
        token_limits = [int(n) for n in limits if isinstance(n, int) and 0 < n <= MOST_TOKENS]
        prompts = _json(folder / "config_sentence_transformers.json").get("prompts") or {}
        form = input_format_of(folder.name)
        query, passage = recipe.query_prefix, recipe.passage_prefix
        return cls(
            folder.name,
            networks[0],
            tokenizer,
            token_limits[0] if token_limits else DEFAULT_TOKENS,
            pooling == "cls",
            (prompts.get("query") or form.query_prefix) if query is None else query,
            (prompts.get("document") or prompts.get("passage") or form.passage_prefix)
            if passage is None
            else passage,
        )

    def fingerprint(self) -> str:
        """What changes whenever the same text would get a different vector."""
        input_settings = [self.max_tokens, self.is_cls, self.query_prefix, self.passage_prefix]
        digest = sha256(json.dumps([ONNX_VERSION, *input_settings]).encode())
        for file in (self.network, self.tokenizer):
            with file.open("rb") as stream:
                while piece := stream.read(1 << 20):
                    digest.update(piece)
        return digest.hexdigest()[:16]


class OnnxEmbedder:
    """A transformer run by onnxruntime; it is loaded with the first text."""

    sends_texts: ClassVar[bool] = False

    def __init__(self, layout: Layout) -> None:
        self.name = f"onnx/{layout.name}"
        self._layout = layout
        self._network: _Network | None = None
        self._loading = threading.Lock()
        self._threads = ThreadPoolExecutor(
            PASSAGE_THREADS, thread_name_prefix="passages", initializer=_lower_priority
        )

    @classmethod
    def open(cls, recipe: Recipe) -> OnnxEmbedder:
        """The embedder of a folder.

        Raises:
            EmbeddingUnavailable: there is no such model, or onnxruntime is not installed.
        """
        layout = Layout.read(recipe)
        if find_spec("onnxruntime") is None:
            raise EmbeddingUnavailable(
                f"onnxruntime, which runs the model {layout.name}, is not installed",
                hint=f"{INSTALL}. Or unset CODEBASE_MCP_EMBEDDING_MODEL for the built-in model.",
                details={"model": layout.name},
            )
        return cls(layout)

    async def identify(self) -> ModelFacts:
        network = await asyncio.to_thread(self._loaded)
        return ModelFacts(self.name, network.fingerprint, network.dimension)

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        loop = asyncio.get_running_loop()
        with embedding_call("onnx", self._layout.name, len(texts)):
            network = await asyncio.to_thread(self._loaded)
            prefix = self._layout.passage_prefix
            vectors = np.zeros((len(texts), network.dimension), np.float32)

            async def fill(part: list[int]) -> None:
                batch = [prefix + texts[index] for index in part]
                vectors[part] = await loop.run_in_executor(self._threads, network.embed, batch)

            async with task_group() as group:
                for part in _batches(texts):
                    group.create_task(fill(part))
        return vectors

    async def embed_query(self, query: str) -> Vectors:
        def embedded() -> Vectors:
            network = self._loaded()
            if not query.strip():
                return np.zeros(network.dimension, np.float32)
            return network.embed([self._layout.query_prefix + query]).reshape(-1)

        with embedding_call("onnx", self._layout.name, 1):
            return await asyncio.to_thread(embedded)

    async def close(self) -> None:
        """Start no further batch; a running batch still takes a moment."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _loaded(self) -> _Network:
        with self._loading:
            if self._network is None:
                self._network = _Network.load(self._layout)
            return self._network


@dataclass(frozen=True, slots=True)
class _Network:
    """A loaded network with its tokenizer; it is safe to use from several threads."""

    session: InferenceSession
    tokenizer: Tokenizer
    layout: Layout
    fingerprint: str
    inputs: tuple[str, ...]
    dimension: int

    @classmethod
    def load(cls, layout: Layout) -> _Network:
        """Read the files and embed a first text.

        Raises:
            EmbeddingUnavailable: the files are not a usable model.
        """
        import onnxruntime  # noqa: PLC0415 - optional, and 0.2 s to import
        from tokenizers import Tokenizer  # noqa: PLC0415

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # errors are raised, too
        try:
            tokenizer = Tokenizer.from_file(str(layout.tokenizer))
            session = onnxruntime.InferenceSession(
                str(layout.network), options, providers=["CPUExecutionProvider"]
            )
            tokenizer.enable_truncation(layout.max_tokens)
            tokenizer.no_padding()
            inputs = tuple(node.name for node in session.get_inputs())
            network = cls(session, tokenizer, layout, layout.fingerprint(), inputs, 0)
            dimension = int(network.embed(["a"]).shape[1])
        except Exception as error:  # two libraries, neither documents its exceptions
            raise EmbeddingUnavailable(
                f"The model {layout.network} cannot be used: {error}",
                hint="It must be a sentence-transformers model in ONNX, with the inputs input_ids"
                " and attention_mask, and tokenizer.json must belong to it.",
                details={"model": layout.name},
            ) from error
        return cls(session, tokenizer, layout, network.fingerprint, inputs, dimension)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The unit vectors of some texts of similar length."""
        encodings = self.tokenizer.encode_batch(list(texts))
        width = max(1, max((len(encoding.ids) for encoding in encodings), default=1))
        ids = np.zeros((len(texts), width), np.int64)
        mask = np.zeros_like(ids)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding.ids)] = encoding.ids
            mask[row, : len(encoding.ids)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        outputs: list[Any] = self.session.run(None, {name: feeds[name] for name in self.inputs})
        pooled = _pooled(np.asarray(outputs[0], np.float32), mask, is_cls=self.layout.is_cls)
        return unit_rows(np.where(np.isfinite(pooled), pooled, 0))


def _pooled(hidden: NDArray[np.float32], mask: NDArray[np.int64], *, is_cls: bool) -> Vectors:
    """A vector per text from the vectors of its tokens, unless the network pools itself."""
    if hidden.ndim == 2:
        return hidden
    if is_cls:
        return hidden[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1))


def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """The indexes of texts, those of similar length together; blank texts are left out."""
    indexes = [index for index, text in enumerate(texts) if text.strip()]
    indexes.sort(key=lambda index: len(texts[index]))
    for first in range(0, len(indexes), BATCH_TEXTS):
        yield indexes[first : first + BATCH_TEXTS]


def _lower_priority() -> None:
    """Give this thread the lowest priority, on systems that support it for threads."""
    if hasattr(os, "setpriority"):
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        except OSError:
            return  # it keeps its normal priority


def _pooling(folder: Path, recipe: Recipe) -> str:
    """How a network pools: "mean" of its tokens' vectors, or "cls", the vector of the first token.

    Raises:
        EmbeddingUnavailable: the folder asks for another pooling.
    """
    config = _json(folder / "1_Pooling" / "config.json")
    if config.get("pooling_mode_cls_token"):
        return "cls"
    others = [
        name for name, is_on in config.items() if name.startswith("pooling_mode_") and is_on is True
    ]
    if others and "pooling_mode_mean_tokens" not in others:
        raise _no_model(f"The pooling of {folder} is neither mean nor cls: {others[0]}", recipe)
    return "mean"


def _json(file: Path) -> dict[str, Any]:
    """The content of a JSON file; empty where it is missing or invalid."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _no_model(message: str, recipe: Recipe) -> EmbeddingUnavailable:
    return EmbeddingUnavailable(
        message,
        hint="With the provider onnx, CODEBASE_MCP_EMBEDDING_MODEL takes a folder with"
        " model.onnx or onnx/model.onnx and tokenizer.json, as sentence-transformers exports it.",
        details={"model": recipe.model},
    )
