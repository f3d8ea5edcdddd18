"""A run that is slow is warned of, with where its time went; all runs are counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from codebase_mcp.app.app import App
from codebase_mcp.database.naming import index_lock
from codebase_mcp.database.projects import find_project
from codebase_mcp.errors import InvalidInput
from codebase_mcp.index import progress as pace
from codebase_mcp.telemetry import metrics

pytestmark = pytest.mark.anyio


@pytest.fixture
def counted() -> Iterator[Callable[..., float]]:
    """What was counted in this test, by name and labels."""
    metrics.disable()
    metrics.enable()

    def value(name: str, **labels: str) -> float:
        families = text_string_to_metric_families(metrics.render()[1].decode())
        samples = (s for f in families for s in f.samples if s.name == f"codebase_mcp_{name}")
        return next((s.value for s in samples if s.labels == labels), 0.0)

    yield value
    metrics.disable()


@pytest.mark.parametrize(
    ("files", "seconds", "slow"),
    [
        (999, 3600.0, False),
        (1_000, 5.9, False),
        (1_000, 6.1, True),
        (20_000, 119.0, False),
        (20_000, 121.0, True),
    ],
)
def test_slow_is_below_ten_thousand_files_a_minute(files: int, seconds: float, slow: bool) -> None:
    assert pace.is_slow(files, seconds) is slow


async def test_a_slow_run_is_warned_of_with_its_steps(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "LEAST_FILES", 1)
    monkeypatch.setattr(pace, "FILES_PER_MINUTE", 10_000_000)
    await app.index(make_repo(), project_id, name="shop")
    [record] = [r for r in caplog.records if r.levelno == logging.WARNING]
    message = record.getMessage()
    assert message.startswith("the index run of shop was slow: 8 files in ")
    for step in ("list", "plan", "read", "prepare", "store", "finish"):
        assert f"{step} " in message


async def test_a_run_of_few_files_is_never_called_slow(
    app: App, project_id: str, make_repo: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    await app.index(make_repo(), project_id)
    assert not caplog.records


async def test_what_runs_did_is_counted(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    counted: Callable[..., float],
) -> None:
    root = make_repo()
    first = await app.index(root, project_id)
    (root / "src2" / "other.py").unlink()
    await app.index(root, project_id)
    assert counted("index_runs_total", status="success") == 2
    assert counted("index_files_total", result="indexed") == first.run.files_indexed
    assert counted("index_files_total", result="unchanged") == first.run.files_indexed - 1
    assert counted("index_files_total", result="removed") == 1
    assert counted("index_chunks_total") == first.run.chunks_created
    assert counted("index_run_duration_seconds_count") == 2
    assert counted("index_step_seconds_total", step="prepare") > 0
    assert counted("embedding_texts_total", provider="static", model="builtin") >= (
        first.run.chunks_created
    )
    for gauge in ("index_runs_in_progress", "index_runs_waiting", "index_files_pending"):
        assert counted(gauge) == 0


async def test_a_run_that_is_broken_off_leaves_no_gauge_behind(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    counted: Callable[..., float],
) -> None:
    root = make_repo({f"f{n}.py": f"def f{n}():\n    return {n}\n" for n in range(50)})
    seen: list[float] = []
    begun = asyncio.Event()

    def progress(_: object) -> None:
        seen.append(counted("index_files_pending"))
        if seen[-1]:
            begun.set()

    run = asyncio.create_task(app.index(root, project_id, progress=progress))
    await begun.wait()
    assert counted("index_runs_in_progress") == 1
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert max(seen) == 50
    assert counted("index_runs_total", status="cancelled") == 1
    for gauge in ("index_runs_in_progress", "index_runs_waiting", "index_files_pending"):
        assert counted(gauge) == 0


async def test_a_run_waits_visibly_for_another(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    counted: Callable[..., float],
) -> None:
    root = make_repo()
    first = (await app.index(root, project_id)).run
    project = await find_project(app.database, project_id)
    async with app.database.session_locks(project, [index_lock(first.repository_id)]):
        second = asyncio.create_task(app.index(root, project_id))
        while counted("index_runs_waiting") != 1:  # the test's time limit ends this otherwise
            await asyncio.sleep(0.01)
        assert not second.done()
    assert (await second).run.status == "success"
    assert counted("index_runs_waiting") == 0
    assert counted("index_step_seconds_total", step="wait") > 0


async def test_a_path_that_is_no_directory_is_no_run(
    app: App, project_id: str, tmp_path: Path, counted: Callable[..., float]
) -> None:
    with pytest.raises(InvalidInput):
        await app.index(tmp_path / "nowhere", project_id)
    assert counted("index_runs_total", status="failed") == 0
