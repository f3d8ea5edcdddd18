"""The backfill of a secondary model: its order, interruption and concurrency."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.embedding_server import EmbeddingServer
from tests.integration.indexes import found_paths, later, rows
from tests.integration.secondary_models import (
    OLLAMA,
    OPENAI,
    UNHEARD_OF,
    backfill_of,
    code_texts,
    numbered,
    opened,
    project_of,
    secondary_model_role,
    state_of,
    until_complete,
)

from codebase_mcp.app.app import App
from codebase_mcp.app.background import backfill as background
from codebase_mcp.app.background.lifespan import backfilling
from codebase_mcp.database.connection import Database
from codebase_mcp.database.naming import backfill_lock, index_lock
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]


async def test_the_newest_files_come_first_then_by_their_path(
    both_models: App, server: EmbeddingServer, make_repo: MakeRepo, project_id: str
) -> None:
    names = ["older", "b_new", "a_new", "newest"]
    root = make_repo({f"{name}.py": f"def number_{name}():\n    return 1\n" for name in names})
    for name, age in zip(names, (300, 200, 200, 100), strict=True):
        os.utime(root / f"{name}.py", (2_000_000_000 - age, 2_000_000_000 - age))
    await both_models.index(root, project_id)
    async with both_models.enter(
        project_id
    ) as here:  # what a clone of now looks like an hour later
        await here.tx.execute("UPDATE file SET mtime_ns = ctime_ns WHERE mtime_ns = 0")
        for name, age in zip(names, (300, 200, 200, 100), strict=True):
            await here.tx.execute(
                "UPDATE file SET mtime_ns = %(time)s WHERE path = %(path)s",
                time=(2_000_000_000 - age) * 10**9,
                path=f"{name}.py",
            )
    await backfill_of(both_models).run(await project_of(both_models, project_id))
    sent = [text.split("number_")[1].split("(")[0] for text in code_texts(server)]
    # Two requests are under way at once, so neighbours may change places.
    assert (set(sent[:2]), set(sent[2:])) == ({"newest", "a_new"}, {"b_new", "older"})


async def test_a_cancelled_backfill_continues_and_embeds_nothing_twice(
    both_models: App,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo(numbered(30))
    chunks = (await both_models.index(root, project_id)).run.chunks_created
    project = await project_of(both_models, project_id)
    growth: asyncio.Task[bool]

    def stop(_: int) -> None:
        if len(code_texts(server)) > 20:
            growth.cancel()

    growth = asyncio.create_task(backfill_of(both_models).run(project, progress=stop))
    with contextlib.suppress(asyncio.CancelledError):
        await growth
    state = await state_of(both_models, project_id)
    assert (state.state, 0 < state.chunks_done < chunks) == ("waiting", True)
    sent = len(code_texts(server))
    await backfill_of(both_models).run(project)
    assert len(code_texts(server)) - sent == chunks - state.chunks_done
    assert (await state_of(both_models, project_id)).state == "complete"
    assert (await rows(database, project_id))["chunk_vector"] == 2 * chunks


async def test_a_killed_process_leaves_what_it_stored_and_another_continues(
    ollama: Settings,
    both_models: App,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    chunks = (await both_models.index(make_repo(numbered(60)), project_id)).run.chunks_created
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "codebase_mcp.cli.main",
        "model",
        "grow",
        "--project",
        project_id,
        "--json",
        env={
            **os.environ,
            "CODEBASE_MCP_DATA_DIR": str(ollama.data_dir),
            "OLLAMA_BASE_URL": server.url,
            "EMBEDDING_BATCH_SIZE": "1",
        },
        stdout=subprocess.DEVNULL,
    )
    while (await state_of(both_models, project_id)).chunks_done < 10:
        assert process.returncode is None
        await asyncio.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    while (state := await state_of(both_models, project_id)).state == "growing":
        await asyncio.sleep(0.01)  # the server takes a moment to see that nobody is there
    assert (state.state, state.chunks_done < chunks) == ("waiting", True)
    await backfill_of(both_models).run(await project_of(both_models, project_id))
    assert (await state_of(both_models, project_id)).state == "complete"


async def test_after_an_edit_only_what_is_new_is_embedded(
    both_models: App,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo({"edited.py": "def go_in(): ...\n", "kept.py": "def stay_outside(): ...\n"})
    await both_models.index(root, project_id)
    async with backfilling(both_models):
        await until_complete(both_models, project_id)
        asked = len(server.texts)
        later(root / "edited.py", f"def enter_the_house():\n    '''{UNHEARD_OF}'''\n")
        await both_models.index(root, project_id)
        while "enter_the_house" not in str(server.texts[asked:]):
            await asyncio.sleep(0.05)
        await until_complete(both_models, project_id)
    # Other tests' projects may grow beside it.
    texts = server.texts[asked:]
    assert sum("enter_the_house" in text for text in texts) == 1
    assert not any("stay_outside" in text for text in texts)
    (root / "edited.py").unlink()
    await both_models.index(root, project_id)
    assert (await state_of(both_models, project_id)).state == "complete"


async def test_another_secondary_model_is_added_and_then_replaces_the_first(
    ollama: Settings,
    openai: Settings,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo(numbered(20))
    async with opened(ollama) as app:
        chunks = (await app.index(root, project_id)).run.chunks_created
        await backfill_of(app).run(await project_of(app, project_id))
    server.api_key = "sk-test"
    async with opened(replace(openai, embedding_batch_size=1, ollama_url=server.url)) as app:
        project = await project_of(app, project_id)
        growth: asyncio.Task[bool]

        def stop(_: int) -> None:
            growth.cancel()

        growth = asyncio.create_task(backfill_of(app).run(project, progress=stop))
        with contextlib.suppress(asyncio.CancelledError):
            await growth
        state = await state_of(app, project_id)
        assert (state.model, state.replaces) == (OPENAI, OLLAMA)
        assert 0 < state.chunks_done < chunks
        asked = len(server.requests)
        assert await secondary_model_role(app, project_id, "number_7_3") == "used"
        assert {r.path for r in server.requests[asked:]} <= {"/api/embed", "/api/tags"}
        await backfill_of(app).run(project)
        state = await state_of(app, project_id)
        assert (state.state, state.replaces) == ("complete", None)
        await secondary_model_role(
            app, project_id
        )  # it asks the one that answered the last time, once
        asked = len(server.requests)
        assert await secondary_model_role(app, project_id, "number_7_3") == "used"
        assert {r.path for r in server.requests[asked:]} == {"/v1/embeddings"}
        assert (await rows(database, project_id))["chunk_vector"] == 2 * chunks


async def test_processes_with_different_models_do_not_replace_each_others_vectors(
    ollama: Settings, openai: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    async with opened(ollama) as one, opened(openai) as other:
        await one.index(make_repo(), project_id)
        project = await project_of(one, project_id)
        first, second = backfill_of(one), backfill_of(other)
        assert await first.run(project)
        assert await second.run(project)
        assert not await first.run(project)
        assert (await state_of(other, project_id)).state == "complete"


async def test_one_process_at_a_time_backfills_a_project(
    both_models: App,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "POLL_S", 0.02)
    looked = asyncio.Event()
    await both_models.index(make_repo(), project_id)
    project = await project_of(both_models, project_id)
    async with database.try_locks() as locks:
        assert await locks.acquire(project, backfill_lock())
        acquire, tries = type(locks).acquire, []

        async def counted(self: object, *of: object) -> bool:
            tries.append(of)
            if len(tries) == 3:
                looked.set()
            return await acquire(self, *of)  # type: ignore[arg-type]

        monkeypatch.setattr(type(locks), "acquire", counted)
        async with backfilling(both_models):
            await looked.wait()
            state = await state_of(both_models, project_id)
            assert (state.state, state.chunks_done) == ("growing", 0)
            await locks.release(project, backfill_lock())
            await until_complete(both_models, project_id)


async def test_the_backfill_pauses_during_an_index_run(
    both_models: App,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    report = await both_models.index(make_repo(), project_id)
    project = await project_of(both_models, project_id)
    lock = index_lock(report.run.repository_id)
    async with database.session_locks(project, [lock]):
        growth = asyncio.create_task(backfill_of(both_models).run(project))
        done, _ = await asyncio.wait([growth], timeout=1.0)
        assert not done
        assert code_texts(server, "hashlib.sha256(password") == []
    assert await growth
    assert code_texts(server, "hashlib.sha256(password") != []


async def test_removing_a_file_removes_its_vectors(
    both_models: App,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    await both_models.index(root, project_id)
    await backfill_of(both_models).run(await project_of(both_models, project_id))
    purged = await both_models.data.purge(
        await both_models.data.find(root / "src/auth.py", project_id)
    )
    assert purged.is_complete
    assert purged.before["chunk_vector"] == 2 * purged.before["chunk"]
    await both_models.remove(root, project_id)
    assert set((await rows(database, project_id)).values()) == {0}


async def test_a_rebuilt_index_is_searchable_at_once_and_backfilled_again(
    both_models: App,
    database: Database,
    server: EmbeddingServer,
    make_repo: MakeRepo,
    project_id: str,
) -> None:
    root = make_repo()
    chunks = (await both_models.index(root, project_id)).run.chunks_created
    project = await project_of(both_models, project_id)
    await backfill_of(both_models).run(project)
    await both_models.index(root, project_id, force_reindex=True)
    assert (await rows(database, project_id))["chunk_vector"] == chunks
    assert (await found_paths(both_models, project_id, "authenticate"))[0] == "src/auth.py"
    await backfill_of(both_models).run(project)
    assert (await rows(database, project_id))["chunk_vector"] == 2 * chunks
