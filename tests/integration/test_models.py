"""Primary models: which one an index is made with, and how an index is rebuilt."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.indexes import found_paths, later, rows

from codebase_mcp.access.identity import ANONYMOUS
from codebase_mcp.app.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.embedding.providers import BUILTIN
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.index import batches
from codebase_mcp.index.inventory import RepositoryFacts
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

UNRELATED = ("recipe for chocolate cake", "history of the roman empire", "chess opening theory")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[App]:
    async with await App.open(settings) as app:
        yield app


async def facts(app: App, project_id: str) -> tuple[RepositoryFacts, ...]:
    [found] = [p for p in await app.projects() if p.project.project_id == project_id]
    return found.repositories


async def model_in(app: App, project_id: str) -> str:
    [repository] = await facts(app, project_id)
    return repository.profile.model


def numbered(count: int, lines: int = 20) -> dict[str, str]:
    """Files of some chunks each, no two of them alike."""
    return {
        f"m{n}.py": "".join(f"def number_{n}_{i}():\n    return {n} * {i}\n" for i in range(lines))
        for n in range(count)
    }


async def test_an_index_goes_on_with_its_own_model_and_says_so(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    root, folder = make_repo(), other_model(tmp_path / "other-model")
    await app.index(root, project_id)
    async with opened(replace(settings, embedding_model=str(folder))) as other:
        later(root / "lib/retry.ts", "export const jitter = (ms: number) => ms * Math.random();\n")
        report = await other.index(root, project_id)
        assert (report.run.files_indexed, report.run.model) == (1, "builtin")
        assert "keeps the model that made it, builtin" in (report.run.notice or "")
        assert "force_reindex" in (report.run.notice or "")
        assert (await found_paths(other, project_id, "jitter"))[0] == "lib/retry.ts"


async def test_searches_go_on_while_an_index_is_rebuilt_with_another_model(
    app: App,
    database: Database,
    settings: Settings,
    make_repo: MakeRepo,
    project_id: str,
    tmp_path: Path,
) -> None:
    root, folder = make_repo(), other_model(tmp_path / "other-model")
    await app.index(root, project_id)
    before = await rows(database, project_id)
    async with opened(replace(settings, embedding_model=str(folder))) as other:
        run = asyncio.create_task(other.index(root, project_id, force_reindex=True))
        while not run.done():
            assert (await found_paths(app, project_id, "authenticate"))[0] == "src/auth.py"
        assert (await run).run.status == "success"
        assert await model_in(other, project_id) == "other-model"
        assert (await found_paths(other, project_id, "signin with credentials"))[0] == "src/auth.py"
    assert await rows(database, project_id) == before


async def test_repositories_of_different_models_are_searched_together(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    shared = {"LICENSE": "Permission is hereby granted, free of charge, to any person.\n"}
    first = make_repo({**shared, "login.py": "def authenticate_user(password): ...\n"}, "first")
    second = make_repo({**shared, "erase.py": "def delete_image(image): ...\n"}, "second")
    folder = other_model(tmp_path / "other-model")
    await app.index(first, project_id)
    async with opened(replace(settings, embedding_model=str(folder))) as other:
        await other.index(second, project_id)
        for searching in (app, other):
            assert (await found_paths(searching, project_id, "user password"))[0] == "login.py"
            assert (await found_paths(searching, project_id, "delete a picture"))[0] == "erase.py"
            for query in UNRELATED:
                assert await found_paths(searching, project_id, query) == []
        answer = (await other.search("permission granted free of charge", project_id)).answer
        [licence] = [hit for hit in answer.hits if hit.file_path == "LICENSE"]
        assert [place.file_path for place in licence.also_at] == ["LICENSE"]
        await other.remove(second, project_id)
    assert await found_paths(app, project_id, "free of charge") == ["LICENSE"]
    assert await embedded_by(app, project_id, "other-model") == 0


async def embedded_by(app: App, project_id: str, model: str) -> int:
    """How many chunks have a vector of a model."""
    async with app.enter(project_id) as here:
        row = await here.tx.fetch_one(
            "SELECT count(*) FROM chunk_vector JOIN profile ON profile.id = profile_id"
            " WHERE model = %(model)s",
            model=model,
        )
    assert row is not None
    count: int = row[0]
    return count


async def test_a_model_that_cannot_be_opened_any_more_is_named_with_a_way_out(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    root, folder = make_repo(), other_model(tmp_path / "other-model")
    async with opened(replace(settings, embedding_model=str(folder))) as theirs:
        await theirs.index(root, project_id)
    assert (await found_paths(app, project_id, "authenticate"))[0] == "src/auth.py"
    shutil.rmtree(folder)
    async with opened(settings) as later_on:
        for call in (later_on.search("login", project_id), later_on.index(root, project_id)):
            with pytest.raises(EmbeddingUnavailable) as caught:
                await call
            assert "other-model" in caught.value.message
            assert "force_reindex" in (caught.value.hint or "")
        health = await later_on.health(project_id, identity=ANONYMOUS)
        assert health.status == "degraded"
        await later_on.index(root, project_id, force_reindex=True)
        assert (await found_paths(later_on, project_id, "authenticate"))[0] == "src/auth.py"


async def test_a_model_whose_files_have_changed_is_not_taken_for_the_old_one(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str, tmp_path: Path
) -> None:
    folder = other_model(tmp_path / "other-model")
    async with opened(replace(settings, embedding_model=str(folder))) as theirs:
        await theirs.index(make_repo(), project_id)
    other_model(folder, blanks=2)
    async with opened(replace(settings, embedding_model=str(BUILTIN))) as process:
        process.models._opened.clear()  # as another process would: nothing is cached there
        from codebase_mcp.embedding import models  # noqa: PLC0415

        models._load_static.cache_clear()
        with pytest.raises(EmbeddingUnavailable, match="no longer the one"):
            await process.search("login", project_id)


async def test_worker_processes_embed_with_the_model_of_each_run(
    app: App,
    database: Database,
    settings: Settings,
    make_repo: MakeRepo,
    project_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "SMALL_CHARS", 0)  # however little, it goes to the workers
    root = make_repo(numbered(20))
    await app.index(root, project_id)
    folder = other_model(tmp_path / "other-model")
    async with opened(replace(settings, embedding_model=str(folder))) as other:
        report = await other.index(root, project_id, force_reindex=True)
        assert (report.run.status, report.run.files_indexed) == ("success", 20)
        assert report.run.model == "other-model"
        counted = await rows(database, project_id)
        assert counted["chunk_vector"] == counted["chunk"]
        later(root / "m1.py", "def number_one_again():\n    return 1\n")
        await app.index(root, project_id)
        assert await embedded_by(app, project_id, "other-model") == counted["chunk"] + 1


def other_model(folder: Path, blanks: int = 1) -> Path:
    """The built-in model in another folder, with another fingerprint."""
    shutil.copytree(BUILTIN, folder, dirs_exist_ok=True)
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text((BUILTIN / "tokenizer.json").read_text() + " " * blanks)
    return folder
