"""What runs and jobs say together about the progress of indexing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from codebase_mcp.app.background.indexing import IndexingProgress, by_repository, combined
from codebase_mcp.app.background.lifespan import job_slots
from codebase_mcp.index.queue import IndexJob
from codebase_mcp.index.runs import RunState

ONE, TWO = UUID(int=1), UUID(int=2)
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(status: Any = "success", operation: int = 10, **changes: Any) -> RunState:
    """A run of 100 files, of which 30 were unchanged."""
    made = RunState(
        ONE, UUID(int=operation), "/one", status, files_total=100, files_done=50, files_indexed=20,
        chunks_created=40, current_file="a.py", errors=(), started_at=START, updated_at=at(10),
        ended_at=None if status in ("running", "interrupted") else at(10),
    )  # fmt: skip
    return replace(made, **changes)


def job(status: Any = "waiting", operation: int = 10, **changes: Any) -> IndexJob:
    made = IndexJob(
        1, UUID(int=operation), "p", "project_p", ONE, "/one", status, is_cancelling=False,
        error=None, created_at=START, started_at=None,
        ended_at=None if status in ("waiting", "running") else at(20),
    )  # fmt: skip
    return replace(made, **changes)


def progress(runs: list[RunState], jobs: list[IndexJob]) -> IndexingProgress:
    [found] = by_repository([], runs, jobs)
    return found.progress


def test_the_remaining_time_of_a_run_is_estimated_from_its_speed() -> None:
    now = progress([run("running")], [])
    assert (now.is_indexing, now.queued, now.percent) == (True, False, 50)
    assert now.current_file == "a.py"
    assert now.seconds_left == 25  # fifty files, and twenty took ten seconds
    assert now.phase == "indexing"
    assert now.last_run is None


@pytest.mark.parametrize("changes", [{"files_indexed": 0}, {"updated_at": START}])
def test_before_the_first_batch_a_typical_speed_is_assumed(changes: dict[str, Any]) -> None:
    now = progress([run("running", files_total=20_050, **changes)], [])
    assert (now.phase, now.seconds_left) == ("indexing", 100)


@pytest.mark.parametrize(
    ("runs", "jobs", "phase", "seconds_left"),
    [
        ([run("running", files_total=0, files_done=0)], [], "listing", None),
        ([run("running", files_done=99)], [], "indexing", 1),
        ([run("running", files_done=100)], [], "finishing", 1),
        ([run(files_done=100)], [job("running")], "finishing", 1),
        ([run(files_done=100)], [job("running", operation=11)], "listing", None),
        ([run("interrupted")], [job("running")], "listing", None),
        ([run("interrupted")], [job()], "waiting", None),
        ([], [job("running")], "listing", None),
        ([run(files_done=100)], [], "idle", 0),
    ],
)
def test_as_long_as_something_remains_there_is_a_time_or_the_files_are_not_listed_yet(
    runs: list[RunState], jobs: list[IndexJob], phase: str, seconds_left: int | None
) -> None:
    for now in (progress(runs, jobs), combined(by_repository([], runs, jobs))):
        assert (now.phase, now.seconds_left) == (phase, seconds_left)


def test_a_waiting_job_of_an_indexed_repository_is_at_its_beginning() -> None:
    now = progress([run()], [job(operation=11)])
    assert (now.is_indexing, now.queued, now.percent, now.seconds_left) == (True, True, 0, None)
    assert now.last_run is not None
    assert now.last_run.status == "success"


@pytest.mark.parametrize("status", ["waiting", "running"])
def test_a_job_that_lost_its_process_is_where_the_run_was(status: Any) -> None:
    now = progress([run("interrupted")], [job(status)])
    assert (now.is_indexing, now.percent, now.current_file) == (True, 50, None)


def test_an_interrupted_run_without_a_job_is_reported_as_interrupted() -> None:
    now = progress([run("interrupted")], [])
    assert (now.is_indexing, now.percent) == (False, 50)
    assert now.last_run is not None
    assert (now.last_run.status, now.last_run.ended_at) == ("interrupted", None)


def test_a_job_that_never_came_to_run_is_the_last_end() -> None:
    failed = job("failed", operation=11, error={"message": "gone"})
    last = progress([run()], [failed]).last_run
    assert last is not None
    assert (last.status, last.errors, last.ended_at) == ("failed", ("gone",), at(20))
    later = run(operation=12, ended_at=at(30))
    last = progress([later], [failed]).last_run
    assert last is not None
    assert last.operation_id == UUID(int=12)


def test_a_job_and_its_run_end_once_with_the_runs_counts() -> None:
    last = progress([run("failed")], [job("failed", error={"message": "x"})]).last_run
    assert last is not None
    assert (last.files_indexed, last.chunks_created) == (20, 40)


def test_only_what_is_being_indexed_is_summed_while_anything_is() -> None:
    going = run("running")
    idle = run(repository_id=TWO, root="/two", files_done=100)
    whole = combined(by_repository([], [going, idle], []))
    assert (whole.files_done, whole.files_total, whole.percent) == (50, 100, 50)
    assert whole.seconds_left == 25
    settled = combined(by_repository([], [replace(idle, repository_id=ONE), idle], []))
    assert (settled.is_indexing, settled.files_done, settled.percent) == (False, 200, 100)


def test_the_time_is_not_known_while_another_job_waits() -> None:
    waiting = job(operation=11, repository_id=TWO, root="/two")
    whole = combined(by_repository([], [run("running")], [waiting]))
    assert (whole.is_indexing, whole.queued, whole.seconds_left) == (True, True, None)
    assert whole.phase == "waiting"


def test_nothing_at_all_is_at_zero() -> None:
    assert combined([]) == IndexingProgress()
    [found] = by_repository([(ONE, "/one")], [], [])
    assert found.progress == IndexingProgress()


@pytest.mark.parametrize(
    ("jobs", "processes", "shares"),
    [(1, 1, [1]), (1, 3, [1, 0, 0]), (5, 3, [2, 2, 1]), (0, 2, [0, 0])],
)
def test_the_processes_of_a_server_share_its_jobs(
    jobs: int, processes: int, shares: list[int]
) -> None:
    assert [job_slots(jobs, place, processes) for place in range(processes)] == shares
