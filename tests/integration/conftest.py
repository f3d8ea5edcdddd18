"""Commands of the product, an embedding service, and apps that use it as secondary model."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests import embedding_server
from tests.embedding_server import EmbeddingServer
from tests.integration.secondary_models import UNHEARD_OF

from codebase_mcp.app.app import App
from codebase_mcp.cli.main import run
from codebase_mcp.search import memory_indexes, secondary
from codebase_mcp.settings.loading import Settings

Shell = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def shell(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Run commands of the product in this process, which saves a second each.

    They run in `tmp_path` unless told where; with None, in the working directory of the moment.
    What only a process can show is tested in `test_start.py` and `test_processes.py`.
    """
    monkeypatch.setenv("CODEBASE_MCP_DATA_DIR", str(settings.data_dir))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("codebase_mcp.cli.terminal.console.width", 200)

    def run_command(
        *arguments: str, text: str = "", cwd: Path | None = tmp_path
    ) -> CompletedProcess[str]:
        if cwd is not None:
            monkeypatch.chdir(cwd)
        streams = [TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2)]
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(text.encode()), "utf-8"))
        with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
            try:
                status = run(arguments)
            except SystemExit as end:  # help and wrong usage
                status = int(end.code or 0)
        printed = [stream.buffer.getvalue().decode() for stream in streams]
        return CompletedProcess(arguments, status, *printed)

    yield run_command
    logging.captureWarnings(False)
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)


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
async def both_models(ollama: Settings) -> AsyncIterator[App]:
    """An app with the secondary model."""
    async with await App.open(ollama) as app:
        yield app


@pytest.fixture
def loads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies in memory are made without waiting for a quiet moment."""
    monkeypatch.setattr(memory_indexes, "QUIET_S", 0.0)
    monkeypatch.setattr(memory_indexes, "_LOAD_SHARE", 1.0)


@pytest.fixture
async def by_database(settings: Settings) -> AsyncIterator[App]:
    """Another process of the product, which keeps nothing in memory."""
    async with await App.open(replace(settings, search_memory_mb=0)) as app:
        yield app
