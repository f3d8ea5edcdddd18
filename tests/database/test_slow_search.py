"""A search that took too long is warned of, with its steps and a plan that shows no values."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.git import git

from codebase_mcp.access.identity import Identity
from codebase_mcp.app.app import App
from codebase_mcp.app.freshness import trees
from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.naming import Project
from codebase_mcp.search import slow
from codebase_mcp.search.slow import SlowSearches, execution_ms, slowest, without_values
from codebase_mcp.telemetry.stopwatch import RoundTrip, Stopwatch, step, stopwatch

pytestmark = pytest.mark.anyio

SECRET = "what nobody but the caller asked"


def keep_busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def slow_of(app: App) -> SlowSearches:
    """What warns of an app's slow searches."""
    assert app._searches.slow is not None
    return app._searches.slow


async def searched(database: Database, project: Project, *, query: str = SECRET) -> Stopwatch:
    """The watch of something like a search: a setting, a cheap question and a dear one."""
    with stopwatch("search", lambda *_: None, keeps_statements=True) as watch:
        async with database.transaction(project, readonly=True) as tx:
            with step("scope"):
                await tx.fetch_all("SELECT 1")
            with step("candidates"):
                await tx.fetch_many(
                    [
                        ("SELECT set_config('enable_seqscan', %(to)s, true)", {"to": "off"}),
                        ("SELECT count(*) FROM chunk WHERE blob_id = %(id)s", {"id": 12345}),
                        (
                            "SELECT count(*) FROM file AS dear, generate_series(1, 20000)"
                            " WHERE dear.path <> %(query)s OR pg_sleep(0.001) IS NULL",
                            {"query": query},
                        ),
                    ]
                )
    return watch


