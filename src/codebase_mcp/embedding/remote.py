"""Embeds texts with an embedding service.

The common part of Ollama and OpenAI-compatible services: concurrent batches, texts truncated to
the model's input length, validated responses, and isolation of a text that a service refuses.
Requests and responses themselves are the business of each provider's `EmbeddingApi`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from codebase_mcp.embedding.embedder import ModelFacts, Vectors, as_sent, unit_rows
from codebase_mcp.embedding.endpoint import Endpoint, Failure, FailureKind, RetryPolicy
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.processes import task_group
from codebase_mcp.telemetry.stopwatch import embedding_call

_log = logging.getLogger(__name__)

# Raise when the same text would be sent in a different form, or its vector read differently.
REMOTE_VERSION = 1

# A user waits for the vector of a query; an index run can wait for a rate limit per minute.
QUERY_POLICY = RetryPolicy()
PASSAGE_POLICY = RetryPolicy(max_wait_s=120.0, is_urgent=False)

# OpenAI accepts 300,000 tokens per request; code has two or three characters per token.
_MAX_CHARS_PER_REQUEST = 400_000

# A token that no service refuses: shows the dimension, and whether the service works at all.
PROBE = "text"

# Ten texts refused and none accepted: the service is at fault, not the texts.
_MAX_REFUSED = 10

# A text that is refused at this length is given up.
_MIN_CHARS = 200

Row = Sequence[float]


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model of a service, and the form in which texts are sent to it."""

    provider: str
    model: str
    query_prefix: str
    passage_prefix: str
    max_chars: int

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    def fingerprint(self, digest: str | None, dimension: int) -> str:
        """What changes whenever the same text would get a different vector; not the address."""
        identity = json.dumps([REMOTE_VERSION, *astuple(self), digest, dimension])
        return hashlib.sha256(identity.encode()).hexdigest()[:16]


class EmbeddingApi(Protocol):
    """The HTTP API of a provider's services."""

    messages: ClassVar[Mapping[FailureKind, tuple[str, str]]]
    """Message and hint for each kind of failure; ``service_error`` for kinds not listed."""

    def embed_request(self, model: str, texts: Sequence[str]) -> tuple[str, object]: ...

    def parse_vectors(self, answer: Any) -> list[Any]:
        """The vectors of a response, in the order of the texts.

        Raises:
            ValueError: the response is invalid.
        """
        ...

    async def model_digest(self, endpoint: Endpoint, model: str, policy: RetryPolicy) -> str | None:
        """What identifies the model's weights; None where the service does not tell."""
        ...


@dataclass(slots=True)
class _Refusals:
    """How many texts of a call were accepted and refused."""

    accepted: int = 0
    refused: int = 0
    last_failure: Failure | None = None

    def check(self) -> None:
        """Check that the service accepts some texts.

        Raises:
            Failure: many texts were refused and none accepted.
        """
        if self.last_failure is not None and self.refused >= _MAX_REFUSED and not self.accepted:
            raise self.last_failure


