"""Commands that ask for a job: it is done after they have ended, or they say that nobody works."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.integration.conftest import Shell
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.app.background.indexing import indexing_state, start_indexing
from codebase_mcp.app.background.worker import LOG, Worker
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Process = Callable[..., str]

LIMIT_S = 90


@pytest.fixture
def process(settings: Settings, tmp_path: Path) -> Process:
    """Runs a command to its end, in a directory of its own, and says what it printed."""

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "codebase_mcp.cli.main", *arguments],
            env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir), "COLUMNS": "300"},
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert not done.stderr
        return done.stdout

    return run


async def no_worker(app: App) -> bool:
    return await app.jobs.workers() == 0


async def test_the_documents_example_works_as_it_is_written(
    app: App, process: Process, make_repo: MakeRepo, settings: Settings, project_id: str
) -> None:
    repo = str(make_repo())
    arguments = ["--collection", project_id, "--repository_path", repo, "--depth", "100"]
    started = json.loads(process("index_codebase", *arguments))
    assert started["status"] in ("started", "completed")
    assert "notice" not in started
    state = json.loads(process("get_indexing_status", "--collection", project_id))
    assert "notice" not in state
    asked = ["--query", "authenticate user", "--collection", project_id, "--limit", "5"]
    found = json.loads(process("search_code", *asked))
    assert "error" not in found

    async def done() -> bool:
        return not (await indexing_state(app, project_id)).progress.is_indexing

    await until(done)
    found = json.loads(process("search_code", *asked))
    assert found["results"][0]["file"] == "src/auth.py"
    await until(lambda: no_worker(app))  # it ends by itself
    assert f"index {repo}" in (settings.data_dir / LOG).read_text()


async def test_a_job_for_the_background_is_begun_by_a_worker_that_the_command_leaves_behind(
    app: App, process: Process, make_repo: MakeRepo, project_id: str
) -> None:
    process("index", str(make_repo()), "--background", "--project", project_id)

    async def done() -> bool:
        return (await indexing_state(app, project_id)).progress.percent == 100

    await until(done)
    await until(lambda: no_worker(app))


def test_without_workers_every_command_says_that_none_is_running(
    shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    repo = str(make_repo())
    arguments = ["--collection", project_id, "--repository_path", repo, "--jobs", "0"]
    assert (
        "no worker is running" in json.loads(shell("index_codebase", *arguments).stdout)["notice"]
    )
    state = json.loads(shell("get_indexing_status", "--collection", project_id).stdout)
    assert (state["is_indexing"], state["queued"]) == (True, True)
    assert "no worker is running" in state["notice"]
    for command in ("status", "jobs"):
        told = shell(command, "--project", project_id).stdout
        assert "no worker is running" in told
        assert repo in told
    again = shell("index", repo, "--background", "--project", project_id, "--jobs", "0")
    assert "no worker is running" in again.stdout


async def test_a_job_queued_while_a_worker_ends_is_run_by_that_worker(
    app: App, make_repo: MakeRepo, settings: Settings, project_id: str
) -> None:
    repo = make_repo()
    async with await App.open(settings) as elsewhere:
        before_start = await hold_queue(app)
        worker = asyncio.create_task(Worker(elsewhere, 1).run(once=True))
        while_running = await allow_one_check(app, before_start)
        await until(lambda: is_one_worker(app))
        after_end = await allow_one_check(app, while_running)
        await until(lambda: no_worker(app))
        started = await start_indexing(app, repo, project_id, wait_s=0)
        assert not started.has_worker
        await after_end.aclose()
        await asyncio.wait_for(worker, LIMIT_S)
    assert (await indexing_state(app, project_id)).progress.percent == 100


async def hold_queue(app: App) -> AsyncExitStack:
    """Block checks of the queue until this is closed."""
    held = AsyncExitStack()
    tx = await held.enter_async_context(app.database.catalogue())
    await tx.lock("tend jobs")
    return held


async def allow_one_check(app: App, held: AsyncExitStack) -> AsyncExitStack:
    """Let the waiting worker check the queue once, and block its next check."""
    await until(lambda: are_waiting(app, 1))
    following = asyncio.create_task(hold_queue(app))
    await until(lambda: are_waiting(app, 2))
    await held.aclose()
    return await following


async def are_waiting(app: App, count: int) -> bool:
    async with app.database.catalogue(readonly=True) as tx:
        row = await tx.fetch_one(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        )
    return row == (count,)


async def is_one_worker(app: App) -> bool:
    return await app.jobs.workers() == 1