async def test_a_slow_search_is_warned_of_with_steps_and_plan(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    searches = SlowSearches(database, slow_s=0)
    searches.record(project, await searched(database, project))
    assert not caplog.records, "the plan is made off the request's path"
    await searches.wait_idle()
    [record] = caplog.records
    message = record.getMessage()
    assert record.levelno == logging.WARNING
    assert "a search took" in message and "candidates" in message and "scope" in message
    assert "Execution Time" in message
    assert SECRET not in message


async def test_a_search_of_code_is_looked_at_with_all_its_steps(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await app.index(make_repo(), project_id)
    await app.search("authenticate", project_id)
    assert not caplog.records
    monkeypatch.setattr(slow, "SLOW_S", 0)
    async with await App.open(app.settings) as other:
        await other.search("where is a parser of configuration", project_id)
        await slow_of(other).wait_idle()
    [record] = caplog.records
    message = record.getMessage()
    for part in ("scope", "embed", "candidates", "ranking", "texts", "Execution Time"):
        assert part in message
    assert "parser" not in message and "src/" not in message and "[0." not in message


def times_of(record: logging.LogRecord) -> tuple[float, dict[str, float]]:
    """The milliseconds of a search that was warned of, and those of each step."""
    found = re.match(r"a search took (.*?) \((.*?)\)", record.getMessage())
    assert found is not None
    steps = dict(part.split(" ", 1) for part in found[2].split(", "))
    return milliseconds(found[1]), {name: milliseconds(text) for name, text in steps.items()}


def milliseconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * (1 if unit == "ms" else 1_000)


async def test_the_steps_of_a_slow_search_add_up_to_its_time(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await app.index(make_repo(), project_id)
    monkeypatch.setattr(slow, "SLOW_S", 0)
    async with await App.open(app.settings) as other:
        report = await other.search("where is a parser", project_id, with_help=True)
        await slow_of(other).wait_idle()
    [record] = caplog.records
    whole, steps = times_of(record)
    rounded = 0.5 * (len(steps) + 1)
    assert sum(steps.values()) == pytest.approx(whole, abs=rounded)
    assert whole >= report.latency_ms - 0.5
    assert {"repository", "freshness", "query", "verify", "hits", "other"} <= set(steps)


async def test_waiting_for_the_files_to_be_compared_is_named(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await app.index(make_repo(), project_id)
    compare = trees.differences

    def compare_slowly(*arguments: Any) -> Any:
        keep_busy(0.2)  # a slow disk
        return compare(*arguments)

    monkeypatch.setattr(trees, "differences", compare_slowly)
    monkeypatch.setattr(slow, "SLOW_S", 0)
    async with await App.open(replace(app.settings, check_ms=5_000)) as other:
        await other.search("where is a parser", project_id)
        await slow_of(other).wait_idle()
    _, steps = times_of(caplog.records[-1])
    assert steps["freshness"] >= 200


async def test_waiting_for_a_first_index_is_named(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = make_repo({"a.py": "x = 1\n", ".mcp-context.toml": f'project = "{project_id}"\n'})
    git(root, "init", "-q")
    monkeypatch.setattr(slow, "SLOW_S", 0)
    async with await App.open(app.settings) as other:
        await other.search("where is a parser", identity=Identity(directory=root))
        await slow_of(other).wait_idle()
    _, steps = times_of(caplog.records[-1])
    assert steps["first_run"] > 0


async def test_a_busy_event_loop_is_what_is_left(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with stopwatch("search", lambda *_: None, keeps_statements=True) as watch:
        keep_busy(0.05)  # another call computes
        with step("scope"):
            pass
    SlowSearches(database, slow_s=0).record(project, watch)
    _, steps = times_of(caplog.records[-1])
    assert steps["other"] >= 50
    assert steps["scope"] == 0


async def test_a_plan_is_made_with_the_settings_of_the_search(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    with stopwatch("search", lambda *_: None, keeps_statements=True) as watch:
        async with database.transaction(project, readonly=True) as tx:
            await tx.fetch_all("SELECT set_config('enable_seqscan', %(to)s, true)", to="off")
            await tx.fetch_all("SELECT path FROM file WHERE path = %(path)s", path="a")
    searches = SlowSearches(database, slow_s=0)
    searches.record(project, watch)
    await searches.wait_idle()
    assert "Disabled: true" in caplog.text or "Index" in caplog.text


async def test_a_quick_search_is_not_mentioned(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    searches = SlowSearches(database, slow_s=3600)
    searches.record(project, await searched(database, project))
    await searches.wait_idle()
    assert not caplog.records


async def test_plans_are_made_once_a_minute(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([0.0, 59.0, 60.0])
    searches = SlowSearches(database, slow_s=0, clock=lambda: next(times))
    for _ in range(3):
        searches.record(project, await searched(database, project))
        await searches.wait_idle()
    assert ["Execution Time" in r.getMessage() for r in caplog.records] == [True, False, True]
    assert all("candidates" in r.getMessage() for r in caplog.records)


async def test_many_slow_searches_do_not_fill_the_log(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    times = iter([0.0, 0.1, 0.9, 1.0])
    searches = SlowSearches(database, slow_s=0, clock=lambda: next(times))
    for _ in range(4):
        searches.record(project, await searched(database, project))
        await searches.wait_idle()
    first, last = (record.getMessage() for record in caplog.records)
    assert "others" not in first
    assert last.endswith("; 2 slow searches before it were not logged")


async def test_waiting_for_a_connection_is_a_step_of_its_own(
    embedded: Embedded, project: Project
) -> None:
    with stopwatch("search", lambda *_: None) as watch:
        database = await Database.open(embedded)
        with step("scope"):
            async with database.transaction(project, readonly=True) as tx:
                await tx.fetch_all("SELECT pg_sleep(0.001)")
        await database.close()
    whole = watch.elapsed_s()
    assert watch.seconds["connection"] > 0 and watch.seconds["scope"] > 0
    assert sum(watch.seconds.values()) <= whole


async def test_a_statement_that_hangs_is_explained_by_estimates(
    database: Database,
    project: Project,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slow, "PLAN_TIMEOUT_S", 0.001)
    with stopwatch("search", lambda *_: None, keeps_statements=True) as watch:
        async with database.transaction(project, readonly=True) as tx:
            await tx.fetch_all("SELECT pg_sleep(0.05)")
    searches = SlowSearches(database, slow_s=0)
    searches.record(project, watch)
    await searches.wait_idle()
    [record] = caplog.records
    assert "cost=" in record.getMessage() and "Execution Time" not in record.getMessage()


async def test_the_warning_comes_although_the_server_ends_before_the_plan(
    database: Database, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    searches = SlowSearches(database, slow_s=0)
    searches.record(project, await searched(database, project))
    await asyncio.sleep(0)
    await searches.close()
    [record] = caplog.records
    assert "plan of its slowest statement:\ncancelled" in record.getMessage()


def test_the_slowest_round_trip_is_one_that_asks() -> None:
    trips = [
        RoundTrip([("SELECT 1", {})], 0.1),
        RoundTrip([("  WITH a AS (SELECT 1) SELECT 2", {})], 0.2),
        RoundTrip([("COMMIT", {})], 9.0),
        RoundTrip([("SELECT set_config('a', 'b', true)", {})], 9.0),
    ]
    assert slowest(trips) is trips[1]
    assert slowest(trips[2:]) is None


def test_values_are_cut_out_of_a_plan() -> None:
    plan = "Filter: ((path)::text = 'it''s/mine.py'::text)\n  Sort Key: (a <#> '[0.1,-2]'::halfvec)"
    assert without_values(plan) == (
        "Filter: ((path)::text = '…'::text)\n  Sort Key: (a <#> '…'::halfvec)"
    )


def test_the_time_of_a_plan_is_read() -> None:
    assert execution_ms("Seq Scan\nPlanning Time: 1 ms\nExecution Time: 12.5 ms") == 12.5
    assert execution_ms("Seq Scan") == 0
