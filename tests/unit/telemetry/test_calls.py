"""One block around a call: counted, timed and logged, whatever becomes of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.unit.telemetry.conftest import Page

from codebase_mcp.errors import EmbeddingUnavailable, NotFound
from codebase_mcp.telemetry.metrics import looked_up
from codebase_mcp.telemetry.stopwatch import (
    duration,
    embedding_call,
    round_trip,
    step,
    stopwatch,
    tool_call,
)


@pytest.mark.parametrize(
    ("raised", "outcome", "code"),
    [
        (None, "ok", None),
        (NotFound("no such task"), "error", "NOT_FOUND"),
        (ZeroDivisionError(), "error", "RUNTIME_ERROR"),
        (asyncio.CancelledError(), "cancelled", None),
    ],
)
def test_a_call_is_counted_by_its_outcome(
    page: Callable[[], Page], raised: BaseException | None, outcome: str, code: str | None
) -> None:
    def call() -> None:
        with tool_call("get_task"):
            assert page()["tool_calls_in_progress", ()] == 1
            if raised is not None:
                raise raised

    if raised is None:
        call()
    else:
        with pytest.raises(type(raised)):
            call()
    seen = page()
    assert seen["tool_calls_in_progress", ()] == 0
    assert seen["tool_calls_total", (("outcome", outcome), ("tool", "get_task"))] == 1
    assert seen["tool_call_duration_seconds_count", (("tool", "get_task"),)] == 1
    errors = {
        labels: value for (name, labels), value in seen.items() if name == "tool_errors_total"
    }
    assert errors == ({(("code", code), ("tool", "get_task")): 1} if code else {})


def test_a_call_is_logged_at_info_with_its_tool_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "codebase_mcp"), tool_call("search_code"):
        pass
    [record] = caplog.records
    assert record.getMessage().startswith("search_code: ok in ")
    assert record.levelname == "INFO"


def test_embedding_is_counted_by_provider_and_model(page: Callable[[], Page]) -> None:
    with embedding_call("ollama", "nomic", 32):
        pass
    with pytest.raises(EmbeddingUnavailable), embedding_call("ollama", "nomic", 8):
        raise EmbeddingUnavailable("away")
    seen, of = page(), (("model", "nomic"), ("provider", "ollama"))
    assert seen["embedding_texts_total", of] == 32
    assert seen["embedding_errors_total", of] == 1
    assert seen["embedding_duration_seconds_count", of] == 1


def test_cache_look_ups_are_hits_or_misses(page: Callable[[], Page]) -> None:
    looked_up("project", hit=False)
    looked_up("project", hit=True)
    looked_up("project", hit=True)
    seen = page()
    assert seen["cache_lookups_total", (("cache", "project"), ("result", "hit"))] == 2
    assert seen["cache_lookups_total", (("cache", "project"), ("result", "miss"))] == 1


@pytest.mark.anyio
async def test_a_watch_times_the_steps_of_tasks_that_began_in_it() -> None:
    told: list[str] = []

    async def work(name: str) -> None:
        with step(name):
            await asyncio.to_thread(in_thread)

    def in_thread() -> None:
        with step("read"):
            pass

    with stopwatch("index", lambda name, _: told.append(name)) as watch:
        await asyncio.gather(work("prepare"), work("store"))
    with step("afterwards"):
        pass
    assert set(watch.seconds) == {"prepare", "store", "read"}
    assert sorted(told) == ["prepare", "read", "read", "store"]
    assert watch.in_words().endswith(" ms")


def test_round_trips_are_timed_and_counted(page: Callable[[], Page]) -> None:
    with round_trip(1):
        pass
    with stopwatch("search", lambda *_: None) as search, round_trip(2):
        pass
    assert search.round_trips == 1
    assert page()["database_round_trip_duration_seconds_count", ()] == 2


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0004, "0 ms"), (0.48, "480 ms"), (1.0, "1.0 s"), (12.34, "12.3 s")]
)
def test_times_are_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
