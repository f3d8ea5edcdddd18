"""A service that embeds, and embedders that do not wait long for it."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.embedding_server import EmbeddingServer, vector_of

from codebase_mcp.embedding.endpoint import Endpoint, RetryPolicy
from codebase_mcp.embedding.providers import Recipe, ServiceAccess, input_format_of
from codebase_mcp.embedding.remote import RemoteEmbedder, RemoteModel
from codebase_mcp.embedding.services import OllamaApi, OpenAIApi

KEY = "sk-very-secret-0123456789"

MakeEmbedder = Callable[..., RemoteEmbedder]

_WORDS = "parse json file retry network socket cache memory index search token user".split()
TEXTS = [f"def {a}_{b}(): pass" for a in _WORDS for b in _WORDS[:3]]


def chosen(
    provider: Any = "static",
    model: str | None = None,
    url: str | None = None,
    *,
    api_key: str | None = None,
    batch_size: int = 50,
    **prefixes: str | None,
) -> tuple[Recipe, ServiceAccess]:
    """A model, and how its service is reached."""
    urls = {} if url is None else {provider: url}
    keys = {} if api_key is None else {provider: api_key}
    return Recipe(provider, model, **prefixes), ServiceAccess(urls, keys, batch_size)


def unit(text: str) -> NDArray[np.float64]:
    """The vector that the service's model has for a text, of length 1."""
    vector = vector_of(text)
    return vector / np.linalg.norm(vector)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was worth a warning in the log."""
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own proxy is nothing to these tests."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer() as server:
        yield server


@pytest.fixture(params=["ollama", "openai"])
def provider(request: pytest.FixtureRequest) -> str:
    """For what holds of each protocol."""
    return str(request.param)


@pytest.fixture
async def make_embedder(anyio_backend: str, server: EmbeddingServer) -> AsyncIterator[MakeEmbedder]:
    """An embedder of a provider at the server, impatient unless told otherwise."""
    made = []

    def make(
        provider: str,
        *,
        model: str | None = None,
        batch_size: int = 4,
        timeout_s: float = 30.0,
        max_wait_s: float = 10.0,
    ) -> RemoteEmbedder:
        if provider == "ollama":
            name, api = model or "nomic-embed-text", OllamaApi()
            endpoint = Endpoint(server.url, timeout_s=timeout_s)
        else:
            name, api = model or "text-embedding-3-small", OpenAIApi()
            endpoint = Endpoint(server.openai_url, api_key=KEY, timeout_s=timeout_s)
        known = input_format_of(name)
        embedder = RemoteEmbedder(
            RemoteModel(provider, name, known.query_prefix, known.passage_prefix, known.max_chars),
            api,
            endpoint,
            batch_size=batch_size,
            question=RetryPolicy(first_delay_s=0.001, max_wait_s=max_wait_s),
            passages=RetryPolicy(first_delay_s=0.001, max_wait_s=max_wait_s, is_urgent=False),
        )
        made.append(embedder)
        return embedder

    yield make
    for embedder in made:
        await embedder.close()
