"""``codebase-mcp index`` of many repositories at once, and workers that keep clones up to date."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.code_host import CodeHost, commit, hosting
from tests.integration.conftest import Shell
from tests.waiting import until

from codebase_mcp.app.app import App
from codebase_mcp.app.background.lifespan import working
from codebase_mcp.app.background.refresh import queue_refreshes
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.settings.loading import Settings

pytestmark = pytest.mark.anyio

TOKEN = "s3cret-of-the-test"
Told = Callable[..., Any]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeHost]:
    """An organisation whose repositories nobody reads without the token."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with hosting(tmp_path / "served", "github") as host:
        host.add("acme", "api", {"a.py": "def serve_orders():\n    pass\n"})
        host.add("acme", "shop", {"s.py": "def sell():\n    pass\n"})
        host.add("acme", "api-old", {"o.py": "x = 1\n"}, archived=True)
        host.add("acme", "api-fork", {"f.py": "x = 1\n"}, fork=True)
        host.add("acme", "api-new")
        host.token, host.credentials = TOKEN, f"x-access-token:{TOKEN}"
        yield host


@pytest.fixture
def told(shell: Shell, project_id: str, monkeypatch: pytest.MonkeyPatch) -> Told:
    """A command's reply as JSON, and its status. Nothing that it says may hold the token."""
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)

    async def run(*arguments: str, text: str = "") -> tuple[dict[str, Any], int]:
        command = (*arguments, "--project", project_id, "--json")
        done = await asyncio.to_thread(lambda: shell(*command, text=text))
        assert TOKEN not in done.stdout + done.stderr
        return json.loads(done.stdout), done.returncode

    return run


def organisation(host: CodeHost) -> tuple[str, ...]:
    return ("index", "--organisation", host.url("acme"), "--code-host", host.kind)


def outcomes(reply: dict[str, Any]) -> dict[str, str]:
    """What became of each repository, by the last part of its name."""
    return {
        Path(one["repository"]).name.removesuffix(".git"): one["outcome"]
        for one in reply["repositories"]
    }


async def test_an_organisation_is_indexed_with_its_token(host: CodeHost, told: Told) -> None:
    reply, status = await told(*organisation(host))
    assert outcomes(reply) == {"api": "indexed", "shop": "indexed", "api-new": "empty"}
    assert (status, reply["indexed"], reply["failed"]) == (0, 2, 0)
    commit(host.root / "acme" / "shop", {"new.py": "y = 1\n"})
    again, _ = await told(*organisation(host))
    assert outcomes(again) == {"api": "unchanged", "shop": "indexed", "api-new": "empty"}
    chosen, _ = await told(
        *organisation(host), "--dry-run", "--archived", "--forks", "--match", "API*",
        "--match", "!*-new",
    )  # fmt: skip
    names = [Path(url).name for url in chosen["repositories"]]
    assert names == ["api.git", "api-old.git", "api-fork.git"]


async def test_a_repository_that_fails_does_not_stop_the_others(
    host: CodeHost, told: Told, shell: Shell, project_id: str, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(f"{name} = 1\n")
    secret = host.url("acme/shop", "me:wr0ng-pass@")
    text = f"# ours\n\n{tmp_path}/one\n  two\none/\n{secret}\n{tmp_path}/nowhere\n"
    reply, status = await told("index", "--from", "-", str(tmp_path / "two"), text=text)
    assert status == 1
    found = [(one["repository"], one["outcome"]) for one in reply["repositories"]]
    shown = f"…@127.0.0.1:{host.port}/acme/shop"
    assert found == [
        ("two", "indexed"),
        ("one/", "indexed"),
        (shown, "failed"),
        (f"{tmp_path}/nowhere", "failed"),
    ]
    assert "does not exist" in reply["repositories"][3]["error"]["message"]
    people = await asyncio.to_thread(
        shell, "index", "one", secret, "nowhere", "--project", project_id
    )
    assert people.returncode == 1
    assert "wr0ng-pass" not in people.stdout + people.stderr
    assert people.stdout.splitlines()[-1] == "3 repositories: 1 unchanged, 2 failed"


async def test_a_job_is_queued_for_each(
    told: Told, shell: Shell, make_repo: Callable[..., Path], project_id: str
) -> None:
    roots = [str(make_repo({"a.py": "x = 1\n"}, name)) for name in ("one", "two")]
    reply, status = await told("index", *roots, "--background", "--jobs", "0")
    assert (status, reply["queued"]) == (0, 2)
    jobs, _ = await told("jobs")
    assert [job["root"] for job in jobs["jobs"]] == roots
    newest = await asyncio.to_thread(shell, "jobs", "--project", project_id, "--limit", "1")
    assert roots[1] in newest.stdout
    assert roots[0] not in newest.stdout
    assert "The newest 1 of 2 jobs are shown" in newest.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "b", "--name", "x"], "--name is for a single repository"),
        (["a", "b", "--full"], "--full is for URLs: a directory is indexed as it is"),
        (["a", "--match", "x"], "--match needs --organisation"),
        (["--from", "nowhere"], "Cannot read the list nowhere"),
        (["--from", "-"], "No repository is named"),
    ],
)
def test_what_cannot_be_meant_is_refused(shell: Shell, arguments: list[str], message: str) -> None:
    done = shell("index", *arguments)
    assert done.returncode == 1
    assert message in done.stderr


