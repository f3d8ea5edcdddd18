"""One project and several embedding models: indexing with a service, switching, going back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests import embedding_server
from tests.embedding_server import EmbeddingServer
from tests.integration.test_indexing import found_paths, later, rows

from codebase_mcp.app import App
from codebase_mcp.database.connection import Database
from codebase_mcp.database.projects import find_project
from codebase_mcp.embedding.static import BUILTIN
from codebase_mcp.errors import EmbeddingUnavailable
from codebase_mcp.index import batches
from codebase_mcp.index.inventory import RepositoryFacts
from codebase_mcp.projects.identity import NOBODY
from codebase_mcp.search.candidates import Filters
from codebase_mcp.settings import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]

UNRELATED = ("recipe for chocolate cake", "history of the roman empire", "chess opening theory")


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[EmbeddingServer]:
    async with EmbeddingServer(dimension=768) as server:
        yield server


def with_ollama(settings: Settings, server: EmbeddingServer, **changes: object) -> Settings:
    return replace(settings, ollama_url=server.url, **changes)  # type: ignore[arg-type]


def with_openai(settings: Settings, server: EmbeddingServer) -> Settings:
    server.api_key = "sk-test"
    return replace(
        settings,
        embedding_provider="openai",
        openai_url=server.openai_url,
        openai_api_key=server.api_key,
    )


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


def code_texts(server: EmbeddingServer) -> list[str]:
    """What was embedded of repositories, as the service got it."""
    return [text for text in server.texts if "number_" in text]


def numbered(count: int, lines: int = 20) -> dict[str, str]:
    """Files of some chunks each, no two of them alike."""
    return {
        f"m{n}.py": "".join(f"def number_{n}_{i}():\n    return {n} * {i}\n" for i in range(lines))
        for n in range(count)
    }


@pytest.mark.parametrize("choose", [with_ollama, with_openai])
async def test_a_service_embeds_and_its_index_is_searched(
    choose: Callable[[Settings, EmbeddingServer], Settings],
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    async with opened(choose(settings, server)) as app:
        report = await app.index(make_repo(), project_id)
        assert (report.run.status, report.run.notice) == ("success", None)
        assert (await found_paths(app, project_id, "signin with credentials"))[0] == "src/auth.py"
        for query in UNRELATED:
            assert await found_paths(app, project_id, query) == []
        [repository] = await facts(app, project_id)
        assert repository.profile.dimension == 768
        async with app.enter(project_id) as here:
            stored = str(await here.tx.fetch_all("SELECT profile::text FROM profile"))
        assert "sk-test" not in stored
        assert str(server.port) not in stored
        again = await app.index(make_repo(), project_id)
        assert again.run.chunks_created == 0


async def test_a_model_to_which_all_texts_are_alike_finds_no_more_than_others(
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many do: the cosine of two texts that have nothing in common is 0.6 or more."""
    apart = embedding_server.vector_of

    def alike(text: str, dimension: int = 96) -> NDArray[np.float64]:
        vector = apart(text, dimension)
        return vector + 1.5 * float(np.linalg.norm(vector)) / dimension**0.5

    monkeypatch.setattr(embedding_server, "vector_of", alike)
    async with opened(with_ollama(settings, server)) as app:
        await app.index(make_repo(), project_id)
        assert (await found_paths(app, project_id, "signin with credentials"))[0] == "src/auth.py"
        for query in UNRELATED:
            assert await found_paths(app, project_id, query) == []


