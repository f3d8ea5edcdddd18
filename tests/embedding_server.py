"""A server in this process that embeds as Ollama and OpenAI document it, faults on demand.

    async with EmbeddingServer() as server:
        server.faults.append(status(500))        # the next request to embed fails, then all is well
        server.bad_words.add("poison")           # a batch with such a text is refused
        ...OLLAMA_BASE_URL=server.url, or server.openai_url
        server.texts                             # everything that it was asked to embed

Its model knows words: a text's vector is the sum of its words' vectors, `SYNONYMS` share one, and
words without any meaning for code have none. So related texts are near each other, others are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

MODELS = {
    "nomic-embed-text:latest": "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f",
    "text-embedding-3-small": "",
}

SYNONYMS = {
    "login": "authenticate",
    "signin": "authenticate",
    "credentials": "password",
    "remove": "delete",
    "erase": "delete",
    "picture": "image",
    "quick": "fast",
}

_EMBEDDING = ("/api/embed", "/v1/embeddings")  # Ollama's, OpenAI's

_STOP_WORDS = frozenset(
    "a an and are as at be by can def do does for from how i if in is it my not of on or our return"
    " self so that the this to use was we what when where which who why will with you".split()
)
_PREFIX = re.compile(r"^(search_query|search_document|query|passage): ")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one request to embed."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    """Sent instead of the answer: bytes as they are, anything else as JSON."""
    hangs: bool = False
    """No answer until the server is closed."""
    sent_share: float = 1.0
    """How much of the answer is sent before the connection is cut."""
    dimension: int | None = None
    value: float | None = None
    """Every number of the first vector."""
    missing: int = 0
    """So many vectors too few."""


HANG = Fault(hangs=True)
CUT = Fault(sent_share=0.5)
NO_ANSWER = Fault(sent_share=0.0)
NONSENSE = Fault(body=b"<html>It works!</html>")
NOT_FINITE = Fault(value=float("nan"))
ONE_TOO_FEW = Fault(missing=1)


def status(code: int, message: str = "something broke", **headers: str) -> Fault:
    """An answer with a status and the error shape of either protocol; ``Retry_After="1"``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Fault(status=code, headers=named, body={"error": {"message": message}})


def rate_limited(retry_after: str) -> Fault:
    """429 with how long to wait: seconds, or a date."""
    return status(429, "Rate limit reached", Retry_After=retry_after)