async def test_long_lists_of_repositories_are_filtered_and_counted(
    told: Told, shell: Shell, make_repo: Callable[..., Path], project_id: str
) -> None:
    roots = [str(make_repo({"a.py": "x = 1\n"}, name)) for name in ("api-1", "api-2", "shop")]
    await told("index", *roots)
    for command in ("projects", "status"):
        run = [command, "--project", project_id, "--match", "api-*"]
        some = await asyncio.to_thread(shell, *run, "--limit", "1")
        assert "1 of 2 repositories are shown" in some.stdout
        assert "2 repositories" in (await asyncio.to_thread(shell, *run)).stdout
        none = await asyncio.to_thread(shell, command, "--project", project_id, "--match", "api")
        assert "No repository fits" in none.stdout
    by_project = await asyncio.to_thread(shell, "projects", "--match", project_id, "--json")
    [listed] = json.loads(by_project.stdout)
    assert len(listed["repositories"]) == 3


async def test_a_worker_updates_old_clones_and_each_once(
    app: App, host: CodeHost, told: Told, settings: Settings, project_id: str
) -> None:
    await told(*organisation(host), "--match", "shop")
    commit(host.root / "acme" / "shop", {"new.py": "def refund_order():\n    pass\n"})
    settings = replace(settings, refresh_minutes=30, github_token=TOKEN)

    async def jobs() -> list[IndexJob]:
        async with app.enter(project_id) as here:
            return await app.jobs.jobs(here.project.schema_name)

    async def refreshed() -> list[IndexJob]:
        async with await App.open(settings) as other, working(other, 1):
            await queue_refreshes(other)
            await until(lambda: ended(jobs))
        return await jobs()

    assert not await refreshed()  # it was indexed just now
    await make_old(app, project_id)
    environment = {**os.environ, "CODEBASE_MCP_DATA_DIR": str(settings.data_dir)}
    command = [sys.executable, "-m", "codebase_mcp.cli.main", "worker", "--once", "--refresh", "30"]
    run = partial(subprocess.run, command, env=environment, check=True, capture_output=True)
    await asyncio.to_thread(run)
    [job] = await jobs()
    assert job.status == "done"
    hits = (await app.search("refund_order", project_id)).answer.hits
    assert hits[0].file_path == "new.py"
    await make_old(app, project_id)
    assert [later.id for later in await refreshed()] == [job.id]  # it had a job just now
    await forget_time(app, job)
    host.credentials = "nobody:nothing"
    [failed] = await refreshed()
    assert (failed.status, failed.id != job.id) == ("failed", True)
    assert failed.error is not None
    assert "Not allowed to read" in failed.error["message"]


async def test_repositories_that_are_no_clones_are_left_to_themselves(
    app: App, make_repo: Callable[..., Path], project_id: str
) -> None:
    await app.index(make_repo(), project_id)
    await make_old(app, project_id)
    app.settings = replace(app.settings, refresh_minutes=30)
    await queue_refreshes(app)
    async with app.enter(project_id) as here:
        assert not await app.jobs.jobs(here.project.schema_name)


async def make_old(app: App, project_id: str) -> None:
    """Let an hour pass since all repositories were indexed."""
    async with app.enter(project_id) as here:
        await here.tx.execute("UPDATE snapshot SET indexed_at = indexed_at - interval '1 hour'")


async def ended(jobs: Callable[[], Awaitable[list[IndexJob]]]) -> bool:
    return not any(job.is_pending for job in await jobs())


async def forget_time(app: App, job: IndexJob) -> None:
    """Let an hour pass since a job."""
    async with app.database.catalogue() as tx:
        await tx.execute(
            "UPDATE procrastinate_events SET at = at - interval '1 hour' WHERE job_id = %(id)s",
            id=job.id,
        )
