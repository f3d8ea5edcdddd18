"""The queue in the database: what becomes of jobs whose worker or server has gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from procrastinate.jobs import Job, Status

from codebase_mcp.app.app import App
from codebase_mcp.app.background.indexing import indexing_state, start_indexing
from codebase_mcp.app.background.lifespan import working
from codebase_mcp.database.connection import Database
from codebase_mcp.database.jobs import JobsConnector, OwnJobs
from codebase_mcp.database.migrate import known_migrations
from codebase_mcp.database.notifications import NotificationListener
from codebase_mcp.database.projects import Project, drop_project, ensure_project
from codebase_mcp.database.queries import strip_comments
from codebase_mcp.index.queue import MAX_CRASHES, IndexJob, JobQueue
from codebase_mcp.settings.loading import Settings

from .conftest import PlainServer

pytestmark = pytest.mark.anyio

SILENT = "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '16 seconds'"


@pytest.fixture
def queue(database: Database) -> JobQueue:
    return JobQueue(database)


async def enqueued(queue: JobQueue, project: Project, name: str = "repo") -> IndexJob:
    return await queue.enqueue(project, Path("/nowhere") / name)


async def now(queue: JobQueue, job: IndexJob) -> IndexJob:
    [found] = await queue.jobs(job_id=job.id)
    return found


async def take(queue: JobQueue) -> Job:
    """The next job, fetched by a new worker."""
    jobs = OwnJobs(JobsConnector(queue.database))
    job = await jobs.fetch_job(None, await jobs.register_worker())
    assert job is not None
    return job


async def fall_silent(queue: JobQueue, job: Job) -> None:
    """The worker of a job has not been heard of for too long."""
    async with queue.database.catalogue() as tx:
        await tx.execute(f"{SILENT} WHERE id = %(id)s", id=job.worker_id)


@pytest.fixture(autouse=True)
async def empty_queue(anyio_backend: str, database: Database) -> None:
    """What tests before this one have left is nobody's."""
    async with database.catalogue() as tx:
        await tx.execute("DELETE FROM procrastinate_jobs")


def test_the_migration_is_the_librarys_own_schema() -> None:
    schema = files("procrastinate").joinpath("sql", "schema.sql").read_text(encoding="utf-8")
    [ours] = [m.script for m in known_migrations("catalogue") if m.name == "jobs"]
    assert strip_comments(ours) == strip_comments(schema)


async def test_a_job_of_a_dead_worker_is_returned_once(queue: JobQueue, project: Project) -> None:
    job = await enqueued(queue, project)
    taken = await take(queue)
    assert (await queue.maintain()).running == 1
    assert (await now(queue, job)).status == "running"
    await fall_silent(queue, taken)
    states = await asyncio.gather(*(queue.maintain() for _ in range(8)))
    assert {(state.ready, state.running) for state in states} == {(1, 0)}
    async with queue.database.catalogue(readonly=True) as tx:
        [[arguments]] = await tx.fetch_all("SELECT args FROM procrastinate_jobs")
    assert arguments["crashes"] == 1


async def test_a_job_that_kills_three_workers_has_failed(queue: JobQueue, project: Project) -> None:
    job = await enqueued(queue, project)
    for _ in range(MAX_CRASHES):
        assert (await now(queue, job)).status == "waiting"
        await fall_silent(queue, await take(queue))
        await queue.maintain()
    failed = await now(queue, job)
    assert failed.status == "failed"
    assert failed.error is not None
    assert "ended 3 times" in failed.error["message"]
    assert (await queue.maintain()).waiting == 0


async def test_a_job_that_was_cancelled_when_its_worker_died_ends(
    queue: JobQueue, project: Project
) -> None:
    job = await enqueued(queue, project)
    taken = await take(queue)
    await queue.cancel([job.id])
    assert (await now(queue, job)).is_cancelling
    await fall_silent(queue, taken)
    await queue.maintain()
    assert (await now(queue, job)).status == "cancelled"


async def test_a_worker_that_has_lost_its_job_cannot_change_it(
    queue: JobQueue, project: Project
) -> None:
    job = await enqueued(queue, project)
    lost = await take(queue)
    await fall_silent(queue, lost)
    await queue.maintain()
    heir = await take(queue)
    assert heir.id == lost.id
    jobs = OwnJobs(JobsConnector(queue.database))
    await jobs.finish_job(lost, Status.SUCCEEDED, delete_job=False)
    await jobs.retry_job(lost)
    assert (await now(queue, job)).status == "running"
    await jobs.finish_job(heir, Status.SUCCEEDED, delete_job=False)
    assert (await now(queue, job)).status == "done"


