"""A search that took too long is warned of, with its steps."""

from __future__ import annotations

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
from codebase_mcp.app import searching
from codebase_mcp.app.app import App
from codebase_mcp.app.freshness import trees
from codebase_mcp.app.searching import SlowSearches
from codebase_mcp.database.connection import Database, Embedded
from codebase_mcp.database.naming import Project
from codebase_mcp.telemetry.stopwatch import Stopwatch, step, stopwatch

pytestmark = pytest.mark.anyio


def keep_busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What was warned of, without what else went on in the background."""
    return [record for record in caplog.records if record.name == searching.__name__]


async def test_a_search_of_code_is_looked_at_with_all_its_steps(
    app: App,
    project_id: str,
    make_repo: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await app.index(make_repo(), project_id)
    monkeypatch.setattr(searching, "SLOW_S", 3600)
    await app.search("authenticate", project_id)
    assert not warnings_in(caplog)
    monkeypatch.setattr(searching, "SLOW_S", 0)
    async with await App.open(app.settings) as other:
        await other.search("where is a parser of configuration", project_id)
    [record] = warnings_in(caplog)
    message = record.getMessage()
    for part in ("scope", "embed", "candidates", "ranking", "texts"):
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
    monkeypatch.setattr(searching, "SLOW_S", 0)
    async with await App.open(app.settings) as other:
        report = await other.search("where is a parser", project_id, with_help=True)
    [record] = warnings_in(caplog)
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
    monkeypatch.setattr(searching, "SLOW_S", 0)
    async with await App.open(replace(app.settings, check_ms=5_000)) as other:
        await other.search("where is a parser", project_id)
    _, steps = times_of(warnings_in(caplog)[-1])
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
    monkeypatch.setattr(searching, "SLOW_S", 0)
    async with await App.open(app.settings) as other:
        await other.search("where is a parser", identity=Identity(directory=root))
    _, steps = times_of(warnings_in(caplog)[-1])
    assert steps["first_run"] > 0


def test_a_busy_event_loop_is_what_is_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SLOW_S", 0)
    with stopwatch("search", lambda *_: None) as watch:
        keep_busy(0.05)  # another call computes
        with step("scope"):
            pass
    SlowSearches().record(watch)
    _, steps = times_of(warnings_in(caplog)[-1])
    assert steps["other"] >= 50
    assert steps["scope"] == 0


def test_a_quick_search_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    SlowSearches().record(Stopwatch("search", lambda *_: None))
    assert not warnings_in(caplog)


def test_many_slow_searches_do_not_fill_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "SLOW_S", 0)
    times = iter([0.0, 0.1, 0.9, 1.0])
    searches = SlowSearches(lambda: next(times))
    for _ in range(4):
        searches.record(Stopwatch("search", lambda *_: None))
    first, last = (record.getMessage() for record in warnings_in(caplog))
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
