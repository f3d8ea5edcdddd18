"""The toolset ``index`` as the contract describes it: background indexing, its status, clearing."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from fastmcp import Client
from tests.git import git
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import working
from codebase_mcp.index.progress import RunPhase
from codebase_mcp.records.tasks import create_task
from codebase_mcp.settings.loading import Settings
from codebase_mcp.tools.server import AppHolder, server_of

from .conftest import Caller, is_time

pytestmark = pytest.mark.anyio

MakeRepo = Callable[..., Path]
Work = Callable[[], AbstractAsyncContextManager[None]]


@pytest.fixture
def toolsets() -> list[str]:
    return ["code", "index", "projects"]


@pytest.fixture
def work(app: App) -> Work:
    """A worker, elsewhere than the server that is called."""
    return lambda: working(app, 1)


@pytest.fixture
async def worker(anyio_backend: str, work: Work) -> AsyncIterator[None]:
    async with work():
        yield


async def status(call: Caller, collection: str, **arguments: Any) -> dict[str, Any]:
    return await call.ok("get_indexing_status", collection=collection, **arguments)


async def until_idle(call: Caller, collection: str) -> dict[str, Any]:
    """The status once nothing waits or runs any more."""

    async def idle() -> dict[str, Any] | None:
        now = await status(call, collection)
        return None if now["is_indexing"] else now

    return await until(idle) or {}


async def rows(app: App, project_id: str) -> list[int]:
    """How many files, chunks and vectors are stored."""
    async with app.enter(project_id, readonly=True) as here:
        counted = await here.tx.fetch_many(
            [
                ("SELECT count(*) FROM file", {}),
                ("SELECT count(*) FROM chunk", {}),
                ("SELECT count(*) FROM chunk_vector", {}),
            ]
        )
    return [rows[0][0] for rows in counted]


@pytest.mark.usefixtures("worker")
async def test_a_codebase_is_indexed_in_the_background(
    call: Caller, make_repo: MakeRepo, project_id: str
) -> None:
    started = await call.ok(
        "index_codebase", collection=project_id, repository_path=str(make_repo())
    )
    assert started["status"] in ("started", "completed")
    assert started["collection"] == project_id
    operation = str(uuid.UUID(started["operation_id"]))
    now = await until_idle(call, project_id)
    assert now["progress_percent"] == 100
    assert now["files_processed"] == now["files_total"] == 8
    assert (now["current_file"], now["estimated_time_remaining"]) == ("", 0)
    assert now["current_phase"] == now["repositories"][0]["current_phase"] == "idle"
    last = now["last_run"]
    assert (last["operation_id"], last["status"]) == (operation, "success")
    assert last["files_indexed"] == 8
    assert last["chunks_created"] >= 8
    assert is_time(last["ended_at"])
    [one] = now["repositories"]
    assert one["repository_id"] == started["repository_id"]
    found = await call.ok("search_code", query="authenticate user", collection=project_id)
    assert found["results"][0]["file"] == "src/auth.py"


@pytest.mark.usefixtures("worker")
async def test_an_unchanged_codebase_is_answered_with_completed(
    call: Caller, make_repo: MakeRepo, project_id: str
) -> None:
    arguments = {"collection": project_id, "repository_path": str(make_repo())}
    async with asyncio.timeout(60):  # on a busy machine even that may take longer than 300 ms
        while True:
            reply = await call.ok("index_codebase", **arguments)
            await until_idle(call, project_id)
            if reply["status"] == "completed" and reply["chunks_created"] == 0:
                break
    assert reply["files_processed"] == 8
    assert "error" not in reply


@pytest.mark.usefixtures("worker")
async def test_while_a_run_goes_on_the_time_that_is_left_is_never_nothing(
    call: Caller, make_repo: MakeRepo, project_id: str
) -> None:
    body = "def total(numbers):\n    return sum(number * 2 for number in numbers)\n" * 40
    root = make_repo({f"file_{n}.py": f"# {n}\n{body}" for n in range(400)})
    git(root, "init", "-q", "-b", "main")
    for number in range(30):
        (root / "file_0.py").write_text(f"x = {number}\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"change {number}")
    await call.ok("index_codebase", collection=project_id, repository_path=str(root))
    seen: dict[str, set[int | None]] = {}
    while (now := await status(call, project_id))["is_indexing"]:
        for one in (now, *now["repositories"]):
            seen.setdefault(one["current_phase"], set()).add(one["estimated_time_remaining"])
    assert {"indexing", "finishing"} <= set(seen) <= {"waiting", *get_args(RunPhase)}
    for phase, times in seen.items():
        if phase in ("waiting", "listing"):
            assert times == {None}
        else:
            assert all(seconds is not None and seconds >= 1 for seconds in times), phase


async def test_a_repeated_request_for_a_waiting_job_returns_the_same_operation(
    call: Caller, app: App, make_repo: MakeRepo, project_id: str, work: Work
) -> None:
    arguments = {"collection": project_id, "repository_path": str(make_repo())}
    first = await call.ok("index_codebase", **arguments)
    again = await call.ok("index_codebase", **arguments, depth=5)
    assert (first["status"], again["status"]) == ("started", "started")
    assert again["operation_id"] == first["operation_id"]
    waiting = await status(call, project_id)
    assert (waiting["is_indexing"], waiting["queued"]) == (True, True)
    assert (waiting["progress_percent"], waiting["estimated_time_remaining"]) == (0, None)
    assert (waiting["current_phase"], waiting["last_run"]) == ("waiting", None)
    async with work():
        done = await until_idle(call, project_id)
    assert done["last_run"]["operation_id"] == first["operation_id"]
    assert len(await app.jobs.jobs(f"project_{project_id.replace('-', '_')}")) == 1


async def test_a_server_without_workers_says_that_no_worker_runs(
    mode: Any, settings: Settings, make_repo: MakeRepo, project_id: str
) -> None:
    server = server_of(AppHolder(replace(settings, jobs=0)), ["index"])
    async with Client(server, mode=mode) as client:
        arguments = {"collection": project_id, "repository_path": str(make_repo())}
        reply = await Caller(client).ok("index_codebase", **arguments)
    assert reply["status"] == "started"
    assert "codebase-mcp worker" in reply["notice"]


@pytest.mark.usefixtures("worker")
async def test_the_names_of_the_other_documents_are_accepted(
    call: Caller, make_repo: MakeRepo, project_id: str
) -> None:
    root = str(make_repo())
    for written in ("repository_path", "repo_path", "path"):
        reply = await call.ok("index_codebase", project_id=project_id, **{written: root})
        assert reply["collection"] == project_id
    assert (await call.ok("get_indexing_status", project_id=project_id))["collection"] == project_id
    await until_idle(call, project_id)
    assert (await call.ok("clear_index", project_id=project_id))["items_deleted"] > 0
    error = await call.error("clear_index", project_id=project_id, collection="another")
    assert error["details"]["field"] == "collection"


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"repository_path": "relative"}, "repository_path", "must be absolute"),
        ({"repository_path": "/nonexistent/path"}, "repository_path", "does not exist"),
        ({"collection": "Not Valid"}, "collection", "Invalid project_id"),
        ({"depth": -1}, "depth", "must be between"),
        ({"nmae": "x"}, "nmae", "Unknown parameter"),
    ],
)
async def test_a_bad_parameter_is_refused_by_its_name_here(
    call: Caller, tmp_path: Path, arguments: dict[str, Any], field: str, message: str
) -> None:
    given = {"collection": "x", "repository_path": str(tmp_path)} | arguments
    error = await call.error("index_codebase", **given)
    assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", field)
    assert message in error["message"]


@pytest.mark.parametrize(
    ("tool", "field"), [("index_codebase", "repository_path"), ("index_repository", "repo_path")]
)
async def test_a_directory_that_may_not_be_read_is_denied(
    call: Caller, closed: Path, tool: str, field: str
) -> None:
    error = await call.error(tool, collection="x", **{field: str(closed)})
    assert (error["code"], error["type"]) == ("PERMISSION_DENIED", "InvalidInput")
    assert error["message"] == f"Repository path is not readable: {closed}"
    assert (error["details"]["field"], error["details"]["value"]) == (field, str(closed))


async def test_what_is_unknown_is_not_found(call: Caller, existing: str) -> None:
    error = await call.error("get_indexing_status", collection="never-made")
    assert error["code"] == "PROJECT_NOT_FOUND"
    assert (await call.error("clear_index", collection="never-made"))["code"] == "PROJECT_NOT_FOUND"
    for tool in ("get_indexing_status", "clear_index"):
        error = await call.error(tool, collection=existing, repository_id=str(uuid.uuid4()))
        assert error["code"] == "NOT_FOUND"
        error = await call.error(tool, collection=existing, repository_id="no uuid")
        assert error["details"]["field"] == "repository_id"


async def test_a_collection_that_was_never_indexed_is_at_zero(call: Caller, existing: str) -> None:
    reply = await status(call, existing)
    assert reply == {
        "collection": existing, "is_indexing": False, "queued": False, "progress_percent": 0,
        "files_processed": 0, "files_total": 0, "current_file": "", "estimated_time_remaining": 0,
        "current_phase": "idle", "last_run": None, "repositories": [],
    }  # fmt: skip


async def test_health_reports_missing_workers_and_failed_jobs(
    call: Caller, make_repo: MakeRepo, project_id: str, work: Work
) -> None:
    root = make_repo()
    await call.ok("index_codebase", collection=project_id, repository_path=str(root))
    health = await call.ok("project", operation="get_health", project_id=project_id)
    assert health["jobs"] == {"workers": 0, "waiting": 1, "running": 0, "failed": 0}
    assert ["no worker is running" in problem for problem in health["problems"]] == [True]
    shutil.rmtree(root)
    async with work():
        await until_idle(call, project_id)
        health = await call.ok("project", operation="get_health", project_id=project_id)
    assert health["jobs"] == {"workers": 1, "waiting": 0, "running": 0, "failed": 1}
    assert [f"index job of {root} failed" in problem for problem in health["problems"]] == [True]


async def test_a_job_that_cannot_succeed_fails_and_says_why(
    call: Caller, make_repo: MakeRepo, project_id: str, work: Work
) -> None:
    root = make_repo()
    started = await call.ok("index_codebase", collection=project_id, repository_path=str(root))
    shutil.rmtree(root)
    async with work():
        now = await until_idle(call, project_id)
        assert now["last_run"]["operation_id"] == started["operation_id"]
        assert now["last_run"]["status"] == "failed"
        assert now["last_run"]["errors"] == [f"Repository path does not exist: {root}"]
        root.mkdir()
        await call.ok("index_codebase", collection=project_id, repository_path=str(root))
        now = await until_idle(call, project_id)
    assert now["last_run"]["status"] == "success"


async def test_several_repositories_are_summed_and_listed(
    call: Caller, make_repo: MakeRepo, project_id: str
) -> None:
    for name in ("one", "two"):
        root = str(make_repo({f"{name}.py": f"def {name}():\n    pass\n"}, name))
        await call.ok("index_repository", repo_path=root, project_id=project_id)
    both = await status(call, project_id)
    assert (both["files_processed"], both["files_total"], both["progress_percent"]) == (2, 2, 100)
    assert [Path(one["root"]).name for one in both["repositories"]] == ["one", "two"]
    only = await status(call, project_id, repository_id=both["repositories"][1]["repository_id"])
    assert only["files_total"] == 1
    assert only["repositories"] == both["repositories"][1:]


async def test_clearing_removes_the_index_and_keeps_the_rest(
    call: Caller, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    await call.ok("index_repository", repo_path=str(make_repo()), project_id=project_id)
    async with app.enter(project_id) as here:
        await create_task(here.tx, "Stays")
    held = await rows(app, project_id)
    cleared = await call.ok("clear_index", collection=project_id)
    assert cleared == {"status": "cleared", "collection": project_id, "items_deleted": sum(held)}
    assert await rows(app, project_id) == [0, 0, 0]
    again = await call.ok("clear_index", collection=project_id)
    assert (again["status"], again["items_deleted"]) == ("cleared", 0)
    assert (await status(call, project_id))["repositories"] == []
    async with app.enter(project_id, readonly=True) as here:
        assert await here.tx.fetch_all("SELECT title FROM task") == [("Stays",)]


async def test_clearing_one_repository_leaves_what_the_other_shares(
    call: Caller, app: App, make_repo: MakeRepo, project_id: str
) -> None:
    shared = {"shared.py": "def shared():\n    return 1\n"}
    one = str(make_repo(shared | {"one.py": "def one():\n    return 2\n"}, "one"))
    two = str(make_repo(shared, "two"))
    first = await call.ok("index_repository", repo_path=one, project_id=project_id)
    await call.ok("index_repository", repo_path=two, project_id=project_id)
    before = await rows(app, project_id)
    cleared = await call.ok(
        "clear_index", collection=project_id, repository_id=first["repository_id"]
    )
    after = await rows(app, project_id)
    assert after == [1, 1, 1]
    assert cleared["items_deleted"] == sum(before) - sum(after)


async def test_clearing_takes_waiting_jobs_out_of_the_queue(
    call: Caller, app: App, make_repo: MakeRepo, project_id: str, work: Work
) -> None:
    await call.ok("index_codebase", collection=project_id, repository_path=str(make_repo()))
    cleared = await call.ok("clear_index", collection=project_id)
    assert cleared["items_deleted"] == 0
    async with work():
        now = await until_idle(call, project_id)
        other = await call.ok(
            "index_codebase",
            collection=project_id,
            repository_path=str(make_repo({"a.py": "x = 1\n"}, "b")),
        )
        await until_idle(call, project_id)
    assert (now["last_run"], now["repositories"]) == (None, [])
    assert (await rows(app, project_id))[0] == 1
    assert other["repository_id"]
