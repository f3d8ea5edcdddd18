"""Workers as processes: killed, told to end, several on one queue; jobs cancelled in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from tests.integration.conftest import Shell
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.app.background.indexing import (
    IndexingProgress,
    Started,
    indexing_state,
    start_indexing,
)
from codebase_mcp.app.background.lifespan import working
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.index.store import WRITE_LOCK
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Start = Callable[..., subprocess.Popen[str]]
COMMAND = [sys.executable, "-m", "codebase_mcp.cli.main"]

# Enough for several batches: what stops a run finds it in the middle.
FILES = 2000
# Nothing here takes a tenth of it.
LIMIT_S = 90


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """Start commands of the product; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
async def other(anyio_backend: str, settings: Settings) -> AsyncIterator[App]:
    """The product once more, as another process has it."""
    async with await App.open(settings) as app:
        yield app


@pytest.fixture
def large(make_repo: MakeRepo) -> Path:
    """A repository whose first run takes some batches."""
    return make_repo(
        {f"m{n}.py": f"def number_{n}():\n    return {n}\n" * 30 for n in range(FILES)}
    )


async def ended(app: App, started: Started) -> IndexJob:
    """The job once it has ended."""

    async def job() -> IndexJob | None:
        [now] = await app.jobs.jobs(job_id=started.job.id)
        return None if now.is_pending else now

    found: IndexJob = await until(job)
    return found


async def in_the_middle(app: App, project_id: str) -> IndexingProgress:
    """The progress of a run that has stored something and goes on."""

    async def progress() -> IndexingProgress | None:
        now = (await indexing_state(app, project_id)).progress
        return now if not now.queued and 0 < now.files_done < now.files_total else None

    found: IndexingProgress = await until(progress)
    return found


@asynccontextmanager
async def held_in_the_middle(app: App, project_id: str) -> AsyncIterator[None]:
    """While the block goes on, a run that has stored something stores no more."""
    await in_the_middle(app, project_id)
    async with app.enter(project_id) as here:
        await here.tx.lock(WRITE_LOCK)
        yield


async def test_a_killed_workers_job_goes_on_elsewhere_from_the_last_batch(
    app: App, start: Start, large: Path, project_id: str
) -> None:
    started = await start_indexing(app, large, project_id, wait_s=0)
    victim = start("worker")
    seen = await in_the_middle(app, project_id)
    assert seen.current_file
    assert 0 < seen.percent < 100
    victim.send_signal(signal.SIGSTOP)  # or it might be done before the other one is there
    heir = start("worker")

    async def both() -> bool:
        return await app.jobs.workers() == 2

    await until(both)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert (await indexing_state(app, project_id)).progress.is_indexing
    assert (await ended(app, started)).status == "done"
    last = (await indexing_state(app, project_id)).progress.last_run
    assert last is not None
    assert (last.status, last.operation_id) == ("success", started.job.operation_id)
    assert 0 < last.files_indexed < FILES  # the rest was there already
    assert (await app.index(large, project_id)).run.files_unchanged == FILES
    heir.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(heir.wait, LIMIT_S) == 0


async def test_a_worker_that_is_told_to_end_gives_its_job_back_at_once(
    app: App, start: Start, large: Path, project_id: str
) -> None:
    started = await start_indexing(app, large, project_id, wait_s=0)
    worker = start("worker")
    async with held_in_the_middle(app, project_id):
        worker.send_signal(signal.SIGTERM)
        _, complaint = await asyncio.to_thread(worker.communicate, timeout=LIMIT_S)
        assert worker.returncode == 0, complaint
    [job] = await app.jobs.jobs(job_id=started.job.id)
    assert job.status == "waiting"
    once = start("worker", "--once")
    assert await asyncio.to_thread(once.wait, LIMIT_S) == 0
    assert (await ended(app, started)).status == "done"
    again = (await app.index(large, project_id)).run
    assert again.files_unchanged == FILES


async def test_a_cancelled_job_stops_and_keeps_what_it_has_stored(
    app: App, other: App, large: Path, project_id: str
) -> None:
    async with working(other, 1):
        started = await start_indexing(app, large, project_id, wait_s=0)
        async with held_in_the_middle(app, project_id):
            await app.jobs.cancel([started.job.id])
            assert (await ended(app, started)).status == "cancelled"
        state = (await indexing_state(app, project_id)).progress
        assert not state.is_indexing
        assert state.last_run is not None
        assert state.last_run.status == "cancelled"
        async with app.enter(project_id, readonly=True) as here:
            [[stored]] = await here.tx.fetch_all("SELECT count(*) FROM file")
        assert 0 < stored < FILES
        again = await start_indexing(app, large, project_id)
        assert (await ended(app, again)).status == "done"
    last = (await indexing_state(app, project_id)).progress.last_run
    assert last is not None
    assert 0 < last.files_indexed < FILES