@dataclass(frozen=True, slots=True)
class Request:
    """What came in. ``headers`` have lower-case names."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        """What was to be embedded."""
        body = self.body if isinstance(self.body, dict) else {}
        return list(body.get("input", body.get("inputs", ())))


class EmbeddingServer:
    """All protocols at one port; change its attributes at any time."""

    def __init__(self, dimension: int = 96) -> None:
        self.dimension = dimension
        self.models = dict(MODELS)
        self.api_key: str | None = None
        """The key that OpenAI's protocol asks for; None lets everybody in."""
        self.faults: list[Fault] = []
        """One for each of the next requests to embed."""
        self.always: Fault | None = None
        """For every request to embed that no fault of the list takes."""
        self.tags: Fault | None = None
        """For every request for Ollama's models."""
        self.bad_words: set[str] = set()
        """A request with one of them in a text is refused, as if it were too much for the model."""
        self.bad_status = 400
        self.context_chars: int | None = None
        """A request with a longer text is refused, as Ollama does since 0.13.5."""
        self.requests: list[Request] = []
        self.running = 0
        self.most_at_once = 0
        self.released = asyncio.Event()
        """Clear it, and requests to embed wait until it is set."""
        self.released.set()
        self.arrived = asyncio.Condition()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address for Ollama's protocol."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """The address for OpenAI's protocol."""
        return f"{self.url}/v1"

    @property
    def embeddings(self) -> list[Request]:
        """The requests to embed, in the order in which they came."""
        return [r for r in self.requests if r.path in _EMBEDDING]

    @property
    def texts(self) -> list[str]:
        """Every text that it was asked to embed, prefixes included."""
        return [text for request in self.embeddings for text in request.texts]

    async def __aenter__(self) -> EmbeddingServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; at the same port as before, if it has been stopped."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Be away: cut all connections, answer nobody."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def until_running(self, count: int) -> None:
        """Wait until so many requests to embed are under way."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: self.running >= count)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass  # by stop(); asyncio's streams would log it as an error
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False where the connection ends with it."""
        request = await _read(reader)
        self.requests.append(request)
        if request.path not in _EMBEDDING:
            writer.write(_http(*self._other(request)))
            return True
        fault = self.faults.pop(0) if self.faults else self.always or Fault()
        async with self._counted():
            await self.released.wait()
            if fault.hangs:
                await reader.read()  # until the client gives up
                return False
            reply = _http(*self._embed(request, fault))
        writer.write(reply[: int(len(reply) * fault.sent_share)])
        await writer.drain()
        return fault.sent_share == 1.0

    @contextlib.asynccontextmanager
    async def _counted(self) -> Any:
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        async with self.arrived:
            self.arrived.notify_all()
        try:
            yield
        finally:
            self.running -= 1

    def _embed(self, request: Request, fault: Fault) -> tuple[int, object, Mapping[str, str]]:
        if fault.body is not None:
            return fault.status, fault.body, fault.headers
        refusal = self._refusal(request)
        if refusal is not None:
            return (*refusal, {})
        dimension = fault.dimension or self.dimension
        vectors = [vector_of(text, dimension).tolist() for text in request.texts]
        if fault.value is not None:
            vectors[0] = [fault.value] * dimension
        vectors = vectors[: len(vectors) - fault.missing]
        name = request.body["model"]
        if request.path == "/api/embed":
            return fault.status, {"model": name, "embeddings": vectors}, fault.headers
        rows = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(vectors)
        ]
        rows.reverse()  # the order is what ``index`` says
        reply = {"object": "list", "model": name, "data": rows, "usage": {"total_tokens": 1}}
        return fault.status, reply, fault.headers

    def _refusal(self, request: Request) -> tuple[int, object] | None:
        """What is wrong with a request to embed, in the words of its protocol."""
        is_ollama = request.path == "/api/embed"
        name = request.body.get("model", "text-embedding-3-small")
        if not is_ollama and self.api_key is not None:
            given = request.headers.get("authorization", "")
            if given != f"Bearer {self.api_key}":
                return 401, _openai_error(f"Incorrect API key provided: {given}", "invalid_api_key")
        if name not in self.models and f"{name}:latest" not in self.models:
            if is_ollama:
                return 404, {"error": f'model "{name}" not found, try pulling it first'}
            message = f"The model `{name}` does not exist or you do not have access to it."
            return 404, _openai_error(message, "model_not_found")
        message = self._objection(request.texts)
        if message is None:
            return None
        return self.bad_status, {"error": message} if is_ollama else _openai_error(message, None)

    def _objection(self, texts: Iterable[str]) -> str | None:
        for text in texts:
            if not text:
                return "input cannot be an empty string"
            if any(word in text for word in self.bad_words):
                return "cannot decode batch"
            if self.context_chars is not None and len(text) > self.context_chars:
                return "the input length exceeds the context length"
        return None

    def _other(self, request: Request) -> tuple[int, object, Mapping[str, str]]:
        match request.path:
            case "/api/tags" if self.tags is not None:
                return self.tags.status, self.tags.body, self.tags.headers
            case "/api/tags":
                models = [
                    {"name": name, "model": name, "digest": digest, "size": 1}
                    for name, digest in self.models.items()
                ]
                return 200, {"models": models}, {}
            case "/v1/models":
                rows = [{"id": name, "object": "model"} for name in self.models]
                return 200, {"object": "list", "data": rows}, {}
        return 404, b"404 page not found", {}


def vector_of(text: str, dimension: int = 96) -> NDArray[np.float64]:
    """The vector of a text, not scaled to length 1; the same in every run."""
    words = (word.lower() for word in _WORD.findall(_PREFIX.sub("", text)))
    vectors = [
        _word_vector(SYNONYMS.get(word, word), dimension)
        for word in words
        if word not in _STOP_WORDS
    ]
    total: NDArray[np.float64] = np.sum(vectors, axis=0) if vectors else np.zeros(dimension)
    return total


@lru_cache(maxsize=100_000)
def _word_vector(word: str, dimension: int) -> NDArray[np.float64]:
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(dimension)


def _openai_error(message: str, code: str | None) -> object:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, json.loads(content) if content else None)


def _http(code: int, body: object, headers: Mapping[str, str]) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {code} -", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content