class RemoteEmbedder:
    """A model behind HTTP; no request is sent before the first vector is needed."""

    sends_texts: ClassVar[bool] = True

    def __init__(
        self,
        model: RemoteModel,
        api: EmbeddingApi,
        endpoint: Endpoint,
        *,
        batch_size: int = 50,
        question: RetryPolicy = QUERY_POLICY,
        passages: RetryPolicy = PASSAGE_POLICY,
    ) -> None:
        self._model = model
        self._api = api
        self._endpoint = endpoint
        self._batch_size = batch_size
        self._question = question
        self._passages = passages
        self._facts: ModelFacts | None = None

    @property
    def name(self) -> str:
        return self._model.name

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self.name!r}, {self._endpoint!r})"

    async def identify(self) -> ModelFacts:
        """The facts about the model, requested until the service responds, then kept."""
        if self._facts is None:
            self._facts = await self._ask_for_facts()
        return self._facts

    async def check(self) -> None:
        """Check that the service responds now, if it can be checked without embedding.

        Raises:
            EmbeddingUnavailable: the service is unreachable, or lacks the model.
        """
        await self.identify()
        try:
            await self._api.model_digest(self._endpoint, self._model.model, self._question)
        except Failure as failure:
            raise self._user_error(failure) from None

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        prefix, limit = self._model.passage_prefix, self._model.max_chars
        return await self._embed([_prepared(prefix, text, limit) for text in texts], self._passages)

    async def embed_query(self, query: str) -> Vectors:
        # Passages were masked when they were read.
        question = await as_sent(self, query)
        text = _prepared(self._model.query_prefix, question, self._model.max_chars)
        vectors = await self._embed([text], self._question)
        return vectors.reshape(-1)

    async def close(self) -> None:
        await self._endpoint.close()

    async def _ask_for_facts(self) -> ModelFacts:
        try:
            with embedding_call(self._model.provider, self._model.model, 0):
                digest = await self._api.model_digest(
                    self._endpoint, self._model.model, self._question
                )
            rows = await self._ask([PROBE], self._question)
        except Failure as failure:
            raise self._user_error(failure) from None
        dimension = len(rows[0])
        if not self._unit_vectors(rows, dimension, _Refusals()).any():
            raise self._invalid_answer("a vector of zeros")
        return ModelFacts(self.name, self._model.fingerprint(digest, dimension), dimension)

    async def _embed(self, texts: Sequence[str | None], policy: RetryPolicy) -> Vectors:
        """The vectors of prepared texts; None stands for an empty text, which has zeros."""
        facts = await self.identify()
        vectors = np.zeros((len(texts), facts.dimension), np.float32)
        indexes = [index for index, text in enumerate(texts) if text is not None]
        refusals = _Refusals()

        async def fill(part: list[int]) -> None:
            part_texts = [texts[index] or "" for index in part]
            rows = await self._ask_halving(part_texts, policy, refusals)
            vectors[part] = self._unit_vectors(rows, facts.dimension, refusals)

        lengths = [len(texts[index] or "") for index in indexes]
        try:
            async with task_group() as group:  # a failure cancels the remaining batches
                for start, end in batches(lengths, self._batch_size):
                    group.create_task(fill(indexes[start:end]))
            refusals.check()
        except Failure as failure:
            raise self._user_error(failure) from None
        if refusals.refused:
            _log.warning(
                "%s refused %d of %d texts (%s): search finds them by their words only",
                self.name,
                refusals.refused,
                refusals.refused + refusals.accepted,
                refusals.last_failure,
            )
        return vectors

    async def _ask_halving(
        self,
        texts: Sequence[str],
        policy: RetryPolicy,
        refusals: _Refusals,
        *,
        is_first: bool = True,
    ) -> list[Row]:
        """The rows of a batch; the row of a refused text is empty.

        A refused batch is bisected until a single text is left. That text is halved until it is
        accepted: it may be longer than the model reads, and not every service truncates by itself.

        Raises:
            Failure: the service is unreachable, or refuses every text.
        """
        try:
            rows = await self._ask(texts, policy)
        except Failure as failure:
            if not failure.may_be_caused_by_text:
                raise
            if is_first:
                await self._ask([PROBE], policy)  # tells a refused text from a broken service
                policy = replace(policy, max_attempts=2)
            middle = len(texts) // 2
            shorter = texts[0][: len(texts[0]) // 2]
            if middle:
                parts = [texts[:middle], texts[middle:]]
            elif len(shorter) >= _MIN_CHARS:
                parts = [[shorter]]
            else:
                refusals.refused, refusals.last_failure = refusals.refused + 1, failure
                refusals.check()
                return [()]
            return [
                row
                for part in parts
                for row in await self._ask_halving(part, policy, refusals, is_first=False)
            ]
        refusals.accepted += len(rows)
        return rows

    async def _ask(self, texts: Sequence[str], policy: RetryPolicy) -> list[Row]:
        path, body = self._api.embed_request(self._model.model, texts)
        with embedding_call(self._model.provider, self._model.model, len(texts)):
            answer = await self._endpoint.ask("POST", path, body, texts=len(texts), policy=policy)
            try:
                rows = self._api.parse_vectors(answer)
            except (ValueError, KeyError, TypeError, AttributeError):
                rows = [None] * len(texts)
            if len(rows) != len(texts):
                raise Failure(f"{len(rows)} vectors for {len(texts)} texts", status=200)
            if not all(isinstance(row, list) and row for row in rows):
                raise Failure("the response does not follow the protocol", status=200)
            return rows

    def _unit_vectors(self, rows: Sequence[Row], dimension: int, refusals: _Refusals) -> Vectors:
        """Rows as unit vectors; zeros for an empty or infinite row.

        Raises:
            EmbeddingUnavailable: the rows are not vectors, or of another dimension.
        """
        mismatch = next((row for row in rows if len(row) not in (0, dimension)), None)
        if mismatch is not None:
            raise self._invalid_answer(
                f"{len(mismatch)} numbers for a text, where it had {dimension} before"
            )
        try:
            table = np.array([row or [0.0] * dimension for row in rows], np.float64)
        except (ValueError, TypeError, OverflowError):
            table = np.zeros(0)
        if table.shape != (len(rows), dimension):
            raise self._invalid_answer("an invalid vector")
        invalid = ~(np.abs(table) < 1e30).all(axis=1)  # the norm of a larger number overflows
        table[invalid] = 0
        if number := int(invalid.sum()):
            refusals.accepted -= number
            refusals.refused += number
            refusals.last_failure = Failure(
                "a vector that is not finite", status=200, kind="service_error"
            )
        return unit_rows(table)

    def _invalid_answer(self, what: str) -> EmbeddingUnavailable:
        return EmbeddingUnavailable(
            f"{self.name} answered with {what}",
            hint="If the model was replaced, restart the server. Then index_repository with"
            " force_reindex=true rebuilds the index with it.",
            details={"model": self.name, "address": self._endpoint.address},
        )

    def _user_error(self, error: Failure) -> EmbeddingUnavailable:
        """A failure with the provider's message and hint."""
        messages = self._api.messages
        message, hint = messages.get(error.kind, messages["service_error"])
        details: dict[str, object] = {"model": self.name, "address": self._endpoint.address}
        if error.status not in (None, 200):
            details["status"] = error.status
        if error.retry_after_s is not None:
            details["retry_after_seconds"] = round(error.retry_after_s)
        values = {"model": self._model.model, "address": self._endpoint.address, "failure": error}
        return EmbeddingUnavailable(
            message.format(**values), hint=hint.format(**values), details=details
        )


def batches(lengths: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """The ranges of texts for a request each: at most ``size`` texts, and not too long."""
    start, chars = 0, 0
    for index, length in enumerate(lengths):
        if index > start and (index - start == size or chars + length > _MAX_CHARS_PER_REQUEST):
            yield start, index
            start, chars = index, 0
        chars += length
    if start < len(lengths):
        yield start, len(lengths)


def _prepared(prefix: str, text: str, max_chars: int) -> str | None:
    """A text as it is sent; None for a blank text."""
    return prefix + text[:max_chars] if text[:max_chars].strip() else None
