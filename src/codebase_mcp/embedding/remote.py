"""What is the vector of this text, when a service has to be asked for it?

Everything that Ollama and OpenAI-compatible services have in common: batches that overlap, texts
cut to what the model reads, answers held against what was asked, and one bad text found among
many. What is said over the wire is each provider's `EmbeddingApi`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from codebase_mcp.embedding.embedder import ModelFacts, Vectors, unit_rows
from codebase_mcp.embedding.endpoint import Endpoint
from codebase_mcp.embedding.failures import Failure, Kind, Patience
from codebase_mcp.embedding.refusals import PROBE, Row, Tally, rows_of
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.telemetry.calls import embedding_call

_log = logging.getLogger(__name__)

# Raise when the same text would reach a service, or come back from it, in another form.
REMOTE_VERSION = 1

# Somebody waits for a question's vector; a run may sit out a rate limit that counts by the minute.
QUESTION = Patience()
PASSAGES = Patience(max_wait_s=120.0, is_urgent=False)

# OpenAI takes 300,000 tokens in a request; code has two or three characters a token.
_MAX_CHARS_PER_REQUEST = 400_000


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model at a service, and in what form texts are sent to it."""

    provider: str
    model: str
    query_prefix: str
    passage_prefix: str
    max_chars: int

    @property
    def name(self) -> str:
        """The name to show."""
        return f"{self.provider}/{self.model}"

    def fingerprint(self, digest: str | None, dimension: int) -> str:
        """What changes whenever the same text would get another vector; not the address."""
        identity = json.dumps([REMOTE_VERSION, *astuple(self), digest, dimension])
        return hashlib.sha256(identity.encode()).hexdigest()[:16]


class EmbeddingApi(Protocol):
    """How one provider's services are spoken to."""

    words: ClassVar[Mapping[Kind, tuple[str, str]]]
    """What to say of each kind of failure, and what to do; ``broken`` is for those not named."""

    def request(self, model: str, texts: Sequence[str]) -> tuple[str, object]:
        """Path and body of the request to embed some texts."""
        ...

    def rows(self, answer: Any) -> list[Any]:
        """The vectors of an answer, in the order of the texts.

        Raises:
            ValueError: it is no answer to such a request.
        """
        ...

    async def digest(self, endpoint: Endpoint, model: str, patience: Patience) -> str | None:
        """What identifies the model's weights, where the service tells."""
        ...