async def test_while_the_service_is_away_only_what_needs_it_fails(
    settings: Settings, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    await server.stop()
    async with opened(with_ollama(settings, server)) as app:
        with pytest.raises(EmbeddingUnavailable) as caught:
            await app.index(make_repo(), project_id)
        assert "ollama" in (caught.value.hint or "").lower()
        async with app.enter(project_id) as here:
            assert await here.tx.fetch_one("SELECT count(*) FROM repository") == (0,)
        health = await app.health(project_id, identity=NOBODY)
        assert (health.status, health.embedder.dimension) == ("degraded", None)
        await server.start()
        assert (await app.index(make_repo(), project_id)).run.status == "success"
        await server.stop()
        with pytest.raises(EmbeddingUnavailable):
            await app.search("authenticate", project_id)


async def test_a_service_that_goes_away_fails_the_run_and_the_next_goes_on(
    settings: Settings, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo({"first.py": "def authenticate_first():\n    pass\n"})
    async with opened(with_ollama(settings, server)) as app:
        await app.index(root, project_id)
        for path, content in numbered(1200).items():
            (root / path).write_text(content)

        def cut(progress: object) -> None:
            if len(code_texts(server)) > 600:
                server.models.clear()  # somebody takes the model away

        kept = dict(server.models)
        report = await app.index(root, project_id, progress=cut)
        assert report.run.status == "failed"
        assert 0 < report.run.files_indexed < 1200
        assert report.run.errors
        server.models.update(kept)
        # Not by a search, which would finish the run.
        ranked = await app.rank("authenticate first", project_id, Filters())
        assert "first.py" in {file.candidate.path for file in ranked}
        done = await app.index(root, project_id)
        assert done.run.status == "success"
        assert report.run.files_indexed + done.run.files_indexed == 1200
        [repository] = await facts(app, project_id)
        assert repository.files == 1201


async def test_an_index_goes_on_with_its_own_model_and_says_so(
    app: App,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    await server.stop()  # nothing of this needs it
    async with opened(with_ollama(settings, server)) as other:
        later(root / "lib/retry.ts", "export const jitter = (ms: number) => ms * Math.random();\n")
        report = await other.index(root, project_id)
        assert (report.run.files_indexed, report.run.model) == (1, "builtin")
        assert "builtin" in (report.run.notice or "")
        assert "codebase-mcp model switch" in (report.run.notice or "")
        assert (await found_paths(other, project_id, "jitter"))[0] == "lib/retry.ts"


async def test_searches_go_on_while_the_model_is_switched(
    app: App,
    database: Database,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    before = await rows(database, project_id)
    async with opened(with_ollama(settings, server)) as other:
        await other.models.scale_of(await other.models.configured())
        server.released.clear()
        run = asyncio.create_task(other.index(root, project_id, force_reindex=True))
        await server.until_running(1)
        for _ in range(5):
            assert (await found_paths(app, project_id, "authenticate"))[0] == "src/auth.py"
            assert await model_in(app, project_id) == "builtin"
        server.released.set()
        while not run.done():
            assert (await found_paths(other, project_id, "authenticate"))[0] == "src/auth.py"
        assert (await run).run.status == "success"
        assert await model_in(other, project_id) == "ollama/nomic-embed-text"
        assert (await found_paths(other, project_id, "signin with credentials"))[0] == "src/auth.py"
        after = await rows(database, project_id)
        assert after["chunk_vector"] == 2 * before["chunk_vector"]
        assert after["snapshot"] == 2
        for same in ("blob", "chunk", "symbol", "frequencies"):
            assert after[same] == before[same]


async def test_a_switch_can_be_undone_at_once_and_done_again(
    app: App,
    database: Database,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    async with opened(with_ollama(settings, server)) as other:
        await other.index(root, project_id, force_reindex=True)
        later(root / "lib/retry.ts", "export const jitter = (ms: number) => ms * Math.random();\n")
        await other.index(root, project_id)
        asked = len(server.texts)
        [repository] = await facts(other, project_id)
        assert repository.kept_model == "builtin"
        assert await other.undo_switch(await find_project(database, project_id), repository.id)
        assert await model_in(other, project_id) == "builtin"
        # Not by a search, which would bring it up to date.
        ranked = await other.rank("backoff", project_id, Filters())
        assert ranked[0].candidate.path == "lib/retry.ts"
        report = await other.index(root, project_id)
        assert (report.run.files_indexed, report.run.model) == (1, "builtin")
        assert (await found_paths(other, project_id, "jitter"))[0] == "lib/retry.ts"
        assert len(server.texts) == asked
        assert await other.undo_switch(await find_project(database, project_id), repository.id)
        assert await model_in(other, project_id) == "ollama/nomic-embed-text"
        assert (await found_paths(other, project_id, "jitter"))[0] == "lib/retry.ts"


async def test_a_switch_that_is_kept_leaves_nothing_of_the_old_model(
    app: App,
    database: Database,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    before = await rows(database, project_id)
    async with opened(with_ollama(settings, server)) as other:
        await other.index(root, project_id, force_reindex=True)
        [repository] = await facts(other, project_id)
        project = await find_project(database, project_id)
        assert await other.keep_switch(project, repository.id)
        assert await rows(database, project_id) == before
        assert not await other.keep_switch(project, repository.id)
        assert not await other.undo_switch(project, repository.id)
        [repository] = await facts(other, project_id)
        assert (repository.kept_model, repository.coming_model) == (None, None)
        await other.remove(root, project_id)
    assert set((await rows(database, project_id)).values()) == {0}


async def test_a_switch_drops_what_the_switch_before_it_kept(
    app: App,
    database: Database,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    before = await rows(database, project_id)
    for choose in (with_ollama, with_openai):
        async with opened(choose(settings, server)) as other:
            await other.index(root, project_id, force_reindex=True)
    [repository] = await facts(app, project_id)
    assert repository.profile.model == "openai/text-embedding-3-small"
    assert repository.kept_model == "ollama/nomic-embed-text"
    after = await rows(database, project_id)
    assert after["chunk_vector"] == 2 * before["chunk_vector"]
    assert after["frequencies"] == before["frequencies"]


async def test_a_killed_switch_goes_on_where_it_was_and_embeds_nothing_twice(
    app: App,
    database: Database,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo(numbered(400))
    await app.index(root, project_id)
    before = await rows(database, project_id)
    switching = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SWITCHER,
        str(root),
        project_id,
        env={
            **os.environ,
            "CODEBASE_MCP_DATA_DIR": str(settings.data_dir),
            "OLLAMA_BASE_URL": server.url,
        },
        stdout=subprocess.PIPE,
    )
    assert switching.stdout is not None
    assert int(await switching.stdout.readline()) > 0
    os.kill(switching.pid, signal.SIGKILL)
    await switching.wait()
    switching.stdout._transport.close()  # type: ignore[attr-defined]
    [repository] = await facts(app, project_id)
    assert repository.profile.model == "builtin"
    assert repository.coming_model == "ollama/nomic-embed-text"
    assert await found_paths(app, project_id, "number_7_3")
    await app.index(root, project_id)  # an ordinary run leaves what was begun alone
    stored = await embedded_by(app, project_id, "ollama/nomic-embed-text")
    assert stored > 0
    sent = len(code_texts(server))
    async with opened(with_ollama(settings, server)) as other:
        report = await other.index(root, project_id, force_reindex=True)
        assert report.run.status == "success"
        assert report.run.files_unchanged > 0
        assert len(code_texts(server)) - sent == before["chunk_vector"] - stored
        assert await model_in(other, project_id) == "ollama/nomic-embed-text"


SWITCHER = """
import asyncio, sys
from codebase_mcp import App
async def main():
    app = await App.open()
    def tell(progress):
        if progress.done:
            print(progress.done, flush=True)
    await app.index(sys.argv[1], sys.argv[2], force_reindex=True, progress=tell)
if __name__ == "__main__":
    asyncio.run(main())
"""


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


async def test_repositories_of_different_models_are_searched_together(
    app: App,
    settings: Settings,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    shared = {"LICENSE": "Permission is hereby granted, free of charge, to any person.\n"}
    first = make_repo({**shared, "login.py": "def authenticate_user(password): ...\n"}, "first")
    second = make_repo({**shared, "erase.py": "def delete_image(image): ...\n"}, "second")
    await app.index(first, project_id)
    async with opened(with_ollama(settings, server)) as other:
        await other.index(second, project_id)
        for searching in (app, other):
            if searching is app:  # it knows no Ollama: its own model is all that it can ask
                with pytest.raises(EmbeddingUnavailable, match="does not answer here"):
                    await searching.search("authenticate", project_id)
                continue
            assert (await found_paths(other, project_id, "signin password"))[0] == "login.py"
            assert (await found_paths(other, project_id, "erase a picture"))[0] == "erase.py"
            for query in UNRELATED:
                assert await found_paths(other, project_id, query) == []
        answer = (await other.search("permission granted free of charge", project_id)).answer
        [licence] = [hit for hit in answer.hits if hit.file_path == "LICENSE"]
        assert [place.file_path for place in licence.also_at] == ["LICENSE"]
        await other.remove(second, project_id)
    assert await found_paths(app, project_id, "free of charge") == ["LICENSE"]
    assert await embedded_by(app, project_id, "ollama/nomic-embed-text") == 0


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
            assert "codebase-mcp model switch" in (caught.value.hint or "")
        health = await later_on.health(project_id, identity=NOBODY)
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

        models._loaded.cache_clear()
        with pytest.raises(EmbeddingUnavailable, match="no longer the one"):
            await process.search("login", project_id)


async def test_another_version_of_the_program_asks_for_a_rebuild(
    app: App, make_repo: MakeRepo, project_id: str
) -> None:
    root = make_repo()
    await app.index(root, project_id)
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE profile SET fingerprint = '0.0.0-old'")
    for call in (app.search("authenticate", project_id), app.index(root, project_id)):
        with pytest.raises(EmbeddingUnavailable, match="another version") as caught:
            await call
        assert "force_reindex" in (caught.value.hint or "")
    await app.index(root, project_id, force_reindex=True)
    [repository] = await facts(app, project_id)
    assert repository.kept_model is None
    assert (await found_paths(app, project_id, "authenticate"))[0] == "src/auth.py"


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
        assert counted["chunk_vector"] == 2 * counted["chunk"]
        later(root / "m1.py", "def number_one_again():\n    return 1\n")
        await app.index(root, project_id)
        assert await embedded_by(app, project_id, "other-model") == counted["chunk"] + 1


def other_model(folder: Path, blanks: int = 1) -> Path:
    """The built-in model in another folder, with another fingerprint."""
    shutil.copytree(BUILTIN, folder, dirs_exist_ok=True)
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text((BUILTIN / "tokenizer.json").read_text() + " " * blanks)
    return folder
