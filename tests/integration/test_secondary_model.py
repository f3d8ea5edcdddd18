"""A stronger model's vectors: they come later, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedding_server import EmbeddingServer
from tests.integration.indexes import found_paths
from tests.integration.secondary_models import (
    OLLAMA,
    UNHEARD_OF,
    backfill_of,
    nearness,
    numbered,
    opened,
    project_of,
    secondary_model_role,
    state_of,
    until_complete,
)
from tests.onnx_models import make_folder

from codebase_mcp.app.app import App
from codebase_mcp.app.background import backfill as background
from codebase_mcp.app.background.lifespan import backfilling
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.search import secondary
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


async def test_a_repository_is_searched_at_once_and_the_service_is_not_even_asked(
    both_models: App, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    await server.stop()
    report = await both_models.index(make_repo(), project_id)
    assert (report.run.status, report.run.model) == ("success", "builtin")
    assert (await found_paths(both_models, project_id, "signin with credentials"))[
        0
    ] == "src/auth.py"
    assert await secondary_model_role(both_models, project_id) == "missing"
    assert server.requests == []
    state = await state_of(both_models, project_id)
    assert (state.model, state.chunks_done, state.state) == (OLLAMA, 0, "waiting")
    assert state.chunks_total == report.run.chunks_created


async def test_the_backfill_adds_vectors_of_the_service_and_searches_use_them(
    both_models: App, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    files = {"enter.py": "def authenticate(): ...\n", "leave.py": "def say_goodbye(): ...\n"}
    report = await both_models.index(make_repo(files), project_id)
    before = await nearness(both_models, project_id, UNHEARD_OF, "enter.py")
    async with backfilling(both_models):
        state = await until_complete(both_models, project_id)
    assert (state.chunks_done, state.error) == (report.run.chunks_created, None)
    assert await secondary_model_role(both_models, project_id) == "used"
    assert await nearness(both_models, project_id, UNHEARD_OF, "enter.py") > before + 0.2


async def test_a_process_without_the_secondary_model_searches_with_the_primary_one(
    app: App, ollama: Settings, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    async with opened(ollama) as other:
        await other.index(make_repo(), project_id)
        await backfill_of(other).run(await project_of(other, project_id))
    asked = len(server.requests)
    assert await secondary_model_role(app, project_id) is None
    assert (await found_paths(app, project_id, "authenticate"))[0] == "src/auth.py"
    assert (await state_of(app, project_id)).state == "complete"
    assert len(server.requests) == asked


async def test_while_the_service_is_unavailable_the_backfill_waits_and_searches_work(
    ollama: Settings,
    both_models: App,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "MIN_PAUSE_S", 0.05)
    root = make_repo({**numbered(20), "login.py": "def authenticate(user): ...\n"})
    await both_models.index(root, project_id)
    project = await project_of(both_models, project_id)

    def take_away(_: int) -> None:
        server.models.clear()

    kept = dict(server.models)
    with pytest.raises(EmbeddingUnavailable):
        await backfill_of(both_models).run(project, progress=take_away)
    state = await state_of(both_models, project_id)
    assert (state.state, 0 < state.chunks_done < state.chunks_total) == ("waiting", True)
    assert "ollama pull" in (state.error or "")
    assert await secondary_model_role(both_models, project_id) == "away"
    assert (await found_paths(both_models, project_id, "authenticate"))[0] == "login.py"
    server.models.update(kept)
    async with backfilling(both_models):
        state = await until_complete(both_models, project_id)
    assert state.error is None


async def test_a_search_does_not_wait_for_a_slow_service(
    both_models: App,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secondary, "WAIT_S", 0.05)
    await both_models.index(make_repo(), project_id)
    await backfill_of(both_models).run(await project_of(both_models, project_id))
    server.released.clear()
    asked = len(server.embeddings)
    for _ in range(3):
        assert await secondary_model_role(both_models, project_id) == "away"
    assert len(server.embeddings) == asked + 1  # while it is busy nothing more is asked
    server.released.set()
    while await secondary_model_role(both_models, project_id) != "used":
        await asyncio.sleep(0.01)


async def test_concurrent_searches_all_get_a_vector_of_the_secondary_model(
    both_models: App, make_repo: MakeRepo, project_id: str
) -> None:
    await both_models.index(make_repo(), project_id)
    await backfill_of(both_models).run(await project_of(both_models, project_id))
    await secondary_model_role(both_models, project_id)
    searches = (
        secondary_model_role(both_models, project_id, f"authenticate {n}") for n in range(8)
    )
    assert await asyncio.gather(*searches) == ["used"] * 8


async def test_a_transformer_in_this_process_can_be_the_secondary_model(
    settings: Settings, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "words")
    files = {"enter.py": "def authenticate(): ...\n", "leave.py": "def delete_file(): ...\n"}
    async with opened(replace(settings, embedding_model=str(folder))) as app:
        assert (await app.index(make_repo(files), project_id)).run.model == "builtin"
        async with backfilling(app):
            state = await until_complete(app, project_id)
        assert (state.model, state.chunks_done) == ("onnx/words", 2)
        assert await secondary_model_role(app, project_id) == "used"
    network = folder / "onnx" / "model.onnx"
    async with opened(replace(settings, embedding_model=str(network))) as app:
        assert await secondary_model_role(app, project_id) == "used"


async def test_chunks_without_secondary_vectors_are_at_no_disadvantage(
    both_models: App, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    first = make_repo({"login.py": "def authenticate_user(password): ...\n"}, "first")
    second = make_repo({"enter.py": "def authenticate_guest(password): ...\n"}, "second")
    one = await both_models.index(first, project_id)
    await both_models.index(second, project_id)
    project = await project_of(both_models, project_id)
    await backfill_of(both_models).run(project, [one.run.repository_id])
    state = await state_of(both_models, project_id)
    assert (state.chunks_done, state.chunks_total) == (1, 2)
    for query in ("authenticate", "authenticate with a password"):
        found = await both_models.search(query, project_id)
        assert found.answer.secondary_model == "used"
        assert {hit.file_path for hit in found.answer.hits} == {"login.py", "enter.py"}
    alone = await nearness(both_models, project_id, UNHEARD_OF, "enter.py")
    assert await nearness(both_models, project_id, UNHEARD_OF, "login.py") > alone + 0.2
    await backfill_of(both_models).run(project)
    assert await nearness(both_models, project_id, UNHEARD_OF, "enter.py") > alone + 0.2
