"""An embedding service, and processes that use it as their secondary model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests import embedding_server
from tests.embedding_server import EmbeddingServer
from tests.integration.secondary_models import UNHEARD_OF

from codebase_mcp.app.app import App
from codebase_mcp.search import secondary
from codebase_mcp.settings.loading import Settings


@pytest.fixture
async def server(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EmbeddingServer]:
    """A service that a busy machine has time to ask during a search."""
    monkeypatch.setattr(secondary, "WAIT_S", 60.0)
    monkeypatch.setitem(embedding_server.SYNONYMS, UNHEARD_OF, "authenticate")
    async with EmbeddingServer(dimension=768) as server:
        yield server


@pytest.fixture
def ollama(settings: Settings, server: EmbeddingServer) -> Settings:
    """Settings with that service as the secondary model; each request has one text."""
    return replace(settings, ollama_url=server.url, embedding_batch_size=1)


@pytest.fixture
def openai(settings: Settings, server: EmbeddingServer) -> Settings:
    """Another model of the same service."""
    return replace(
        settings,
        embedding_provider="openai",
        openai_url=server.openai_url,
        openai_api_key="sk-test",
    )


@pytest.fixture
async def tiered(ollama: Settings) -> AsyncIterator[App]:
    """An app with the secondary model."""
    async with await App.open(ollama) as app:
        yield app
