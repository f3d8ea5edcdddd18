"""What works and what does not while the service that embeds is away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from tests.embedding_server import EmbeddingServer
from tests.git import git
from tests.integration.secondary_models import backfill_of

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.settings.loading import TOOLSETS, Settings
from codebase_mcp.tools.server import AppHolder, server_of

from .conftest import Caller

pytestmark = pytest.mark.anyio

DECISION = "We chose PostgreSQL over SQLite because several processes write at the same time."


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer(dimension=768) as server:
        yield server


@pytest.fixture
async def project(app: App, project_id: str) -> str:
    await app.resolver.resolve(project_id, ANONYMOUS, create=True)
    return project_id


@pytest.fixture
async def call(mode: Any, settings: Settings, server: EmbeddingServer) -> AsyncIterator[Caller]:
    """A client of a server whose embedder is that service."""
    chosen = replace(settings, ollama_url=server.url)
    async with Client(server_of(AppHolder(chosen), TOOLSETS), mode=mode) as client:
        yield Caller(client)


async def test_memory_is_stored_and_found_by_a_service(
    call: Caller, server: EmbeddingServer, project: str
) -> None:
    stored: dict[str, Any] = {"operation": "store", "observation_type": "Decision"}
    await call.ok("memory", **stored, content=DECISION, project_id=project)
    await call.ok("memory", **stored, content=DECISION, tags=["storage"], project_id=project)
    for query in ("which database do several processes write to", "storage"):
        reply = await call.ok("memory", operation="search", query=query, project_id=project)
        assert [found["content"] for found in reply["observations"]] == [DECISION]
    for query in ("recipe for chocolate cake", "opening theory of chess"):
        reply = await call.ok("memory", operation="search", query=query, project_id=project)
        assert reply["observations"] == []


async def test_status_and_health_report_the_state_of_the_secondary_model(
    app: App, call: Caller, server: EmbeddingServer, project: str, make_repo: Callable[..., Path]
) -> None:
    await app.index(make_repo(), project)
    health = await call.ok("project", operation="get_health", project_id=project)
    assert (health["status"], health["problems"], health["notices"]) == ("healthy", [], [])
    assert health["index"]["models"] == {"builtin": 1}
    waits = health["second_tier"]
    assert (waits["model"], waits["state"]) == ("ollama/nomic-embed-text", "waiting")
    assert (waits["chunks_done"], waits["error"], waits["replaces"]) == (0, None, None)
    chosen = replace(app.settings, ollama_url=server.url)
    async with await App.open(chosen) as other:
        found, _ = await other.resolver.resolve(project, ANONYMOUS)
        await backfill_of(other).run(found)
    status = await call.ok("get_indexing_status", collection=project)
    assert status["second_tier"] == {
        **waits, "state": "complete", "chunks_done": waits["chunks_total"],
    }  # fmt: skip
    reply = await call.ok("search_code", query="authenticate", project_id=project)
    assert reply["second_tier"] == "used"


async def test_a_model_that_is_away_is_said_in_the_words_of_the_documents(
    mode: Any, settings: Settings, tmp_path: Path, make_repo: Callable[..., Path]
) -> None:
    missing = tmp_path / "model"
    away = replace(settings, embedding_model=str(missing))
    server = server_of(AppHolder(replace(away, project_dir=tmp_path)), ["code"])
    async with Client(server, mode=mode) as client:
        call = Caller(client)
        indexing = await call.error("index_repository", repo_path=str(make_repo()))
        searching = await call.error("search_code", query="authenticate")
    assert indexing["message"] == "Failed to index repository: Embedding generation failed"
    assert searching["message"] == "Cannot generate query embedding for semantic search"
    for error in (indexing, searching):
        assert (error["code"], error["type"]) == ("EMBEDDING_ERROR", "Unavailable")
        assert str(missing) in error["details"]["reason"]
        assert error["hint"]


async def test_an_index_run_and_a_search_without_the_service_say_so(
    app: App,
    call: Caller,
    server: EmbeddingServer,
    project: str,
    settings: Settings,
    mode: Any,
    make_repo: Callable[..., Path],
) -> None:
    await server.stop()
    root = make_repo()
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    asked = {"query": "authenticate", "project_id": project}
    branch = {"operation": "search_branch", "branch": "main"}
    run = await call.ok("index_repository", repo_path=str(root), project_id=project)
    total = run["chunks_created"]
    assert run["notice"].startswith(
        f"0 of {total} chunks have vectors of ollama/nomic-embed-text; searches use words"
    )
    chosen = replace(settings, ollama_url=server.url)
    async with await App.open(chosen) as other:
        found, _ = await other.resolver.resolve(project, ANONYMOUS)
        with pytest.raises(EmbeddingUnavailable):
            await backfill_of(other).run(found)
        run = await call.ok(
            "vcs", operation="index_repository", repository_path=str(root), collection=project
        )
        assert "Start it with `ollama serve`" in run["notices"][0]
        assert (await call.ok("search_code", **asked))["second_tier"] == "missing"
        brief = await call.ok("search_code", collection=project, query="authenticate")
        assert brief["second_tier"] == "missing"
        assert "no vectors here yet" in (await call.ok("vcs", **branch, **asked))["notices"][0]
        await server.start()
        await backfill_of(other).run(found)
    run = await call.ok("index_repository", repo_path=str(root), project_id=project)
    assert "notice" not in run
    assert (await call.ok("search_code", **asked))["second_tier"] == "used"
    assert (await call.ok("vcs", **branch, **asked))["notices"] == []
    await server.stop()
    assert (await call.ok("search_code", **asked))["second_tier"] == "away"
    assert "did not answer" in (await call.ok("vcs", **branch, **asked))["notices"][0]
    holder = AppHolder(replace(chosen, replies="text"))
    async with Client(server_of(holder, ["code"]), mode=mode) as client:
        result = await client.call_tool("search_code", asked)
    [block] = result.content
    assert block.text.startswith(
        "The configured embedding model did not answer: the built-in model and words did.\n1. "
    )


async def test_memory_fails_with_a_hint_and_everything_else_works(
    call: Caller, server: EmbeddingServer, project: str, make_repo: Callable[..., Path]
) -> None:
    await call.ok(
        "memory", operation="store", content=DECISION, observation_type="Decision",
        project_id=project,
    )  # fmt: skip
    await server.stop()
    run = await call.ok("index_repository", repo_path=str(make_repo()), project_id=project)
    assert run["status"] == "success"
    reply = await call.ok("search_code", query="authenticate", project_id=project)
    assert reply["results"][0]["file_path"] == "src/auth.py"
    for tool, arguments in (
        ("memory", {"operation": "search", "query": "database"}),
        ("memory", {"operation": "inject", "query": "database"}),
        ("memory", {"operation": "store", "content": "x", "observation_type": "Insight"}),
    ):
        error = await call.error(tool, project_id=project, **arguments)
        assert error["code"] == "EMBEDDING_ERROR"
        assert "ollama" in error["hint"].lower()
    assert (await call.ok("create_task", title="Start Ollama", project_id=project))["id"]
    reply = await call.ok("memory", operation="timeline", project_id=project)
    assert [found["content"] for found in reply["observations"]] == [DECISION]
    reply = await call.ok("memory", operation="inject", project_id=project)
    assert DECISION in reply["context"]
    health = await call.ok("project", operation="get_health", project_id=project)
    assert health["status"] == "degraded"
    assert health["embedder"]["provider"] == "ollama"
    assert "Ollama" in health["problems"][0]