class RemoteEmbedder:
    """A model that is asked over HTTP; nothing is asked before the first vector is needed."""

    def __init__(
        self,
        model: RemoteModel,
        api: EmbeddingApi,
        endpoint: Endpoint,
        *,
        batch_size: int = 50,
        question: Patience = QUESTION,
        passages: Patience = PASSAGES,
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
        """What the model is: asked until it is known, then known."""
        if self._facts is None:
            self._facts = await self._ask_for_facts()
        return self._facts

    async def reach(self) -> None:
        """Ask whether the service is there now, as far as it tells without embedding anything.

        Raises:
            EmbeddingUnavailable: it is away, or lacks the model.
        """
        await self.identify()
        try:
            await self._api.digest(self._endpoint, self._model.model, self._question)
        except Failure as failure:
            raise self._explained(failure) from None

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        prefix, limit = self._model.passage_prefix, self._model.max_chars
        return await self._embed([_cut(prefix, text, limit) for text in texts], self._passages)

    async def embed_query(self, query: str) -> Vectors:
        text = _cut(self._model.query_prefix, query, self._model.max_chars)
        vectors = await self._embed([text], self._question)
        return vectors.reshape(-1)

    async def close(self) -> None:
        await self._endpoint.close()

    async def _ask_for_facts(self) -> ModelFacts:
        try:
            with embedding_call(self._model.provider, self._model.model, 0):
                digest = await self._api.digest(self._endpoint, self._model.model, self._question)
            rows = await self._ask([PROBE], self._question)
        except Failure as failure:
            raise self._explained(failure) from None
        dimension = len(rows[0])
        if not self._checked(rows, dimension, Tally()).any():
            raise self._wrong("a vector without a direction")
        return ModelFacts(self.name, self._model.fingerprint(digest, dimension), dimension)

    async def _embed(self, texts: Sequence[str | None], patience: Patience) -> Vectors:
        """The vectors of texts that are ready to be sent; None is no text."""
        facts = await self.identify()
        vectors = np.zeros((len(texts), facts.dimension), np.float32)
        places = [place for place, text in enumerate(texts) if text is not None]
        tally = Tally()

        async def fill(part: list[int]) -> None:
            part_texts = [texts[place] or "" for place in part]
            rows = await rows_of(part_texts, self._ask, patience, tally)
            vectors[part] = self._checked(rows, facts.dimension, tally)

        lengths = [len(texts[place] or "") for place in places]
        try:
            async with asyncio.TaskGroup() as group:
                for start, end in batches(lengths, self._batch_size):
                    group.create_task(fill(places[start:end]))
            tally.judge()
        except BaseExceptionGroup as failures:  # the others were cancelled by the first
            raise self._explained(failures.exceptions[0]) from None
        except Failure as failure:
            raise self._explained(failure) from None
        self._report(tally)
        return vectors

    async def _ask(self, texts: Sequence[str], patience: Patience) -> list[Row]:
        with embedding_call(self._model.provider, self._model.model, len(texts)):
            return await self._answered(texts, patience)

    async def _answered(self, texts: Sequence[str], patience: Patience) -> list[Row]:
        path, body = self._api.request(self._model.model, texts)
        answer = await self._endpoint.ask("POST", path, body, texts=len(texts), patience=patience)
        try:
            rows = self._api.rows(answer)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Failure("the answer is not what its protocol says", status=200) from None
        if len(rows) != len(texts):
            raise Failure(f"{len(rows)} vectors for {len(texts)} texts", status=200)
        if not all(isinstance(row, list) and row for row in rows):
            raise Failure("the answer is not what its protocol says", status=200)
        return rows

    def _checked(self, rows: Sequence[Row], dimension: int, tally: Tally) -> Vectors:
        """Rows as unit vectors; zeros for an empty one, or one that is not finite.

        Raises:
            EmbeddingUnavailable: they are no vectors, or of another dimension.
        """
        other = next((row for row in rows if len(row) not in (0, dimension)), None)
        if other is not None:
            raise self._wrong(f"{len(other)} numbers for a text, where it had {dimension} before")
        try:
            table = np.array([row or [0.0] * dimension for row in rows], np.float64)
        except (ValueError, TypeError, OverflowError):
            table = np.zeros(0)
        if table.shape != (len(rows), dimension):
            raise self._wrong("something that is no vector")
        spoiled = ~(np.abs(table) < 1e30).all(axis=1)  # what is larger has no length either
        table[spoiled] = 0
        tally.spoil(int(spoiled.sum()))
        return unit_rows(table)

    def _wrong(self, what: str) -> EmbeddingUnavailable:
        return EmbeddingUnavailable(
            f"{self.name} answered with {what}",
            hint="If the model was replaced, start the server anew; then index_repository with"
            " force_reindex=true rebuilds the index with it.",
            details={"model": self.name, "address": self._endpoint.address},
        )

    def _explained(self, error: BaseException) -> BaseException:
        """A failure in the words of the provider; any other error as it is."""
        if not isinstance(error, Failure):
            return error
        words = self._api.words
        message, hint = words.get(error.kind, words["broken"])
        details: dict[str, object] = {"model": self.name, "address": self._endpoint.address}
        if error.status not in (None, 200):
            details["status"] = error.status
        if error.retry_after_s is not None:
            details["retry_after_seconds"] = round(error.retry_after_s)
        known = {"model": self._model.model, "address": self._endpoint.address, "failure": error}
        return EmbeddingUnavailable(
            message.format(**known), hint=hint.format(**known), details=details
        )

    def _report(self, tally: Tally) -> None:
        if tally.refused:
            _log.warning(
                "%s refused %d of %d texts (%s): they are found by their words only",
                self.name,
                tally.refused,
                tally.refused + tally.accepted,
                tally.last,
            )


def batches(lengths: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """Where to cut texts of these lengths: ``size`` in a request at most, and not too much text."""
    start, chars = 0, 0
    for place, length in enumerate(lengths):
        if place > start and (place - start == size or chars + length > _MAX_CHARS_PER_REQUEST):
            yield start, place
            start, chars = place, 0
        chars += length
    if start < len(lengths):
        yield start, len(lengths)


def _cut(prefix: str, text: str, max_chars: int) -> str | None:
    """A text as it is sent; None where there is nothing in it."""
    return prefix + text[:max_chars] if text[:max_chars].strip() else None
