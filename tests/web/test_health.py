"""Health: right, bounded in time, and silent about what is nobody's business."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import httpx2
import pytest
from tests.embedding_server import EmbeddingServer
from tests.web.conftest import running

from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of
from codebase_mcp.web.http import asgi_app_of, make_asgi_app

pytestmark = pytest.mark.anyio


async def test_a_healthy_server_replies_as_documented(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.get("/health")
    assert answer.status_code == 200
    health = answer.json()
    assert health.pop("uptime_seconds") >= 0
    assert health == {
        "status": "healthy",
        "database": "connected",
        "embedder": {"provider": "static", "status": "connected"},
        "version": version("codebase-mcp"),
    }
    ready = await http.get("/health/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "reasons": []})


@pytest.fixture
def silent_database() -> Iterator[str]:
    """The URL of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        yield f"postgresql://user:secret-password@127.0.0.1:{port}/some_database"


async def test_a_hanging_database_is_reported_without_delay(
    settings: Settings, silent_database: str
) -> None:
    broken = replace(settings, database_url=silent_database)
    async with running(make_asgi_app(broken)) as http:
        health = await http.get("/health")
        assert health.status_code == 503
        assert health.json()["status"] == "unhealthy"
        assert health.json()["database"] == "disconnected"
        assert health.json()["embedder"]["status"] == "connected"
        ready = await http.get("/health/ready")
        assert ready.status_code == 503
        assert ready.json()["reasons"] == ["the database does not answer within 2 s"]
        assert (await http.get("/health/live")).json() == {"status": "alive"}


async def test_health_shows_no_address_folder_or_password(settings: Settings) -> None:
    url = "postgresql://user:secret-password@127.0.0.1:9/some_database"
    async with running(make_asgi_app(replace(settings, database_url=url))) as http:
        answers = [(await http.get(path)).text for path in ("/health", "/health/ready")]
    assert '"reasons":["the database does not answer"]' in answers[1]
    for answer in answers:
        for word in ("secret", "some_database", "127.0.0.1", str(settings.data_dir)):
            assert word not in answer


async def test_a_missing_model_makes_the_server_not_ready(settings: Settings) -> None:
    broken = replace(settings, embedding_model="/nowhere/at/all")
    async with running(make_asgi_app(broken)) as http:
        ready = await http.get("/health/ready")
        health = await http.get("/health")
    assert ready.status_code == 503
    assert ready.json()["reasons"] == ["the embedder does not answer, or does not have the model"]
    assert health.json()["embedder"]["status"] == "disconnected"
    assert "/nowhere" not in ready.text + health.text


async def test_an_ollama_that_goes_away_degrades_the_server_and_does_not_fail_it(
    settings: Settings,
) -> None:
    async with EmbeddingServer() as ollama:
        asked = replace(settings, embedding_provider="ollama", ollama_url=ollama.url)
        async with running(make_asgi_app(asked)) as http:
            before = (await http.get("/health")).json()
            await ollama.stop()
            answer = await http.get("/health")
            ready = await http.get("/health/ready")
    assert (before["status"], before["ollama"]) == ("healthy", "connected")
    assert before["embedder"] == {"provider": "ollama", "status": "connected"}
    after = answer.json()
    assert (answer.status_code, after["status"]) == (200, "degraded")
    assert (after["database"], after["ollama"]) == ("connected", "disconnected")
    assert ready.status_code == 503
    assert ready.json()["reasons"][0].startswith("the embedder does not answer")


async def test_a_server_that_shuts_down_is_not_ready_but_alive(settings: Settings) -> None:
    holder = AppHolder(settings)
    app = asgi_app_of(server_of(holder, settings.toolsets), holder, settings)
    async with running(app) as http:
        await holder.calls.drain(0)
        ready = await http.get("/health/ready")
        call = await http.post("/tools/list_tasks", json={})
        alive = await http.get("/health/live")
    assert (ready.status_code, ready.json()["reasons"]) == (503, ["the server is shutting down"])
    assert (call.status_code, call.json()["error"]["type"]) == (503, "Unavailable")
    assert alive.status_code == 200


async def test_metrics_are_a_page_for_prometheus(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
