"""Embeds texts without a neural network at run time.

A static model in Model2Vec format (https://github.com/MinishLab/model2vec): a table with a vector
per token (sub-word). A text's vector is ``unit(sum(sqrt(count) * weight * vector))`` over its
distinct tokens. The square root dampens repetition: measured at +0.02 to +0.03 NDCG over the plain
mean (``docs/search-quality.md``). The vector of a query is then adjusted by the model's thesaurus.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from codebase_mcp.embedding.embedder import ModelFacts, Passages, Vectors, unit_rows
from codebase_mcp.embedding.providers import BUILTIN, BUILTIN_NAME, StaticSource
from codebase_mcp.embedding.thesaurus import TokenIds, thesaurus_of
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.telemetry.stopwatch import embedding_call
from codebase_mcp.text.counting import Lexicon, WordTable
from codebase_mcp.text.tokens import MAX_WORD_CHARS, split_word, words_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Raise when pooling changes: the same table then gives different vectors.
POOLING_VERSION = 1

TokenTable = NDArray[np.float32] | NDArray[np.int8]


class StaticEmbedder:
    """A Model2Vec table, loaded from a folder with model.safetensors and tokenizer.json."""

    sends_texts: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        table: TokenTable,
        tokenizer: Tokenizer,
        fingerprint: str,
        folder: Path = BUILTIN,
        *,
        topic: NDArray[np.float32] | None = None,
        weights: Vectors | None = None,
    ) -> None:
        self.name = name
        self._topic_probe = topic
        self.source = StaticSource(folder, name)
        self.fingerprint = fingerprint
        self._token_table = table
        self._weights = weights
        self._vectors_made = 0
        self._tokenizer = tokenizer
        self._unknown = _unknown_ids(tokenizer)
        self._part_tokens = lru_cache(maxsize=100_000)(self._tokenize_part)
        self._word_table = WordTable(self._word_tokens)
        # A search needs the vector of its query up to three times.
        self.encode_query = lru_cache(maxsize=100)(self._encode_query)

    @classmethod
    def load(cls, folder: Path = BUILTIN, name: str = BUILTIN_NAME) -> StaticEmbedder:
        """Read a model folder.

        Raises:
            EmbeddingUnavailable: a file is missing or does not follow the format.
        """
        from safetensors import SafetensorError  # noqa: PLC0415 - heavy, and not for the handshake
        from safetensors.numpy import load_file  # noqa: PLC0415
        from tokenizers import Tokenizer  # noqa: PLC0415

        weights_file, tokenizer_file = folder / "model.safetensors", folder / "tokenizer.json"
        try:
            tensors = load_file(weights_file)
            tokenizer = Tokenizer.from_str(tokenizer_file.read_text(encoding="utf-8"))
            fingerprint = _fingerprint(weights_file, tokenizer_file)
            table, weights = _read_table(tensors)
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
    def folder(self) -> Path:
        return self.source.folder

    @property
    def dimension(self) -> int:
        return int(self._token_table.shape[1])

    @cached_property
    def _all_vectors(self) -> Vectors:
        """The weighted vectors of all tokens: 0.1 s of work, of which a search needs a tenth."""
        return np.ascontiguousarray(
            self._weighted(np.arange(len(self._token_table), dtype=np.int32))
        )

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
            return (
                self.encode_query(query) if thesaurus is None else thesaurus.rocchio_vector(query)
            )

    async def close(self) -> None:
        """There is nothing to close."""

    def encode_passages(self, passages: Passages) -> Vectors:
        """The unit vectors of passages whose words are already counted."""
        tokens = self._word_table.count(passages.bags)
        roots = np.sqrt(tokens.counts).astype(np.float32)
        vectors = np.zeros((len(tokens), self.dimension), np.float32)
        for row, (start, end) in enumerate(
            zip(tokens.starts[:-1].tolist(), tokens.starts[1:].tolist(), strict=True)
        ):
            if end > start:
                np.dot(
                    roots[start:end], self.token_vectors(tokens.items[start:end]), out=vectors[row]
                )
        return unit_rows(vectors)

    def _encode_query(self, query: str) -> Vectors:
        """The unadjusted unit vector of a query: a few microseconds, so it needs no thread."""
        tokens = Counter(self.token_ids(query))
        if not tokens:
            return np.zeros(self.dimension, np.float32)
        roots = np.sqrt(np.fromiter(tokens.values(), np.float32, len(tokens)))
        vector: Vectors = roots @ self.token_vectors(np.fromiter(tokens, np.int32, len(tokens)))
        return unit_rows(vector[None]).reshape(-1)

    def token_vectors(self, tokens: TokenIds) -> Vectors:
        """The weighted vectors of some tokens, a row each.

        Made on demand until the effort equals that of the whole table, which is then kept.
        """
        self._vectors_made += len(tokens)
        if self._vectors_made > len(self._token_table):
            return self._all_vectors.take(tokens, axis=0)  # faster than by an index
        return self._weighted(tokens)

    def _weighted(self, tokens: TokenIds) -> Vectors:
        rows = self._token_table[tokens].astype(np.float32)
        return rows if self._weights is None else rows * self._weights[tokens][:, None]

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens)
        return text

    def software_log_odds(self, query: str) -> float:
        """The log-odds that a query is about software; 0 where the model has no probe for it.

        A linear probe of the query's vector from ``topic.safetensors``: a weight per dimension and
        an intercept, fitted by logistic regression (``training/topic.py``).
        """
        if self._topic_probe is None:
            return 0.0
        return float(self.encode_query(query) @ self._topic_probe[:-1] + self._topic_probe[-1])

    def knows(self, word: str) -> bool:
        """Whether a lower-case word is a single token of the model's vocabulary."""
        return self._tokenizer.token_to_id(word) is not None

    def token_ids(self, text: str) -> list[int]:
        """The token ids of a text, in order."""
        return [token for word in words_of(text) for token in self._word_tokens(word)]

    def _word_tokens(self, word: str) -> list[int]:
        if len(word) > MAX_WORD_CHARS:
            return []
        return [token for part in split_word(word) for token in self._part_tokens(part)]

    def _tokenize_part(self, part: str) -> tuple[int, ...]:
        ids = self._tokenizer.encode(part, add_special_tokens=False).ids
        return tuple(i for i in ids if i not in self._unknown)


def _read_table(tensors: Mapping[str, TokenTable]) -> tuple[TokenTable, Vectors | None]:
    """The vectors by token id, and their weights; an int8 table needs no scale for unit vectors."""
    table = tensors["embeddings"]
    if table.dtype != np.int8:
        table = table.astype(np.float32)
    if "mapping" in tensors:  # a clustered vocabulary: token id to row
        table = table[tensors["mapping"].astype(np.int64)]
    return table, tensors["weights"].astype(np.float32) if "weights" in tensors else None


def _unknown_ids(tokenizer: Tokenizer) -> frozenset[int]:
    ids = (tokenizer.token_to_id(token) for token in ("[UNK]", "<unk>"))
    return frozenset(i for i in ids if i is not None)


def _fingerprint(*files: Path) -> str:
    digest = sha256(f"static pooling {POOLING_VERSION}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
