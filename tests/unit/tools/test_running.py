"""Calls under way: who ends them, and what those who wait for them hear."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from codebase_mcp.errors import NotFound, ShuttingDown
from codebase_mcp.tools.running import RunningCalls

pytestmark = pytest.mark.anyio


class Call:
    """A call that waits to be let go, and puts things in order when it is cancelled."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.in_order = asyncio.Event()

    async def run(self) -> str:
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.in_order.set()
            raise
        return "done"


async def test_outcomes_and_errors_come_through() -> None:
    calls, call = RunningCalls(), Call()
    call.go_on.set()
    assert await calls.run(call.run()) == "done"

    async def fail() -> None:
        raise NotFound("Task not found")

    with pytest.raises(NotFound):
        await calls.run(fail())
    assert len(calls) == 0


async def test_a_caller_that_is_cancelled_waits_until_its_call_is_in_order() -> None:
    calls, call = RunningCalls(), Call()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(calls.run, call.run())
            await call.begun.wait()
            scope.cancel()
    assert call.in_order.is_set()
    assert len(calls) == 0


async def test_draining_waits_for_calls_and_takes_no_new_ones() -> None:
    calls, call, late = RunningCalls(), Call(), Call()
    waiting = asyncio.create_task(calls.run(call.run()))
    await call.begun.wait()
    draining = asyncio.create_task(calls.drain(60))
    while not calls.is_draining:
        await asyncio.sleep(0)
    with pytest.raises(ShuttingDown, match="no new calls"):
        await calls.run(late.run())
    assert not draining.done()
    call.go_on.set()
    await draining
    assert await waiting == "done"


async def test_what_takes_longer_than_the_limit_is_broken_off_and_the_caller_told() -> None:
    calls, call = RunningCalls(), Call()
    waiting = asyncio.create_task(calls.run(call.run()))
    await call.begun.wait()
    await calls.drain(0)
    with pytest.raises(ShuttingDown, match="cancelled"):
        await waiting
    assert call.in_order.is_set()


async def test_a_caller_is_told_at_once_though_its_call_is_slow_to_end() -> None:
    calls, hangs = RunningCalls(), asyncio.Event()

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await hangs.wait()

    waiting = asyncio.create_task(calls.run(run()))
    while not len(calls):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    stopping = asyncio.create_task(calls.stop())
    with pytest.raises(ShuttingDown):
        await waiting
    assert not stopping.done()
    hangs.set()
    await stopping
