"""What is the vector of this text, without a neural network at run time?

A static model in Model2Vec format: a table of one vector per sub-word. A text's vector is the sum
of its sub-words' vectors, each times the square root of its count and its stored weight, scaled to
length 1. (The square root: a word said ten times is not ten times as telling; measured at +0.02 to
+0.03 NDCG over the plain mean, see ``docs/search-quality.md``.) A question's vector is then turned
towards the names that code has for what is asked, where the model comes with a thesaurus.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.counting import Lexicon, WordTable
from codebase_mcp.embedding.embedder import ModelFacts, Passages, Vectors
from codebase_mcp.embedding.thesaurus import thesaurus_of
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.telemetry.calls import embedding_call
from codebase_mcp.tokens import MAX_WORD_CHARS, split_word, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Raise when pooling changes: the same table then gives other vectors.
POOLING_VERSION = 1

Stored = NDArray[np.float32] | NDArray[np.int8]
Tokens = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.uint16]

BUILTIN = Path(__file__).parent / "builtin"


@dataclass(frozen=True, slots=True)
class StaticSource:
    """Where a worker process loads a model from."""

    folder: Path
    name: str

    def __call__(self) -> StaticEmbedder:
        return StaticEmbedder.load(self.folder, self.name)


class StaticEmbedder:
    """A Model2Vec table, loaded from a folder with model.safetensors and tokenizer.json."""

    def __init__(
        self,
        name: str,
        table: Stored,
        tokenizer: Tokenizer,
        fingerprint: str,
        folder: Path = BUILTIN,
        *,
        topic: NDArray[np.float32] | None = None,
        weights: Vectors | None = None,
    ) -> None:
        self.name = name
        self._topic = topic
        self.source = StaticSource(folder, name)
        self.fingerprint = fingerprint
        self._stored = table
        self._weights = weights
        self._rows_made = 0
        self._tokenizer = tokenizer
        self._unknown = _unknown_ids(tokenizer)
        self._part_tokens = lru_cache(maxsize=100_000)(self._tokenize_part)
        self._word_table = WordTable(self._word_tokens)
        # A search asks for the vector of its question up to three times.
        self.encode_query = lru_cache(maxsize=100)(self._encode_query)

    @classmethod
    def load(cls, folder: Path = BUILTIN, name: str = "builtin") -> StaticEmbedder:
        """Read a model folder.

        Raises:
            EmbeddingUnavailable: a file is missing or is not what the format says.
        """
        from safetensors import SafetensorError  # noqa: PLC0415 - heavy, and not for the handshake
        from safetensors.numpy import load_file  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        weights_file, tokenizer_file = folder / "model.safetensors", folder / "tokenizer.json"
        try:
            tensors = load_file(weights_file)
            tokenizer = Tokenizer.from_str(tokenizer_file.read_text(encoding="utf-8"))
            fingerprint = _fingerprint(weights_file, tokenizer_file)
            table, weights = _stored(tensors)
            topic_file = folder / "topic.safetensors"
            topic = load_file(topic_file)["topic"] if topic_file.is_file() else None
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise EmbeddingUnavailable(
                f"The embedding model in {folder} cannot be read: {error}",
                hint="A Model2Vec folder holds model.safetensors (with a tensor 'embeddings') "
                "and tokenizer.json.",
                details={"model": name},
            ) from error
        return cls(name, table, tokenizer, fingerprint, folder, topic=topic, weights=weights)

    @property
    def dimension(self) -> int:
        return int(self._stored.shape[1])

    @cached_property
    def _table(self) -> Vectors:
        """All rows: 0.1 s, which a single search does not spend; it needs a tenth of them."""
        return np.ascontiguousarray(self._weighted(np.arange(len(self._stored), dtype=np.int32)))

    async def identify(self) -> ModelFacts:
        return ModelFacts(self.name, self.fingerprint, self.dimension)

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        with embedding_call("static", self.name, len(texts)):
            return await asyncio.to_thread(
                lambda: self.encode_passages(Passages(texts, Lexicon().bags(texts)))
            )

    async def embed_query(self, query: str) -> Vectors:
        with embedding_call("static", self.name, 1):
            thesaurus = thesaurus_of(self)
            return self.encode_query(query) if thesaurus is None else thesaurus.turned(query)

    async def close(self) -> None:
        """Nothing is open."""

    def encode_passages(self, passages: Passages) -> Vectors:
        """The vectors of passages whose words are counted."""
        tokens = self._word_table.count(passages.bags)
        roots = np.sqrt(tokens.counts).astype(np.float32)
        vectors = np.zeros((len(tokens), self.dimension), np.float32)
        for row, (start, end) in enumerate(
            zip(tokens.starts[:-1].tolist(), tokens.starts[1:].tolist(), strict=True)
        ):
            if end > start:
                np.dot(roots[start:end], self.rows(tokens.items[start:end]), out=vectors[row])
        return _unit(vectors)

    def _encode_query(self, query: str) -> Vectors:
        """The vector of a question; some microseconds, so no thread is worth it."""
        tokens = Counter(self.pieces(query))
        if not tokens:
            return np.zeros(self.dimension, np.float32)
        roots = np.sqrt(np.fromiter(tokens.values(), np.float32, len(tokens)))
        vector: Vectors = roots @ self.rows(np.fromiter(tokens, np.int32, len(tokens)))
        return _unit(vector[None]).reshape(-1)

    def rows(self, tokens: Tokens) -> Vectors:
        """The weighted vectors of some tokens, one row each: a text's is their sum, of length 1.

        They are made on demand until that has taken as long as making the whole table takes.
        """
        self._rows_made += len(tokens)
        if self._rows_made > len(self._stored):
            return self._table[tokens]
        return self._weighted(tokens)

    def _weighted(self, tokens: Tokens) -> Vectors:
        rows = self._stored[tokens].astype(np.float32)
        return rows if self._weights is None else rows * self._weights[tokens][:, None]

    def text_of(self, tokens: Sequence[int]) -> str:
        """The words that some tokens were read from, in order."""
        text: str = self._tokenizer.decode(tokens)
        return text

    def topic(self, query: str) -> float:
        """How much a question is about software at all: log odds, 0 where the model cannot say.

        A linear probe of the question's vector, from ``topic.safetensors``: one weight a dimension
        and a constant (``training/topic.py``).
        """
        if self._topic is None:
            return 0.0
        return float(self.encode_query(query) @ self._topic[:-1] + self._topic[-1])

    def knows(self, word: str) -> bool:
        """Whether a word, in lower case, is one in the model's vocabulary, whole."""
        return self._tokenizer.token_to_id(word) is not None

    def pieces(self, text: str) -> list[int]:
        """The sub-words that the words of a text are read as, in order, by number."""
        return [token for word in words_of(text) for token in self._word_tokens(word)]

    def _word_tokens(self, word: str) -> list[int]:
        if len(word) > MAX_WORD_CHARS:
            return []
        return [token for part in split_word(word) for token in self._part_tokens(part)]

    def _tokenize_part(self, part: str) -> tuple[int, ...]:
        ids = self._tokenizer.encode(part, add_special_tokens=False).ids
        return tuple(i for i in ids if i not in self._unknown)


def _stored(tensors: Mapping[str, Stored]) -> tuple[Stored, Vectors | None]:
    """The vectors by token id, and their weights; int8 tables need no scale (see `_unit`)."""
    table = tensors["embeddings"]
    if table.dtype != np.int8:
        table = table.astype(np.float32)
    if "mapping" in tensors:  # a clustered vocabulary: token id to row
        table = table[tensors["mapping"].astype(np.int64)]
    return table, tensors["weights"].astype(np.float32) if "weights" in tensors else None


def _unknown_ids(tokenizer: Tokenizer) -> frozenset[int]:
    found = (tokenizer.token_to_id(token) for token in ("[UNK]", "<unk>"))
    return frozenset(i for i in found if i is not None)


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


def _fingerprint(*files: Path) -> str:
    digest = sha256(f"static pooling {POOLING_VERSION}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