async def test_two_workers_share_a_queue_and_each_job_is_done_once(
    app: App, other: App, make_repo: MakeRepo, project_id: str
) -> None:
    roots = [make_repo({f"f{n}.py": f"x = {n}\n"}, f"r{n}") for n in range(8)]
    jobs = [await start_indexing(app, root, project_id, wait_s=0) for root in roots]
    async with working(app, 1), working(other, 2):
        for job in jobs:
            assert (await ended(app, job)).status == "done"
    async with app.database.catalogue(readonly=True) as tx:
        ids = [job.job.id for job in jobs]
        starts = await tx.fetch_all(
            "SELECT job_id FROM procrastinate_events"
            " WHERE type = 'started' AND job_id = ANY(%(ids)s)",
            ids=ids,
        )
    assert sorted(row[0] for row in starts) == sorted(ids)


async def test_of_one_repository_one_job_runs_and_one_more_waits(
    app: App, other: App, large: Path, project_id: str
) -> None:
    async with working(other, 2):
        first = await start_indexing(app, large, project_id, wait_s=0)
        await in_the_middle(app, project_id)
        second = await start_indexing(app, large, project_id, wait_s=0)
        third = await start_indexing(app, large, project_id, wait_s=0)
        assert second.job.id != first.job.id
        assert third.job.id == second.job.id
        assert (await indexing_state(app, project_id)).progress.queued
        one, two = await ended(app, first), await ended(app, second)
    assert one.ended_at is not None
    assert two.started_at is not None
    assert one.ended_at <= two.started_at


async def test_an_http_server_runs_waiting_jobs_before_the_first_call(
    app: App, start: Start, make_repo: MakeRepo, project_id: str
) -> None:
    started = await start_indexing(app, make_repo(), project_id, wait_s=0)
    server = start("serve", "--transport", "http", "--port", "0", "--toolsets", "index")
    assert (await ended(app, started)).status == "done"
    server.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(server.wait, LIMIT_S) == 0


async def test_a_stdio_server_runs_jobs_while_it_answers_calls(
    app: App, settings: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)}
    arguments = [*COMMAND[1:], "serve", "--toolsets", "index"]
    server = StdioTransport(COMMAND[0], arguments, env=environment, keep_alive=False)
    wanted = {"collection": project_id, "repository_path": str(make_repo())}
    async with Client(server) as client:
        asked = (await client.call_tool("index_codebase", wanted)).structured_content
        assert asked is not None
        assert "notice" not in asked
        jobs = await app.jobs.jobs()
        [job] = [job for job in jobs if str(job.operation_id) == asked["operation_id"]]

        async def done() -> bool:
            return not (await app.jobs.jobs(job_id=job.id))[0].is_pending

        await until(done)
    assert [now.status for now in await app.jobs.jobs(job_id=job.id)] == ["done"]


async def test_the_shell_asks_for_jobs_lists_and_cancels_them(
    app: App, shell: Shell, make_repo: MakeRepo, project_id: str
) -> None:
    async def told(*arguments: str) -> str:
        return (await asyncio.to_thread(shell, *arguments, "--project", project_id)).stdout

    async def ask(*arguments: str) -> Any:
        return json.loads(await told(*arguments, "--json"))

    asked = await ask("index", str(make_repo()), "--background", "--jobs", "0")
    assert asked["status"] == "waiting"
    [job] = (await ask("jobs", "cancel", asked["operation_id"][:13]))["jobs"]
    assert (job["operation_id"], job["root"]) == (asked["operation_id"], str(make_repo()))
    assert job["status"] == "cancelled"
    assert (await ask("jobs", "cancel", str(asked["job"])))["error"]["code"] == "NOT_FOUND"
    people = await told("jobs")
    assert project_id in people
    assert "cancelled" in people


async def test_a_dropped_project_leaves_no_job(
    app: App, other: App, large: Path, project_id: str
) -> None:
    async with working(other, 1):
        started = await start_indexing(app, large, project_id, wait_s=0)
        await in_the_middle(app, project_id)
        await app.drop_project(project_id)
        assert await app.jobs.jobs(started.job.schema_name) == []
    assert project_id not in {found.project.project_id for found in await app.projects()}