@pytest.mark.parametrize("ending", ["killed", "told to end"])
async def test_a_job_goes_back_also_where_another_waits_in_its_place(
    queue: JobQueue, project: Project, ending: str
) -> None:
    first = await enqueued(queue, project)
    taken = await take(queue)
    second = await enqueued(queue, project)
    assert second.id != first.id
    if ending == "killed":
        await fall_silent(queue, taken)
        await queue.maintain()
    else:
        await OwnJobs(JobsConnector(queue.database)).retry_job(taken)
    assert [job.status for job in await queue.jobs(project.schema_name)] == ["waiting", "waiting"]
    assert (await take(queue)).id == first.id


async def test_a_waiting_job_gets_the_newest_options(queue: JobQueue, project: Project) -> None:
    root = Path("/nowhere/repo")
    first = await queue.enqueue(project, root, force=True, depth=5)
    again = await queue.enqueue(project, root, name="Name", depth=7)
    assert again.operation_id == first.operation_id
    taken = await take(queue)
    wishes = {key: taken.task_kwargs[key] for key in ("force", "depth", "name")}
    assert wishes == {"force": True, "depth": 7, "name": "Name"}


async def test_of_several_processes_one_queues_the_fetch_of_a_clone(
    queue: JobQueue, project: Project
) -> None:
    clones = [(project, Path(f"/nowhere/{name}")) for name in ("a", "b", "c")]
    waiting = await queue.enqueue(*clones[0])
    queued = await asyncio.gather(*(queue.enqueue_fetches(clones, 30) for _ in range(5)))
    assert sorted(queued) == [0, 0, 0, 0, 2]
    assert waiting in await queue.jobs()
    taken = await take(queue)
    assert (taken.id, taken.task_kwargs.get("fetch")) == (waiting.id, None)
    assert (await take(queue)).task_kwargs["fetch"] is True
    assert await queue.enqueue_fetches(clones, 30) == 0


async def test_dropping_a_project_leaves_the_jobs_of_others_alone(
    queue: JobQueue, project: Project, database: Database
) -> None:
    other = await ensure_project(database, "test-jobs-other")
    await enqueued(queue, project)
    await enqueued(queue, other)
    await drop_project(database, other)
    assert [job.schema_name for job in await queue.jobs()] == [project.schema_name]


async def test_a_notification_wakes_other_processes_and_listeners_are_counted(
    queue: JobQueue, project: Project, embedded: Any
) -> None:
    elsewhere = JobQueue(await Database.open(embedded))
    before = await queue.workers()
    listener: NotificationListener = elsewhere.listener()
    async with listener.listening():
        while not listener.is_connected:
            await listener.next_event().wait()
        assert await queue.workers() == before + 1
        wake = listener.next_event()
        await enqueued(queue, project)
        await asyncio.wait_for(wake.wait(), 60)
    while await queue.workers() != before:  # the server takes a moment to see that it has gone
        await asyncio.sleep(0.01)
    await elsewhere.database.close()


@pytest.fixture
async def served(
    anyio_backend: str, own_server: PlainServer, settings: Settings
) -> AsyncIterator[App]:
    async with await App.open(replace(settings, database_url=own_server.url())) as app:
        yield app


async def test_a_job_goes_on_when_its_database_was_restarted(
    served: App, own_server: PlainServer, make_repo: Callable[..., Path]
) -> None:
    root = make_repo({f"m{n}.py": f"def f{n}():\n    return {n}\n" * 30 for n in range(2000)})
    async with asyncio.timeout(120), working(served, 1):
        started = await start_indexing(served, root, "restarted", wait_s=0)
        while not 0 < (await indexing_state(served, "restarted")).progress.files_done < 2000:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(own_server.stop, signal.SIGQUIT)
        await asyncio.to_thread(own_server.start)
        while (await now(served.jobs, started.job)).is_pending:
            await asyncio.sleep(0.05)
        while await served.jobs.workers() != 1:  # it listens again
            await asyncio.sleep(0.05)
    assert (await now(served.jobs, started.job)).status == "done"
    assert (await served.index(root, "restarted")).run.files_unchanged == 2000
